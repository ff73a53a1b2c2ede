"""Tools, resources and prompts in one Python module: decorated functions, plain ones, `handler`."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mcpdesk.errors import HandlerError, RegistrationError
from mcpdesk.hosting.found import Found, Item
from mcpdesk.hosting.typed import Typed, typed
from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.protocol.uri_template import UriTemplate
from mcpdesk.server.authoring import Note, note_of
from mcpdesk.server.context import Context
from mcpdesk.server.prompt import Prompt, PromptArgument
from mcpdesk.server.resource import Resource, ResourceTemplate
from mcpdesk.server.schema import SchemaError, compile_schema
from mcpdesk.server.tool import Tool

TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module and what is known of its file."""

    module: ModuleType
    path: str
    """Relative to the server folder, with slashes."""
    tree: ast.Module
    helpers: tuple[ast.Module, ...]
    """Files of the folder it imports, directly or not."""
    environment: Mapping[str, str]

    def place(self, function: Function) -> str:
        """`tools/user_profile.py:9`: where a function's `def` stands."""
        node = self._node(function)
        line = node.lineno if node is not None else inspect.unwrap(function).__code__.co_firstlineno
        return f"{self.path}:{line}"

    def fingerprint(self, function: Function, others: Iterable[Function]) -> str:
        """Changes when the function, or anything it may use in its file and helpers, changes in meaning."""
        own = self._node(function)
        foreign = [self._node(each) for each in others]
        parts = [node for node in self.tree.body if node is own or node not in foreign]
        text = "\n".join(ast.dump(node) for node in (*parts, *self.helpers))
        return hashlib.blake2b(f"{function.__qualname__}\n{text}".encode(), digest_size=16).hexdigest()

    def _node(self, function: Function) -> ast.stmt | None:
        name = inspect.unwrap(function).__name__
        kinds = (ast.AsyncFunctionDef, ast.FunctionDef)
        named = [node for node in self.tree.body if isinstance(node, kinds) and node.name == name]
        return named[-1] if named else None


def read_module(file: ModuleFile, kind: str) -> Found:
    """Everything a module offers. `kind` is what its undecorated public functions are: `tool`, `prompt`, or
    `resource`, which always needs the decorator."""
    found = Found()
    offered = list(_offered(file.module, kind))
    functions = [function for function, _ in offered]
    for function, note in offered:
        name = _name(note, function, file)
        try:
            _needs(note, file)
            item = BUILDERS[note.kind](file, function, note, name)
            found.items.append(_with_fingerprint(item, file.fingerprint(function, functions)))
        except RegistrationError as error:
            place = error.source or file.place(function)
            found.refuse(_kind(note), name, RegistrationError(error.message, place))
    found.remarks += _remarks(file, kind, functions)
    return found


def _remarks(file: ModuleFile, kind: str, offered: list[Function]) -> Iterator[str]:
    """What an author may have expected to be offered, and is not."""
    if not offered:
        yield f"{file.path}: offers nothing; {HOW[kind]}"
        return
    for each in vars(file.module).values():
        is_public = _is_own(each, file.module) and not each.__name__.startswith("_")
        if is_public and each not in offered and inspect.iscoroutinefunction(each):
            yield f"{file.place(each)}: {each.__name__} is not offered: others here are decorated, it is not"


def _offered(module: ModuleType, kind: str) -> Iterator[tuple[Function, Note]]:
    """Functions with their notes: the decorated ones, else `handler`, else all public ones."""
    own = [each for each in vars(module).values() if _is_own(each, module)]
    decorated = [(each, note) for each in own if (note := note_of(each)) is not None]
    if decorated:
        yield from decorated
    elif kind == "tool" and inspect.isfunction(vars(module).get("handler")):
        yield module.handler, Note("handler")
    elif kind != "resource":
        yield from ((each, Note(kind)) for each in own if not each.__name__.startswith("_"))


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


def dashed(name: str) -> str:
    """A Python name as the name of a tool: `user_profile` is `user-profile`."""
    return name.strip("_").replace("_", "-")


