"""What one Python module offers: its decorated and its public functions, or its `handler` alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from mcpdesk.errors import LocalProtocolError, MissingPrecondition, RegistrationError
from mcpdesk.hosting.folder.file_items import FileItems, Item, mark_of
from mcpdesk.hosting.folder.module_items import Function, ModuleFile, dashed, handler_tool, typed_tool
from mcpdesk.protocol.annotations import check_icons, check_meta_keys
from mcpdesk.protocol.codec import encode_part
from mcpdesk.server.offer.authoring import Note, note_of
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.tool import Tool


def read_module(file: ModuleFile, kind: str) -> FileItems:
    """Read everything a module offers. `kind` is the kind of its undecorated public functions: `tool`,
    `prompt`, or `resource`, which always needs the decorator."""
    found = FileItems()
    offered = list(_offered(file.module, kind))
    functions = [function for function, _ in offered]
    for (function, note), fingerprint in zip(offered, file.fingerprints(functions), strict=True):
        name = _name(note, function, file)
        try:
            needed = _needed(note, file)
            found.asked |= {variable: mark_of(file.environment.get(variable, "")) for variable in needed}
            _check_needed(needed, file)
            item = _builder(note.kind)(file, function, note, name)
            _check_extras(item)
            found.items.append(_with_fingerprint(item, fingerprint))
        except RegistrationError as error:
            error.source = error.source or file.place(function)
            found.refuse(_kind(note), name, error)
    found.remarks += _remarks(file, kind, functions)
    found.may_be_helper = not any(
        note_of(each) or _is_async(each) or each.__name__ == "handler" for each in functions
    )
    return found


def _is_async(function: Function) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _remarks(file: ModuleFile, kind: str, offered: list[Function]) -> Iterator[str]:
    """Remarks about functions that are offered or not offered, perhaps against the author's intention."""
    if not offered:
        yield f"{file.path}: offers nothing; {HOW[kind]}"
        return
    has_decorated = any(note_of(each) is not None for each in offered)
    for each in vars(file.module).values() if has_decorated else ():
        if not _is_own(each, file.module) or each.__name__.startswith("_") or note_of(each) is not None:
            continue
        if each in offered:
            told = (
                f"is a {kind} as well as those with a decorator; name it _{each.__name__} if it is a helper"
            )
            yield f"{file.place(each)}: {each.__name__} {told}"
        elif inspect.iscoroutinefunction(each):
            yield f"{file.place(each)}: {each.__name__} is not offered: others here are decorated, it is not"


def _offered(module: ModuleType, kind: str) -> Iterator[tuple[Function, Note]]:
    """The offered functions with their decorators' notes: decorated and public ones, or `handler` alone where
    none is decorated."""
    own = [each for each in vars(module).values() if _is_own(each, module)]
    notes = {each: note_of(each) for each in own}
    if kind == "tool" and not any(notes.values()) and inspect.isfunction(vars(module).get("handler")):
        yield module.handler, Note("handler")
        return
    for each, note in notes.items():
        if note is not None:
            yield each, note
        elif kind != "resource" and not each.__name__.startswith("_"):
            yield each, Note(kind)


def _is_own(value: Any, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__ != "<lambda>"


def _kind(note: Note) -> str:
    if note.kind == "resource" and "{" in note.uri:
        return "template"
    return "tool" if note.kind == "handler" else note.kind


def _name(note: Note, function: Function, file: ModuleFile) -> str:
    if note.kind == "resource":
        return note.uri
    stem = file.path.rpartition("/")[2].removesuffix(".py")
    if note.kind == "handler":
        return str(getattr(file.module, "NAME", "") or dashed(stem))
    return note.name or dashed(function.__name__)


def _needed(note: Note, file: ModuleFile) -> tuple[str, ...]:
    """The environment variables an item needs."""
    if note.kind != "handler":
        return note.requires_env
    given = vars(file.module).get("REQUIRES_ENV", ())
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        place = f"{file.path}:{file.line_of('REQUIRES_ENV')}"
        raise RegistrationError(f"REQUIRES_ENV must be a name or a list of names, not {given!r}", place)
    return tuple(names)


def _check_needed(needed: tuple[str, ...], file: ModuleFile) -> None:
    for variable in needed:
        if not file.environment.get(variable):
            raise MissingPrecondition.of_variable(variable)


def _check_extras(item: Item) -> None:
    """Refuse fields for which clients would refuse the whole list."""
    annotations = {} if isinstance(item, Prompt) else item.annotations
    try:
        for name in ("title", "description"):
            if not isinstance(getattr(item, name), str):
                raise ValueError(f"{name} must be a text")
        check_meta_keys(item.meta)
        check_icons(item.icons)
        if annotations:
            from mcpdesk.protocol.annotations import check_annotations, check_hints  # few have any

            (check_hints if isinstance(item, Tool) else check_annotations)(annotations)
        encode_part([item.meta, annotations])
    except ValueError as error:
        raise RegistrationError(str(error)) from None
    except LocalProtocolError as error:
        raise RegistrationError(f"_meta or annotations: {error.message}") from None


def _with_fingerprint(item: Item, fingerprint: str) -> Item:
    return replace(item, fingerprint=fingerprint)


HOW = {
    "tool": "write a function",
    "prompt": "write a function",
    "resource": "decorate a function with @resource",
}


def _builder(kind: str) -> Callable[[ModuleFile, Function, Note, str], Item]:
    if kind in ("tool", "handler"):
        return typed_tool if kind == "tool" else handler_tool
    from mcpdesk.hosting.folder.module_items import (  # most folders have tools alone
        typed_prompt,
        typed_resource,
    )

    return typed_resource if kind == "resource" else typed_prompt
