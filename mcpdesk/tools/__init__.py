"""The built-in tools a server folder may switch on by name. Each is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from mcpdesk.server.tool import Tool


@dataclass(frozen=True, slots=True)
class Home:
    """Where a built-in tool works."""

    folder: Path
    """The server folder: programs run here."""
    state: Path
    """A folder for what outlives a call; made when something is put there."""


Maker = Callable[[Home], Tool]


def _from(module: str) -> Maker:
    def make(home: Home) -> Tool:
        tool: Tool = import_module(f"mcpdesk.tools.{module}").make(home)
        return tool

    return make


BUILTINS: dict[str, Maker] = {
    "Bash": _from("shell"),
    "AskUserQuestion": _from("ask"),
}
"""Name, as in `builtins` of `mcp.json`, to what makes the tool."""
