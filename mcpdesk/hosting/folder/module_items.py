"""Creation of tools, resources, templates and prompts from Python functions."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.errors import HandlerError, MissingCapability, RegistrationError
from mcpdesk.hosting.folder.file_items import digest
from mcpdesk.hosting.folder.signatures import CallSignature, read_signature
from mcpdesk.protocol.catalogue.uri_template import UriTemplate
from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import Note
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Completer, Resource, ResourceTemplate
from mcpdesk.server.offer.tool import CLAIMS, Handler, Tool

if TYPE_CHECKING:
    from mcpdesk.protocol.headers import MirroredArgument

Function = Callable[..., Any]


class BuiltIn:
    """Stands for the source file of a built-in tool, which is not in a folder."""

    def location(self, function: Function) -> str:
        """Return the text shown instead of a source line."""
        return "built-in"


class ModuleFile(Struct, frozen=True):
    """A module of a server folder and its file."""

    module: ModuleType
    path: str
    """Path relative to the server folder, with slashes."""
    tree: ast.Module
    helpers: tuple[ast.Module, ...]
    """Syntax trees of the folder's files that this module imports, directly or indirectly."""
    environment: Mapping[str, str]

    def location(self, function: Function) -> str:
        """Return the source line of a function, such as `tools/user_profile.py:9`."""
        node = self._node(function)
        line = node.lineno if node is not None else inspect.unwrap(function).__code__.co_firstlineno
        return f"{self.path}:{line}"

    def fingerprints(self, functions: Sequence[Function]) -> Iterator[str]:
        """Yield a fingerprint for each of `functions`, which changes with the behaviour of the function.

        The fingerprint covers the function, the helper files, and the file of the function without the other
        `functions`.
        """
        nodes = [self._node(function) for function in functions]
        function_nodes = {id(node) for node in nodes}
        other_nodes = (*(node for node in self.tree.body if id(node) not in function_nodes), *self.helpers)
        shared_digest = digest("\n".join(map(ast.dump, other_nodes)).encode())
        for function, node in zip(functions, nodes, strict=True):
            yield digest(
                f"{shared_digest}\n{function.__qualname__}\n{ast.dump(node) if node else ''}".encode()
            )

    def _node(self, function: Function) -> ast.stmt | None:
        """Return the syntax tree of a function, or None if it is not at the top level of the module."""
        name = inspect.unwrap(function).__name__
        kinds = (ast.AsyncFunctionDef, ast.FunctionDef)
        return next(
            (node for node in reversed(self.tree.body) if isinstance(node, kinds) and node.name == name), None
        )

    def line_of(self, name: str) -> int:
        """Return the line on which the module assigns a name, or 1 if no line does."""
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return node.lineno
        return 1


def awaitable(function: Function) -> Callable[..., Awaitable[Any]]:
    """Return an asynchronous version of a function. A plain `def` then runs in a worker thread.

    Raises: RegistrationError for a generator.
    """
    if inspect.iscoroutinefunction(function):
        return function
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise RegistrationError(f"{function.__name__} yields; return one value, and report progress with ctx")
    from mcpdesk.server.calls.threads import sync_context

    return sync_context.awaitable(function)


def dashed(name: str) -> str:
    """Convert a Python name to a tool name: `user_profile` becomes `user-profile`."""
    return name.strip("_").replace("_", "-")


