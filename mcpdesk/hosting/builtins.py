"""Built-in tools, made of their modules in the same way as a folder's own."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module

from mcpdesk.hosting.module_file import Function
from mcpdesk.hosting.module_tools import typed_tool
from mcpdesk.server.authoring import note_of
from mcpdesk.server.tool import Tool
from mcpdesk.tools import BUILTINS


class BuiltIn:
    """Where built-in tools come from: no file of the folder."""

    def place(self, function: Function) -> str:
        """What clients and authors are told."""
        return "built-in"


@cache
def built_in(name: str) -> Tool:
    """The tool of that name. Raises: KeyError when there is none."""
    for function in vars(import_module(BUILTINS[name])).values():
        note = note_of(function) if inspect.isfunction(function) else None
        if note is not None and note.name == name:
            return typed_tool(BuiltIn(), function, note, name)
    raise KeyError(f"{BUILTINS[name]} has no tool {name}")
