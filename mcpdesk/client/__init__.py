"""One client for everything that talks to an MCP server: every revision, over any transport."""