PYTHON_ONLY_PATTERN = r"'pattern': .*(\(\?|\\[AZ])"
"""Regular expression for patterns in a schema with syntax that only Python supports."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def typed_tool(file: ModuleFile | BuiltIn, function: Function, note: Note, name: str) -> Tool:
    """Make a tool from a function with type hints.

    Raises: RegistrationError.
    """
    _check_tool_name(name)
    async_function = awaitable(function)
    if note.timeout_s is not None and note.timeout_s <= 0:
        raise RegistrationError(f"timeout must be more than 0 seconds, not {note.timeout_s}")
    location = file.location(function)
    signature = read_signature(function, location)
    _check_patterns(signature, location)

    return Tool(
        name=name,
        handler=_handler(async_function, signature),
        input_schema=signature.input_schema,
        output_schema=signature.output_schema,
        annotations=note.annotations,
        timeout_s=note.timeout_s,
        task=_task_support(note),
        asks_first=note.asks_first,
        resume=note.resume,
        runs_programs=note.runs_programs,
        while_planning=note.while_planning,
        requires_jwt=note.requires_jwt,
        scopes=note.scopes,
        mirrored=_mirrored_arguments(signature.input_schema, location),
        **_common_fields(note, signature, location),
    )


def _common_fields(note: Note, signature: CallSignature, location: str) -> dict[str, Any]:
    """Return the fields that items of every kind have, from the decorator and the docstring."""
    return {
        "title": note.title,
        "description": note.description or signature.doc.text,
        "icons": note.icons,
        "meta": note.meta,
        "is_offered": note.is_offered,
        "source": location,
    }


def _handler(function: Callable[..., Awaitable[Any]], signature: CallSignature) -> Handler:
    """Return a handler that converts the arguments of a call, if necessary, and calls the function."""

    async def call(arguments: dict[str, Any], context: Context) -> Any:
        return await function(**signature.bind(arguments, context))

    def call_unconverted(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
        awaitable_result: Awaitable[Any] = function(**arguments)
        return awaitable_result

    return call_unconverted if signature.takes_json and not signature.context_name else call


def _check_tool_name(name: str) -> None:
    if not TOOL_NAME.fullmatch(name):
        raise RegistrationError(
            f"{name!r} is not a tool name: letters, digits, '_', '-' and '.' are allowed, at most 128"
        )


def _task_support(note: Note) -> str:
    """Return the task support that a decorator declares. Raises: RegistrationError if it is invalid."""
    if note.task not in ("", "optional", "required"):
        raise RegistrationError(f"task must be 'forbidden', 'optional' or 'required', not {note.task!r}")
    if note.asks_first and not note.task:
        raise RegistrationError("asks_first needs a tool that can be a task: use task='optional'")
    return note.task


def _check_patterns(signature: CallSignature, location: str) -> None:
    """Check regular expressions in the schemas, because JSON Schema may not support Python's syntax."""
    for schema in (signature.input_schema, signature.output_schema):
        schema_text = "" if schema is None else repr(schema)
        has_patterns = "'pattern'" in schema_text
        if schema is not None and has_patterns and re.search(PYTHON_ONLY_PATTERN, schema_text):
            _check_schema("the schema", schema, location)


def _check_schema(subject: str, schema: dict[str, Any], location: str) -> None:
    """Check that a JSON Schema can be used. `subject` names it in the error. Raises: RegistrationError."""
    from mcpdesk.server.schemas.validation import SchemaError, compile_schema

    try:
        compile_schema(schema)
    except SchemaError as error:
        raise RegistrationError(f"{subject} cannot be used: {error}", location) from error


def handler_tool(file: ModuleFile, function: Function, note: Note, name: str) -> Tool:
    """Create a tool from a module that defines `handler(args, context)` and its schemas."""
    _check_tool_name(name)
    async_function = awaitable(function)
    values = vars(file.module)
    input_schema = _checked_schema(file, "INPUT_SCHEMA", values.get("INPUT_SCHEMA", {"type": "object"}))
    output = values.get("OUTPUT_SCHEMA")
    parameter_count = len(inspect.signature(function).parameters)
    if parameter_count not in (1, 2, 3):
        raise RegistrationError("handler must take (args), (args, context) or (args, context, ctx)")

    async def call(arguments: dict[str, Any], context: Context) -> Any:
        if context.claims is not None:
            arguments = arguments | {CLAIMS: dict(context.claims)}
        return await async_function(*(arguments, context.context, context)[:parameter_count])

    return Tool(
        name=name,
        handler=call,
        input_schema=input_schema,
        description=str(
            values.get("DESCRIPTION") or inspect.getdoc(function) or inspect.getdoc(file.module) or ""
        ),
        title=str(values.get("TITLE", "")),
        output_schema=None if output is None else _checked_schema(file, "OUTPUT_SCHEMA", output),
        annotations=dict(values.get("ANNOTATIONS", {})),
        requires_jwt=bool(values.get("REQUIRES_JWT") or values.get("SCOPES")),
        scopes=_checked_scopes(values.get("SCOPES", ())),
        mirrored=_mirrored_arguments(input_schema, f"{file.path}:{file.line_of('INPUT_SCHEMA')}"),
        source=file.location(function),
    )


def _checked_scopes(value: Any) -> tuple[str, ...]:
    """Return the scopes in `SCOPES`, which is a text or a list of texts. Raises: RegistrationError."""
    scopes = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(scope, str) for scope in scopes):
        raise RegistrationError("SCOPES must be a text or a list of texts")
    return scopes


