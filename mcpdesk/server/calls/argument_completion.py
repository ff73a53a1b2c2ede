"""`completion/complete`: suggestions for arguments and variables. Source: WIRE 6.1, 6.5."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.protocol.methods import check_uri
from mcpdesk.protocol.uri_template import match, parsed
from mcpdesk.server.calls.context import make_context
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.resources import Completer

if TYPE_CHECKING:
    from mcpdesk.server.offer.resources import ResourceTemplate
    from mcpdesk.server.offer.server import Server

MOST = 100
"""Values one answer may carry."""


class _Target(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    completers: Mapping[str, Completer]


async def complete(server: Server, services: Services, call: Call) -> JSONObject:
    """The CompleteResult; empty where an argument has no suggestions.

    Raises: RemoteProtocolError (-32602) for what is not offered or misshapen.
    """
    target = _target(server, call.params["ref"])
    name, typed = call.params["argument"].get("name"), call.params["argument"].get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        raise invalid_params("argument needs a name and a value, both strings")
    if name not in target.arguments:
        raise invalid_params(f"{target.name[:120]} has no argument {name[:80]!r}")
    given = _given(call) if call.terms.revision.has_completion_context else {}
    completer = target.completers.get(name)
    if completer is None:
        return {"completion": {"values": [], "total": 0, "hasMore": False}}
    context = await make_context(server, services, call, target.name)
    return {"completion": _page(await completer(typed, given, context))}


def _target(server: Server, ref: JSONObject) -> _Target:
    finder = _FINDERS.get(str(ref.get("type")))
    if finder is None:
        raise invalid_params(f"ref.type has to be one of {', '.join(_FINDERS)}")
    return finder(server, ref)


def _prompt(server: Server, ref: JSONObject) -> _Target:
    prompt = server.prompts.get(_text(ref, "name"))
    if prompt is None:
        raise invalid_params(f"Unknown prompt: {ref['name'][:120]}")
    return _Target(prompt.name, tuple(each.name for each in prompt.arguments), prompt.completers)


def _resource(server: Server, ref: JSONObject) -> _Target:
    uri = _text(ref, "uri")
    check_uri(uri, "ref.uri")
    template = server.templates.get(uri) or _template_of(server, uri)
    if template is not None:
        return _Target(template.name, parsed(template.uri_template).variables, template.completers)
    if server.resources.get(uri) is None:
        raise invalid_params(f"Unknown resource or template: {uri[:200]}")
    return _Target(uri, (), {})


def _template_of(server: Server, uri: str) -> ResourceTemplate | None:
    return next((each for each in server.templates if match(each.uri_template, uri) is not None), None)


def _text(ref: JSONObject, key: str) -> str:
    value = ref.get(key)
    if not isinstance(value, str):
        raise invalid_params(f"ref.{key} has to be a string")
    return value


def _given(call: Call) -> dict[str, str]:
    """The arguments the caller has settled already."""
    context: Any = call.params.get("context") or {}
    arguments = (context.get("arguments") or {}) if isinstance(context, dict) else None
    if not isinstance(arguments, dict) or not all(isinstance(each, str) for each in arguments.values()):
        raise invalid_params("context.arguments must be an object of strings")
    return arguments


def _page(found: Iterable[str]) -> JSONObject:
    values = [str(each) for each in islice(found, MOST + 1)]
    total = len(found) if isinstance(found, Sized) else len(values)
    page: JSONObject = {"values": values[:MOST], "hasMore": len(values) > MOST}
    # What is made one by one may go on for ever: only a collection tells how much there is.
    return page if page["hasMore"] and not isinstance(found, Sized) else page | {"total": total}


_FINDERS: dict[str, Callable[[Server, JSONObject], _Target]] = {
    "ref/prompt": _prompt,
    "ref/resource": _resource,
}