def _needs(note: Note, file: ModuleFile) -> None:
    for variable in note.requires_env:
        if not file.environment.get(variable):
            raise RegistrationError(f"needs the environment variable {variable}, which is not set")


def _require_async(function: Function) -> None:
    if inspect.isasyncgenfunction(function):
        raise RegistrationError(
            f"{function.__name__} yields; return one value, and report on the way with ctx"
        )
    if not inspect.iscoroutinefunction(function):
        raise RegistrationError(
            f"{function.__name__} is not async: write `async def {function.__name__}`, "
            f"or `def _{function.__name__.lstrip('_')}` if it is only a helper"
        )


def _tool(file: ModuleFile, function: Function, note: Note, name: str) -> Tool:
    _check_tool_name(name)
    _require_async(function)
    if note.timeout_s is not None and note.timeout_s <= 0:
        raise RegistrationError(f"timeout has to be more than 0 seconds, not {note.timeout_s}")
    place = file.place(function)
    signature = typed(function, place)
    _check_patterns(signature, place)

    async def call(arguments: dict[str, Any], context: Context) -> Any:
        return await function(**signature.bind(arguments, context))

    return Tool(
        name=name,
        handler=call,
        input_schema=signature.input_schema,
        description=note.description or signature.doc.text,
        title=note.title,
        output_schema=signature.output_schema,
        annotations=note.annotations,
        icons=note.icons,
        meta=note.meta,
        timeout_s=note.timeout_s,
        runs_programs=note.runs_programs,
        requires_jwt=note.requires_jwt,
        source=place,
    )


def _check_tool_name(name: str) -> None:
    if not TOOL_NAME.fullmatch(name):
        raise RegistrationError(
            f"{name!r} is not a tool name: letters, digits, '_', '-' and '.' are allowed, at most 128"
        )


def _check_patterns(signature: Typed, place: str) -> None:
    """Compile schemas that hold regular expressions: Python knows forms that JSON Schema does not."""
    for schema in (signature.input_schema, signature.output_schema):
        if schema is not None and "'pattern'" in repr(schema):
            _compile("the schema", schema, place)


def _compile(what: str, schema: dict[str, Any], place: str) -> None:
    try:
        compile_schema(schema)
    except SchemaError as error:
        raise RegistrationError(f"{what} cannot be used: {error}", place) from error


def _handler(file: ModuleFile, function: Function, note: Note, name: str) -> Tool:
    """The tool of a module that exports `handler(args, context)` and its schemas."""
    _check_tool_name(name)
    _require_async(function)
    values = vars(file.module)
    input_schema = _schema(file, "INPUT_SCHEMA", values.get("INPUT_SCHEMA", {"type": "object"}))
    output = values.get("OUTPUT_SCHEMA")
    wanted = len(inspect.signature(function).parameters)
    if wanted not in (1, 2, 3):
        raise RegistrationError("handler takes (args), (args, context) or (args, context, ctx)")

    async def call(arguments: dict[str, Any], context: Context) -> Any:
        return await function(*(arguments, context.context, context)[:wanted])

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
        source=file.place(function),
    )


def _schema(file: ModuleFile, name: str, schema: Any) -> dict[str, Any]:
    place = f"{file.path}:{_line_of(file.tree, name)}"
    if not isinstance(schema, dict):
        raise RegistrationError(f"{name} has to be a dict, not {type(schema).__name__}", place)
    if name == "INPUT_SCHEMA" and schema.get("type") != "object":
        raise RegistrationError('INPUT_SCHEMA has to say "type": "object": arguments are an object', place)
    _compile(name, schema, place)
    return schema


def _line_of(tree: ast.Module, name: str) -> int:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.lineno
    return 1