def _mirrored_arguments(schema: dict[str, Any], location: str) -> tuple[MirroredArgument, ...]:
    """Return the arguments that HTTP headers repeat. Raises: RegistrationError for an invalid header name."""
    if "x-mcp-header" not in repr(schema):
        return ()
    from mcpdesk.protocol.headers import mirrored_arguments

    try:
        return mirrored_arguments(schema)
    except ValueError as error:
        raise RegistrationError(str(error), location) from error


def _checked_schema(file: ModuleFile, name: str, schema: Any) -> dict[str, Any]:
    """Return the schema that a module assigns to `name`. Raises: RegistrationError if it is invalid."""
    location = f"{file.path}:{file.line_of(name)}"
    if not isinstance(schema, dict):
        raise RegistrationError(f"{name} must be a dict, not {type(schema).__name__}", location)
    if name == "INPUT_SCHEMA" and schema.get("type") != "object":
        raise RegistrationError(
            'INPUT_SCHEMA must contain "type": "object", because arguments are an object', location
        )
    _check_schema(name, schema, location)
    return schema


def typed_resource(
    file: ModuleFile | BuiltIn, function: Function, note: Note, name: str
) -> Resource | ResourceTemplate:
    """Make a resource or template from a decorated function.

    Raises: RegistrationError.
    """
    async_function = awaitable(function)
    location = file.location(function)
    try:
        template = UriTemplate(note.uri)
    except ValueError as error:
        raise RegistrationError(str(error), location) from error
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", note.uri):
        raise RegistrationError(
            f"{note.uri!r} is not a URI: it must start with a scheme like resource://", location
        )
    signature = read_signature(function, location, with_output=False)
    takes_uri = _check_variables(signature, template, location)

    async def read(uri: str, variables: dict[str, str], context: Context) -> Any:
        values = {**variables, "uri": uri} if takes_uri else variables
        return await _call(async_function, signature, values, context)

    fields: dict[str, Any] = {
        "name": note.name or dashed(function.__name__),
        "reader": read,
        "mime_type": note.mime_type,
        "annotations": note.annotations,
        **_common_fields(note, signature, location),
    }
    completions = _completions_by_variable(note.complete, template)
    variable_completers = completers(completions, template.variables, location)
    if template.variables:
        return ResourceTemplate(uri_template=note.uri, completers=variable_completers, **fields)
    return Resource(uri=note.uri, **fields)


def _completions_by_variable(complete: Any, template: UriTemplate) -> Mapping[str, Any]:
    """Return completions by variable. If the template has only one variable, the author need not name it."""
    if complete is None or isinstance(complete, Mapping):
        return complete or {}
    return {template.variables[0] if len(template.variables) == 1 else "": complete}


def _check_variables(signature: CallSignature, template: UriTemplate, location: str) -> bool:
    """Check that parameters match template variables. Return True if the function takes a `uri` as well."""
    parameters = set(signature.input_schema["properties"])
    variables = set(template.variables)
    takes_uri = "uri" in parameters - variables
    required = set(signature.input_schema.get("required", ())) - {"uri"}
    if unknown := sorted(required - variables):
        raise RegistrationError(
            f"the URI template has no variable for the parameter {', '.join(unknown)}", location
        )
    if unused := sorted(variables - parameters):
        raise RegistrationError(f"no parameter takes the template's variable {', '.join(unused)}", location)
    return takes_uri


def typed_prompt(file: ModuleFile, function: Function, note: Note, name: str) -> Prompt:
    """Create a prompt from a function. Its parameters become the prompt's arguments.

    Raises: RegistrationError.
    """
    async_function = awaitable(function)
    location = file.location(function)
    signature = read_signature(function, location, with_output=False)
    properties: dict[str, dict[str, Any]] = signature.input_schema["properties"]
    required = signature.input_schema.get("required", ())
    arguments = tuple(
        PromptArgument(key, str(schema.get("description", "")), str(schema.get("title", "")), key in required)
        for key, schema in properties.items()
    )

    async def render(values: dict[str, str], context: Context) -> Any:
        check_arguments(name, arguments, values)
        return await _call(async_function, signature, values, context)

    return Prompt(
        name=name,
        renderer=render,
        arguments=arguments,
        completers=_enum_completers(properties) | completers(note.complete or {}, properties, location),
        **_common_fields(note, signature, location),
    )


