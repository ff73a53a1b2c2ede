"""JSON schemas from the signatures and docstrings of functions, and calls with JSON arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from mcpdesk.errors import BadArgument, RegistrationError
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.schemas.hints import (
    Doc,
    HintError,
    field_default,
    from_json,
    has_no_structure,
    is_field,
    is_too_general,
    read_docstring,
    schema_of,
    split_annotated,
    with_description,
    with_msgspec_metadata,
    without_none,
)

CONTEXT_NAMES = ("ctx", "context")
"""Names of a parameter without a type hint that receives the context."""
PLAIN_CONTEXT = "mcpdesk.server.calls.threads.sync_context"
"""Module with the type of context for plain `def` functions."""
OWN_CONTEXTS = ("mcpdesk.server.calls.context", PLAIN_CONTEXT)
OTHER_FRAMEWORKS = frozenset({"mcp", "fastmcp"})
"""Packages whose `Context` type works only with their own servers."""
HANDLER_HINT = "use INPUT_SCHEMA and handler(args, context) instead"
NO_DEFAULT = inspect.Parameter.empty
VALUE_ERROR = re.compile(r"(.+) - at `\$\.?(.+)`", re.DOTALL)
"""Message of msgspec about a value, and the path of the value."""
LARGE_INTEGER_ERROR = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float`")
"""Message of msgspec about a whole number that does not fit into 64 bits. JSON allows such numbers."""


class CallSignature(Struct, frozen=True):
    """A function that can be called with JSON arguments."""

    doc: Doc
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    context_name: str
    """Name of the parameter that receives the context, or "" if the function has none."""
    converter: type[msgspec.Struct]
    """Type to which JSON arguments are converted. It has one field for each parameter."""
    takes_json: bool = False
    """True if all arguments are texts or booleans. Once checked, they need no conversion."""
    defaults: Mapping[str, Callable[[], Any]] = {}
    """Functions that create the defaults in `Field(...)`, by parameter. Python does not apply them."""

    def bind(self, arguments: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Convert arguments that the input schema accepts to keyword arguments for one call.

        Raises: BadArgument for a value that fits the schema but not the type hint, such as an impossible
        date.
        """
        try:
            converted = msgspec.convert(
                arguments, self.converter, strict=False, str_keys=True, dec_hook=from_json
            )
        except msgspec.ValidationError as error:
            raise _bad_argument(str(error)) from error
        keyword_arguments = {name: getattr(converted, name) for name in arguments}
        keyword_arguments |= {
            name: make_default()
            for name, make_default in self.defaults.items()
            if name not in keyword_arguments
        }
        if self.context_name:
            keyword_arguments[self.context_name] = context
        return keyword_arguments


def read_signature(function: Callable[..., Any], location: str, with_output: bool = True) -> CallSignature:
    """Read the signature of a function. `location` is its source line for error messages.

    Raises: RegistrationError with the name of a parameter that cannot be expressed as JSON.
    """
    hints = _type_hints(function, location)
    doc = read_docstring(function.__doc__)
    parameters = dict(inspect.signature(function).parameters)
    context_name = _context_name(function, parameters, hints, location)
    parameters.pop(context_name, None)
    defaults = _field_defaults(parameters, hints)
    fields: dict[str, Any] = {}
    for name, parameter in parameters.items():
        parameters[name], fields[name] = _field(parameter, hints, doc, location, name in defaults)
    converter = msgspec.defstruct(
        "Arguments",
        [
            (name, hint)
            if parameters[name].default is NO_DEFAULT
            else (name, hint, msgspec.field(default=None))
            for name, hint in fields.items()
        ],
        kw_only=True,
        forbid_unknown_fields=True,
    )
    input_schema = _input_schema(converter, fields, parameters, location)
    for name, make_default in defaults.items():
        input_schema["properties"][name] |= _default_member(make_default())
    output_schema = _output_schema(hints.get("return", Any), location) if with_output else None
    takes_json = not defaults and all(_without_metadata(hint) in (str, bool) for hint in fields.values())
    return CallSignature(doc, input_schema, output_schema, context_name, converter, takes_json, defaults)


def _bad_argument(complaint: str) -> BadArgument:
    """Return the error for an argument that fits its schema but that msgspec rejects."""
    match = VALUE_ERROR.fullmatch(complaint)
    reason, location = (complaint, "arguments") if match is None else match.groups()
    return BadArgument(
        location, "must be a whole number of 64 bits" if LARGE_INTEGER_ERROR.match(reason) else reason
    )