def _resource(file: ModuleFile, function: Function, note: Note, name: str) -> Item:
    _require_async(function)
    place = file.place(function)
    try:
        template = UriTemplate(note.uri)
    except ValueError as error:
        raise RegistrationError(str(error), place) from error
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", note.uri):
        raise RegistrationError(
            f"{note.uri!r} is not a URI: it has to start with a scheme like resource://", place
        )
    signature = typed(function, place, with_output=False)
    wants_uri = _check_variables(signature, template, place)

    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        given = {**variables, "uri": uri} if wants_uri else variables
        return await function(**_bound(signature, given, context))

    fields: dict[str, Any] = {
        "name": note.name or dashed(function.__name__),
        "reader": read,
        "title": note.title,
        "description": note.description or signature.doc.text,
        "mime_type": note.mime_type,
        "annotations": note.annotations,
        "icons": note.icons,
        "meta": note.meta,
        "source": place,
    }
    if template.variables:
        return ResourceTemplate(uri_template=note.uri, **fields)
    return Resource(uri=note.uri, **fields)


def _check_variables(signature: Typed, template: UriTemplate, place: str) -> bool:
    """Parameters and template variables have to be the same; says whether the URI is asked for besides."""
    parameters = set(signature.input_schema["properties"])
    variables = set(template.variables)
    wants_uri = "uri" in parameters - variables
    required = set(signature.input_schema.get("required", ())) - {"uri"}
    if unknown := sorted(required - variables):
        raise RegistrationError(
            f"the URI template has no variable for the parameter {', '.join(unknown)}", place
        )
    if unused := sorted(variables - parameters):
        raise RegistrationError(f"no parameter takes the template's variable {', '.join(unused)}", place)
    return wants_uri


def _prompt(file: ModuleFile, function: Function, note: Note, name: str) -> Prompt:
    _require_async(function)
    place = file.place(function)
    signature = typed(function, place, with_output=False)
    properties: dict[str, dict[str, Any]] = signature.input_schema["properties"]
    required = signature.input_schema.get("required", ())
    arguments = tuple(
        PromptArgument(key, str(schema.get("description", "")), str(schema.get("title", "")), key in required)
        for key, schema in properties.items()
    )

    async def render(given: dict[str, str], context: Context) -> Any:
        check_arguments(name, arguments, given)
        return await function(**_bound(signature, given, context))

    return Prompt(
        name=name,
        renderer=render,
        title=note.title,
        description=note.description or signature.doc.text,
        arguments=arguments,
        icons=note.icons,
        meta=note.meta,
        source=place,
    )


def check_arguments(name: str, arguments: tuple[PromptArgument, ...], given: Mapping[str, Any]) -> None:
    """Refuse missing and unknown arguments of a prompt.

    Raises: RemoteProtocolError (-32602) naming them.
    """
    missing = [each.name for each in arguments if each.required and not given.get(each.name)]
    if missing:
        raise invalid_params(f"Prompt {name} lacks the required argument {', '.join(missing)}")
    known = [each.name for each in arguments]
    for key, value in given.items():
        if key not in known:
            allowed = f"allowed: {', '.join(known)}" if known else "it takes none"
            raise invalid_params(f"Prompt {name} does not know the argument {key}; {allowed}")
        if not isinstance(value, str):
            raise invalid_params(f"Prompt {name}: the argument {key} has to be a string")


def _bound(signature: Typed, given: Mapping[str, str], context: Context) -> dict[str, Any]:
    """Keyword arguments from texts; what does not convert is the caller's mistake."""
    try:
        return signature.bind(given, context)
    except HandlerError as error:
        raise invalid_params(error.message) from error


def _with_fingerprint(item: Item, fingerprint: str) -> Item:
    import dataclasses

    return dataclasses.replace(item, fingerprint=fingerprint)


HOW = {
    "tool": "write an `async def`",
    "prompt": "write an `async def`",
    "resource": "decorate an `async def` with @resource",
}
BUILDERS: dict[str, Callable[[ModuleFile, Function, Note, str], Item]] = {
    "tool": _tool,
    "handler": _handler,
    "resource": _resource,
    "prompt": _prompt,
}