def _enum_completers(properties: Mapping[str, dict[str, Any]]) -> dict[str, Completer]:
    """Return completers for the parameters whose type hints list all values."""
    allowed_values = {name: schema.get("enum", ()) for name, schema in properties.items()}
    return {
        name: choice_completer(values)
        for name, values in allowed_values.items()
        if values and all(isinstance(value, str) for value in values)
    }


def check_arguments(name: str, arguments: tuple[PromptArgument, ...], values: Mapping[str, Any]) -> None:
    """Reject missing and unknown arguments of a prompt.

    Raises: RemoteProtocolError (-32602) with the names of these arguments.
    """
    missing = [argument.name for argument in arguments if argument.required and argument.name not in values]
    if missing:
        raise invalid_params(f"Prompt {name} lacks the required argument {', '.join(missing)}")
    names = [argument.name for argument in arguments]
    for key, value in values.items():
        if key not in names:
            allowed = f"allowed: {', '.join(names)}" if names else "it takes none"
            raise invalid_params(f"Prompt {name} does not know the argument {key}; {allowed}")
        if not isinstance(value, str):
            raise invalid_params(f"Prompt {name}: the argument {key} must be a string")


async def _call(
    function: Callable[..., Awaitable[Any]],
    signature: CallSignature,
    values: Mapping[str, str],
    context: Context,
) -> Any:
    """Call a function with texts as arguments.

    Conversion errors and `fail()` become errors for the caller. MissingCapability is raised unchanged.
    """
    try:
        return await function(**signature.bind(values, context))
    except MissingCapability:
        raise
    except HandlerError as error:
        raise invalid_params(error.message, error.data) from error


COMPLETE_RULE = "a list of texts, or a function of (value), (value, arguments) or (value, arguments, ctx)"
"""Allowed values of an entry in `complete`, as the end of a message."""


def completers(sources: Mapping[str, Any], names: Iterable[str], location: str) -> dict[str, Completer]:
    """Create a completer for each argument named in `complete`.

    Raises: RegistrationError for an unknown argument, or a value that is neither a list nor a function.
    """
    known_names = list(names)
    for name in sources:
        if name not in known_names:
            allowed = f"its arguments: {', '.join(known_names)}" if known_names else "it has no arguments"
            raise RegistrationError(f"complete names {name!r}, which is not an argument; {allowed}", location)
    return {name: _completer(name, source, location) for name, source in sources.items()}


def choice_completer(choices: Iterable[str]) -> Completer:
    """Return a completer for fixed choices. The completer suggests choices that start with the input, then
    other choices that contain it.
    """
    distinct_choices = tuple(dict.fromkeys(choices))

    async def suggest(typed: str, _arguments: dict[str, str], _context: Context) -> list[str]:
        folded_input = typed.casefold()
        matches = [choice for choice in distinct_choices if folded_input in choice.casefold()]
        return sorted(matches, key=lambda choice: not choice.casefold().startswith(folded_input))

    return suggest


def _completer(name: str, source: Any, location: str) -> Completer:
    """Create a completer from the entry of an argument in `complete`."""
    if callable(source):
        return _function_completer(name, source, location)
    if isinstance(source, list | tuple) and source and all(isinstance(choice, str) for choice in source):
        return choice_completer(source)
    raise RegistrationError(f"complete[{name!r}] must be {COMPLETE_RULE}", location)


def _parameter_count(function: Callable[..., Any]) -> int:
    """Return the number of parameters, or 0 if the number is unknown."""
    try:
        return len(inspect.signature(function).parameters)
    except ValueError:
        return 0


def _function_completer(name: str, function: Callable[..., Any], location: str) -> Completer:
    """Create a completer that calls a function with as many values as it takes."""
    parameter_count = _parameter_count(function)
    if parameter_count not in (1, 2, 3):
        raise RegistrationError(f"complete[{name!r}] must be {COMPLETE_RULE}", location)

    async_function = awaitable(function)

    async def suggest(typed: str, call_arguments: dict[str, str], context: Context) -> Iterable[str]:
        try:
            values = await async_function(*(typed, call_arguments, context)[:parameter_count])
        except HandlerError as error:
            raise invalid_params(error.message, error.data) from error
        return [values] if isinstance(values, str) else values or ()

    return suggest
