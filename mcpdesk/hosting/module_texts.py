"""Resources, templates and prompts out of Python functions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcpdesk.errors import HandlerError, MissingCapability, RegistrationError
from mcpdesk.hosting.completers import completers, listed
from mcpdesk.hosting.module_file import Function, ModuleFile, Origin, awaitable, dashed
from mcpdesk.hosting.typed import Typed, typed
from mcpdesk.protocol.jsonrpc import invalid_params
from mcpdesk.protocol.uri_template import UriTemplate
from mcpdesk.server.authoring import Note
from mcpdesk.server.completion import Completer
from mcpdesk.server.context import Context
from mcpdesk.server.prompt import Prompt, PromptArgument
from mcpdesk.server.resource import Resource, ResourceTemplate


def typed_resource(file: Origin, function: Function, note: Note, name: str) -> Resource | ResourceTemplate:
    """The resource or template a decorated function is.

    Raises: RegistrationError.
    """
    awaited = awaitable(function)
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
        return await _call(awaited, signature, given, context)

    fields: dict[str, Any] = {
        "name": note.name or dashed(function.__name__),
        "reader": read,
        "title": note.title,
        "description": note.description or signature.doc.text,
        "mime_type": note.mime_type,
        "annotations": note.annotations,
        "icons": note.icons,
        "meta": note.meta,
        "is_offered": note.is_offered,
        "source": place,
    }
    suggest = completers(_by_variable(note.complete, template), template.variables, place)
    if template.variables:
        return ResourceTemplate(uri_template=note.uri, completers=suggest, **fields)
    return Resource(uri=note.uri, **fields)


def _by_variable(complete: Any, template: UriTemplate) -> Mapping[str, Any]:
    """Suggestions by name; the only variable of a template needs none."""
    if complete is None or isinstance(complete, Mapping):
        return complete or {}
    return {template.variables[0] if len(template.variables) == 1 else "": complete}


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


def typed_prompt(file: ModuleFile, function: Function, note: Note, name: str) -> Prompt:
    """The prompt a function is; its parameters are the arguments.

    Raises: RegistrationError.
    """
    awaited = awaitable(function)
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
        return await _call(awaited, signature, given, context)

    return Prompt(
        name=name,
        renderer=render,
        title=note.title,
        description=note.description or signature.doc.text,
        arguments=arguments,
        icons=note.icons,
        meta=note.meta,
        completers=_closed_sets(properties) | completers(note.complete or {}, properties, place),
        is_offered=note.is_offered,
        source=place,
    )


def _closed_sets(properties: Mapping[str, dict[str, Any]]) -> dict[str, Completer]:
    """Suggestions that hints make by themselves: parameters of which all values are known."""
    sets = {name: schema.get("enum", ()) for name, schema in properties.items()}
    return {
        name: listed(values)
        for name, values in sets.items()
        if values and all(isinstance(each, str) for each in values)
    }


def check_arguments(name: str, arguments: tuple[PromptArgument, ...], given: Mapping[str, Any]) -> None:
    """Refuse missing and unknown arguments of a prompt.

    Raises: RemoteProtocolError (-32602) naming them.
    """
    missing = [each.name for each in arguments if each.required and each.name not in given]
    if missing:
        raise invalid_params(f"Prompt {name} lacks the required argument {', '.join(missing)}")
    known = [each.name for each in arguments]
    for key, value in given.items():
        if key not in known:
            allowed = f"allowed: {', '.join(known)}" if known else "it takes none"
            raise invalid_params(f"Prompt {name} does not know the argument {key}; {allowed}")
        if not isinstance(value, str):
            raise invalid_params(f"Prompt {name}: the argument {key} has to be a string")


async def _call(
    function: Callable[..., Awaitable[Any]], signature: Typed, given: Mapping[str, str], context: Context
) -> Any:
    """Call with texts as arguments. What does not convert, and what `fail()` says, is told to the caller.

    Raises: MissingCapability, which has an error of its own.
    """
    try:
        return await function(**signature.bind(given, context))
    except MissingCapability:
        raise
    except HandlerError as error:
        raise invalid_params(error.message, error.data) from error
