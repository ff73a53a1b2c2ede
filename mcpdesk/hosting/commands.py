"""Programs as tools: `commands` of mcp.json, each the tool `<stage>-<command>`. A mistake leaves out one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.command_entry import Entry, Ready
from mcpdesk.hosting.command_run import OUTPUT_SCHEMA, CommandRun
from mcpdesk.hosting.digest import digest
from mcpdesk.hosting.found import Found
from mcpdesk.hosting.manifest import Manifest
from mcpdesk.server.tool import Tool


def read_commands(manifest: Manifest, environment: Mapping[str, str]) -> Found:
    """The tools, and what is left out with its line and reason."""
    found = Found()
    for index in range(len(manifest.commands)):
        entry = Entry(manifest, index, environment)
        try:
            ready = entry.ready()
        except RegistrationError as error:
            found.refuse("tool", entry.name, error)
            continue
        found.items.append(_tool(ready, entry.source()))
        for name in ready.unused:
            place = entry.source("parameters", "properties", name)
            found.remarks.append(f"{place}: {ready.name}: no placeholder takes the parameter {name!r}")
    return found


def _tool(ready: Ready, source: str) -> Tool:
    command = ready.command
    said = json.dumps([str(ready.folder), ready.program, *_said(ready)])
    return Tool(
        name=ready.name,
        handler=CommandRun(ready).call,
        input_schema=ready.schema,
        description=command.description,
        title=command.title,
        output_schema=OUTPUT_SCHEMA,
        annotations=command.annotations,
        timeout_s=None if command.timeout_ms is None else command.timeout_ms / 1000,
        runs_programs=True,
        requires_jwt=command.requires_jwt or bool(command.scopes),
        scopes=tuple(command.scopes),
        task=command.task or "",
        mirrored=ready.mirrored,
        source=source,
        fingerprint=digest(said.encode()),
    )


def _said(ready: Ready) -> list[object]:
    """What of an entry its tool does not show."""
    command = ready.command
    return [command.run, command.produces, command.environment, command.progress]
