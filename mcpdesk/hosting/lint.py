"""Looks at what a server folder offers with the eyes of clients and models.

Limits of clients change; each is named with whose it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcpdesk.hosting.finding import Finding, Level, from_text
from mcpdesk.hosting.lint_schema import parameter_trouble
from mcpdesk.hosting.manifest import Manifest
from mcpdesk.server.prompt import Prompt
from mcpdesk.server.registry import Registry
from mcpdesk.server.resource import ResourceTemplate
from mcpdesk.server.server import Server
from mcpdesk.server.tool import Tool

CUT_BYTES = 2048
"""Claude Code cuts descriptions of tools and instructions of servers there."""
OPENAI_CHARACTERS = 1024
"""The longest description of a function that OpenAI's API takes."""
API_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What model APIs take as the name of a tool."""
API_NAME_LENGTH = 64
MANY_TOOLS = 40
"""Cursor offers a model no more than that, of all servers together."""
BUILT_IN = "built-in"
LARGE_RESOURCE = 1 << 20


def lint(
    server: Server, manifest: Manifest, warnings: tuple[str, ...], environment: Mapping[str, str]
) -> list[Finding]:
    """Everything there is to say, what does not work first. `warnings` is what the host found wrong."""
    found = [
        *(from_text(Level.ERROR, text) for text in (*server.problems, *warnings)),
        *_unavailable(server),
        *_identity(server, manifest),
        *_preconditions(manifest, environment),
        *(each for tool in server.tools if tool.source != BUILT_IN for each in _tool(tool, server.name)),
        *(each for prompt in server.prompts for each in _prompt(prompt)),
        *(
            each
            for template in server.templates
            if template.source != BUILT_IN
            for each in _template(template)
        ),
        *_resources(server),
    ]
    return sorted(found, key=lambda each: list(Level).index(each.level))


def _shelves(server: Server) -> tuple[Registry[Any], ...]:
    return server.tools, server.resources, server.templates, server.prompts


def _unavailable(server: Server) -> Iterator[Finding]:
    for registry in _shelves(server):
        for each in registry.unavailable:
            level = Level.NOTE if each.is_fit else Level.ERROR
            told = f"is not offered: {each.reason}" if each.is_fit else each.reason
            yield Finding(level, told, each.source, f"{registry.kind} {each.name}")


def _identity(server: Server, manifest: Manifest) -> Iterator[Finding]:
    if not any(len(each) or each.unavailable for each in _shelves(server)):
        told = "nothing is offered: no file in tools/, resources/, prompts/ or skills/, nothing in mcp.json"
        yield Finding(Level.WARNING, told)
    size = len(server.instructions.encode())
    if size > CUT_BYTES:
        told = f"the instructions have {size} bytes; Claude Code cuts them at {CUT_BYTES}"
        yield Finding(Level.WARNING, told, manifest.source("instructions"))
    if len(server.tools) > MANY_TOOLS:
        told = f"{len(server.tools)} tools; Cursor offers {MANY_TOOLS} of all servers. Modes can be smaller"
        yield Finding(Level.WARNING, told)


def _preconditions(manifest: Manifest, environment: Mapping[str, str]) -> Iterator[Finding]:
    """What has to be there when it is served."""
    jwt = manifest.auth.jwt
    if jwt is None:
        return
    if jwt.secret_env and not environment.get(jwt.secret_env):
        told = f"auth.jwt.secret_env: {jwt.secret_env} is not set here; no token would be accepted"
        yield Finding(Level.NOTE, told, manifest.source("auth", "jwt", "secret_env"))
    if jwt.jwks_file and not (manifest.folder / jwt.jwks_file).is_file():
        told = f"auth.jwt.jwks_file: there is no file {jwt.jwks_file}: no token would be accepted"
        yield Finding(Level.WARNING, told, manifest.source("auth", "jwt", "jwks_file"))


def _tool(tool: Tool, server: str) -> Iterator[Finding]:
    told = [
        *_tool_name(tool.name, server),
        *_description(tool.description),
        *parameter_trouble(tool.input_schema),
    ]
    for message in told:
        yield Finding(Level.WARNING, message, tool.source, f"tool {tool.name}")
    if len(tool.description) > OPENAI_CHARACTERS and len(tool.description.encode()) <= CUT_BYTES:
        message = (
            f"the description has {len(tool.description)} characters; OpenAI's API takes {OPENAI_CHARACTERS}"
        )
        yield Finding(Level.NOTE, message, tool.source, f"tool {tool.name}")


def _tool_name(name: str, server: str) -> Iterator[str]:
    if not API_NAME.fullmatch(name):
        yield "model APIs take a name of letters, digits, '_' and '-' only, at most 64"
    elif len(called := f"mcp__{server}__{name}") > API_NAME_LENGTH:
        yield f"Claude Code calls it {called}: {len(called)} characters, model APIs take {API_NAME_LENGTH}"


def _description(description: str) -> Iterator[str]:
    size = len(description.encode())
    if not description.strip():
        yield "has no description: a model goes by it when it chooses"
    elif size > CUT_BYTES:
        yield f"the description has {size} bytes; Claude Code cuts it at {CUT_BYTES}"


def _prompt(prompt: Prompt) -> Iterator[Finding]:
    subject = f"prompt {prompt.name}"
    if not prompt.description.strip():
        yield Finding(Level.WARNING, "has no description", prompt.source, subject)
    names = [argument.name for argument in prompt.arguments if not argument.description]
    if names:
        told = f"argument{'s' * (len(names) > 1)} without a description: {', '.join(names)}"
        yield Finding(Level.WARNING, told, prompt.source, subject)


def _template(template: ResourceTemplate) -> Iterator[Finding]:
    if not template.description.strip():
        yield Finding(
            Level.WARNING, "has no description", template.source, f"template {template.uri_template}"
        )


def _resources(server: Server) -> Iterator[Finding]:
    for resource in server.resources:
        if (resource.size or 0) > LARGE_RESOURCE:
            told = f"holds {(resource.size or 0) / LARGE_RESOURCE:.1f} MiB, which a client reads whole"
            yield Finding(Level.NOTE, told, resource.source, f"resource {resource.uri}")
