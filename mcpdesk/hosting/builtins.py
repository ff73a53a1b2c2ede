"""Built-in tools, and the resources that come with them, made of their modules as a folder's own are."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType

from mcpdesk.hosting.module_file import Function
from mcpdesk.hosting.module_tools import typed_tool
from mcpdesk.server.authoring import Note, note_of
from mcpdesk.server.resource import Resource, ResourceTemplate
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
    for function, note in _noted(import_module(BUILTINS[name])):
        if note.kind == "tool" and note.name == name:
            return typed_tool(BuiltIn(), function, note, name)
    raise KeyError(f"{BUILTINS[name]} has no tool {name}")


def resources_of(names: Iterable[str]) -> list[Resource | ResourceTemplate]:
    """What comes with built-in tools, each once."""
    return [each for module in dict.fromkeys(BUILTINS[name] for name in names) for each in _resources(module)]


@cache
def _resources(module: str) -> tuple[Resource | ResourceTemplate, ...]:
    from mcpdesk.hosting.module_texts import typed_resource

    noted = _noted(import_module(module))
    return tuple(
        typed_resource(BuiltIn(), function, note, note.uri)
        for function, note in noted
        if note.kind == "resource"
    )


def _noted(module: ModuleType) -> Iterator[tuple[Function, Note]]:
    for function in vars(module).values():
        note = note_of(function) if inspect.isfunction(function) else None
        if note is not None:
            yield function, note
