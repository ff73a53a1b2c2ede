// The TypeScript SDK's server as it comes: over HTTP with a port as third argument, else over stdio.
// Its first argument is the folder the SDK is installed in, the second how many more tools to list.
'use strict';
const { createRequire } = require('node:module');
const path = require('node:path');

const [folder, more, port] = process.argv.slice(2);
const installed = createRequire(path.join(folder, 'any.js'));
const { McpServer, fromJsonSchema, createMcpHandler } = installed('@modelcontextprotocol/server');

const text = { type: 'string' };
const schema = (properties, required) => fromJsonSchema({ type: 'object', properties, required });
const said = value => ({ content: [{ type: 'text', text: value }] });
const echoed = schema({ text }, ['text']);
const ticked = schema({ count: { type: 'integer' } }, ['count']);
const many = schema(
  {
    text: { ...text, description: 'What to say.' },
    count: { type: 'integer', default: 1, description: 'How many times.' },
    loud: { type: 'boolean', default: false, description: 'Whether to shout.' },
  },
  ['text'],
);

function build() {
  const server = new McpServer({ name: 'echo', version: '1' });
  server.registerTool('echo', { description: 'Say it again.', inputSchema: echoed }, async given => said(given.text));
  server.registerTool(
    'tick',
    { description: 'Report progress `count` times.', inputSchema: ticked },
    async ({ count }, context) => {
      const progressToken = context.mcpReq._meta?.progressToken;
      for (let progress = 1; progress <= count; progress++) {
        const params = { progressToken, progress, total: count };
        await context.mcpReq.notify({ method: 'notifications/progress', params });
      }
      return said('done');
    },
  );
  for (let number = 0; number < Number(more); number++) {
    const name = `tool_${String(number).padStart(4, '0')}`;
    const description = `Say it again, number ${number}.`;
    server.registerTool(name, { description, inputSchema: many }, async given => said(given.text));
  }
  return server;
}

if (port) {
  const { createServer } = require('node:http');
  const { toNodeHandler } = installed('@modelcontextprotocol/node');
  createServer(toNodeHandler(createMcpHandler(build))).listen(Number(port), '127.0.0.1');
} else {
  installed('@modelcontextprotocol/server/stdio').serveStdio(build);
}
