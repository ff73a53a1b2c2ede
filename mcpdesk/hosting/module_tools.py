"""Tools out of Python functions: typed ones, and `handler(args, context)` with schemas of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import RegistrationError
from mcpdesk.hosting.module_file import Function, ModuleFile, Origin, awaitable
from mcpdesk.hosting.typed import Typed, typed
from mcpdesk.server.authoring import Note
from mcpdesk.server.tool import CLAIMS, Handler, Tool

if TYPE_CHECKING:
    from mcpdesk.protocol.param_headers import Mirrored
    from mcpdesk.server.context import Context

UNUSUAL = r"'pattern': .*(\(\?|\\[AZ])"
"""A pattern with groups or anchors of Python's own, in the text of a schema."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def typed_tool(file: Origin, function: Function, note: Note, name: str) -> Tool:
    """The tool a typed function is.

    Raises: RegistrationError.
    """
    _check_tool_name(name)
    awaited = awaitable(function)
    if note.timeout_s is not None and note.timeout_s <= 0:
        raise RegistrationError(f"timeout has to be more than 0 seconds, not {note.timeout_s}")
    place = file.place(function)
    signature = typed(function, place)
    _check_patterns(signature, place)

    return Tool(
        name=name,
        handler=_handler(awaited, signature),
        plain=awaited if signature.takes_json and not signature.context_name else None,
        input_schema=signature.input_schema,
        description=note.description or signature.doc.text,
        title=note.title,
        output_schema=signature.output_schema,
        annotations=note.annotations,
        icons=note.icons,
        meta=note.meta,
        timeout_s=note.timeout_s,
        task=_task_support(note),
        asks_first=note.asks_first,
        runs_programs=note.runs_programs,
        while_planning=note.while_planning,
        requires_jwt=note.requires_jwt,
        scopes=note.scopes,
        is_offered=note.is_offered,
        mirrored=_mirrored(signature.input_schema, place),
        source=place,
    )


def _handler(function: Callable[..., Awaitable[Any]], signature: Typed) -> Handler:
    async def call(arguments: dict[str, Any], context: Context) -> Any:
        return await function(**signature.bind(arguments, context))

    def call_as_it_is(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
        running: Awaitable[Any] = function(**arguments)
        return running

    return call_as_it_is if signature.takes_json and not signature.context_name else call


def _check_tool_name(name: str) -> None:
    if not TOOL_NAME.fullmatch(name):
        raise RegistrationError(
            f"{name!r} is not a tool name: letters, digits, '_', '-' and '.' are allowed, at most 128"
        )


def _task_support(note: Note) -> str:
    if note.task not in ("", "optional", "required"):
        raise RegistrationError(f"task is 'forbidden', 'optional' or 'required', not {note.task!r}")
    if note.asks_first and not note.task:
        raise RegistrationError("asks_first is for tools that may be tasks: say task='optional'")
    return note.task


def _check_patterns(signature: Typed, place: str) -> None:
    """Compile schemas whose regular expressions JSON Schema may not know; the usual ones need no proof."""
    for schema in (signature.input_schema, signature.output_schema):
        if schema is not None and "'pattern'" in (told := repr(schema)) and re.search(UNUSUAL, told):
            _compile("the schema", schema, place)


def _compile(what: str, schema: dict[str, Any], place: str) -> None:
    from mcpdesk.server.schema import SchemaError, compile_schema

    try:
        compile_schema(schema)
    except SchemaError as error:
        raise RegistrationError(f"{what} cannot be used: {error}", place) from error


def handler_tool(file: ModuleFile, function: Function, note: Note, name: str) -> Tool:
    """The tool of a module that exports `handler(args, context)` and its schemas."""
    _check_tool_name(name)
    awaited = awaitable(function)
    values = vars(file.module)
    input_schema = _schema(file, "INPUT_SCHEMA", values.get("INPUT_SCHEMA", {"type": "object"}))
    output = values.get("OUTPUT_SCHEMA")
    wanted = len(inspect.signature(function).parameters)
    if wanted not in (1, 2, 3):
        raise RegistrationError("handler takes (args), (args, context) or (args, context, ctx)")

    async def call(arguments: dict[str, Any], context: Context) -> Any:
        if context.claims is not None:
            arguments = arguments | {CLAIMS: dict(context.claims)}
        return await awaited(*(arguments, context.context, context)[:wanted])

    return Tool(
        name=name,
        handler=call,
        input_schema=input_schema,
        description=str(
            values.get("DESCRIPTION") or inspect.getdoc(function) or inspect.getdoc(file.module) or ""
        ),
        title=str(values.get("TITLE", "")),
        output_schema=None if output is None else _schema(file, "OUTPUT_SCHEMA", output),
        annotations=dict(values.get("ANNOTATIONS", {})),
        requires_jwt=bool(values.get("REQUIRES_JWT") or values.get("SCOPES")),
        scopes=_scopes(values.get("SCOPES", ())),
        mirrored=_mirrored(input_schema, f"{file.path}:{file.line_of('INPUT_SCHEMA')}"),
        source=file.place(function),
    )


def _scopes(given: Any) -> tuple[str, ...]:
    scopes = (
        (given,) if isinstance(given, str) else tuple(given) if isinstance(given, list | tuple) else (given,)
    )
    if not all(isinstance(each, str) for each in scopes):
        raise RegistrationError("SCOPES has to be a text or a list of texts")
    return scopes


def _mirrored(schema: dict[str, Any], place: str) -> tuple[Mirrored, ...]:
    if "x-mcp-header" not in repr(schema):
        return ()
    from mcpdesk.protocol.param_headers import mirrored

    try:
        return mirrored(schema)
    except ValueError as error:
        raise RegistrationError(str(error), place) from error


def _schema(file: ModuleFile, name: str, schema: Any) -> dict[str, Any]:
    place = f"{file.path}:{file.line_of(name)}"
    if not isinstance(schema, dict):
        raise RegistrationError(f"{name} has to be a dict, not {type(schema).__name__}", place)
    if name == "INPUT_SCHEMA" and schema.get("type") != "object":
        raise RegistrationError('INPUT_SCHEMA has to say "type": "object": arguments are an object', place)
    _compile(name, schema, place)
    return schema