def _without_metadata(hint: Any) -> Any:
    """Return a hint without its `Annotated` metadata."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _type_hints(function: Callable[..., Any], location: str) -> dict[str, Any]:
    """Return the type hints of a function. Raises: RegistrationError if they cannot be evaluated."""
    from mcpdesk.server.calls.context import Context

    module_globals = getattr(function, "__globals__", {})
    # Some authors import Context only for the type checker, so the name may be unknown at run time.
    extra_names = {name: Context for name in ("Context", "SyncContext") if name not in module_globals}
    try:
        return get_type_hints(function, localns=extra_names, include_extras=True)
    except NameError as error:
        raise RegistrationError(f"a type hint cannot be read: {error}", location) from error
    except (TypeError, SyntaxError) as error:
        raise RegistrationError(f"invalid type hint: {error}", location) from error


def _context_name(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    hints: Mapping[str, Any],
    location: str,
) -> str:
    """Return the name of the context parameter, or "" if the function has none.

    This is the parameter whose type hint is a context, or a parameter with a usual name and no type hint.

    Raises: RegistrationError for the context of another framework, or the wrong context for the function.
    """
    for name in parameters:
        hint = hints.get(name)
        for type_part in (hint, *get_args(hint)):
            annotated_type = get_origin(type_part) or type_part
            module = str(getattr(annotated_type, "__module__", ""))
            if module == PLAIN_CONTEXT and inspect.iscoroutinefunction(function):
                message = f"{function.__name__} is async: its context is a Context, not a SyncContext"
                raise RegistrationError(f"{message}; use `from mcpdesk import Context`", location)
            if module in OWN_CONTEXTS:
                return name
            package = module.partition(".")[0]
            if (
                package in OTHER_FRAMEWORKS
                and getattr(annotated_type, "__name__", "").partition("[")[0] == "Context"
            ):
                message = f"parameter {name} is a Context of {package}, which mcpdesk cannot provide"
                raise RegistrationError(f"{message}; use `from mcpdesk import Context`", location)
    unhinted = (name for name in CONTEXT_NAMES if name in parameters and hints.get(name, Any) is Any)
    return next(unhinted, "")


def _field_defaults(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> dict[str, Callable[[], Any]]:
    """Return functions that create the defaults in `Field(...)`, by parameter.

    Parameters that also have a default in Python are left out.
    """
    factories: dict[str, Callable[[], Any]] = {}
    for name, parameter in parameters.items():
        values = [parameter.default, *split_annotated(hints.get(name))[1]]
        if values[0] is not NO_DEFAULT and not is_field(values[0]):
            continue
        default_makers = (field_default(field_value) for field_value in values if is_field(field_value))
        if (make_default := next((maker for maker in default_makers if maker is not None), None)) is not None:
            factories[name] = make_default
    return factories


def _field(
    parameter: inspect.Parameter, hints: Mapping[str, Any], doc: Doc, location: str, has_field_default: bool
) -> tuple[inspect.Parameter, Any]:
    """Return a parameter whose default is not a `Field(...)`, and its type hint with its description.

    Without a hint, the type is that of the default. `Field(...)` as a default is treated like an annotation.
    If `Field(...)` contains a default, the parameter's own default becomes None, and `CallSignature.defaults`
    applies the one in `Field(...)`.
    """
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise RegistrationError(f"parameter {parameter} cannot be given by name; {HANDLER_HINT}", location)
    hint = hints.get(parameter.name, Any)
    if is_field(parameter.default):
        hint = Annotated[hint, parameter.default]
        parameter = parameter.replace(default=None if has_field_default else NO_DEFAULT)
    elif has_field_default:
        parameter = parameter.replace(default=None)
    elif hint is Any and type(parameter.default) in (str, int, float, bool):
        hint = type(parameter.default)
    elif parameter.default is None:
        hint = without_none(hint)
    try:
        return parameter, with_description(
            with_msgspec_metadata(hint), doc.parameters.get(parameter.name, "")
        )
    except HintError as error:
        raise RegistrationError(f"parameter {parameter.name}: {error}", location) from error


def _input_schema(
    converter: type[msgspec.Struct],
    fields: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    location: str,
) -> dict[str, Any]:
    """Return the JSON Schema of the arguments. Raises: RegistrationError if a type has none."""
    try:
        input_schema = schema_of(converter)
    except HintError as error:
        raise RegistrationError(f"{_schema_problem(fields, error)}; {HANDLER_HINT}", location) from error
    properties: dict[str, Any] = input_schema.get("properties", {})
    for name, parameter in parameters.items():
        properties[name].pop("default", None)
        if parameter.default is not NO_DEFAULT and parameter.default is not None:
            properties[name] |= _default_member(parameter.default)
    return input_schema


def _schema_problem(fields: Mapping[str, Any], error: HintError) -> str:
    """Return the reason why the arguments have no JSON Schema, if possible with the parameter."""
    for name, hint in fields.items():
        try:
            schema_of(hint)
        except HintError as reason:
            return f"the type of parameter {name} has no JSON Schema: {reason}"
    return f"the parameters have no JSON Schema: {error}"


def _default_member(value: Any) -> dict[str, Any]:
    """Return the member `default` of a schema, or no member if the value has no JSON form."""
    try:
        return {"default": msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))}
    except (TypeError, ValueError):
        return {}


def _output_schema(hint: Any, location: str) -> dict[str, Any] | None:
    """Return the JSON Schema of the result, or None if the type hint is too general for one."""
    if get_origin(hint) is ToolResult:
        (hint,) = get_args(hint)
    if is_too_general(hint) or has_no_structure(hint):
        return None
    try:
        return schema_of(with_description(split_annotated(with_msgspec_metadata(hint))[0], ""))
    except HintError as error:
        reason = f"the return type has no JSON Schema: {error}; omit the annotation if clients do not need it"
        raise RegistrationError(reason, location) from error
