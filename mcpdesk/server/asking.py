"""One question to the client, worded for its revision: what is sent, needed, and read from the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mcpdesk.errors import ClientError, MissingCapability
from mcpdesk.protocol import client_features, content
from mcpdesk.protocol.client_questions import check_turns, flat_schema, read_answer
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.asked import Elicited, Root, Sampled, read_roots, read_sampled
from mcpdesk.server.schema import compile_schema

T = TypeVar("T")
Messages = str | Sequence[str | Mapping[str, Any]]


class Asking(Struct, Generic[T], frozen=True):
    """A question ready to be sent. `read` turns the client's result into its value or raises ValueError."""

    kind: str
    method: str
    params: JSONObject
    needed: JSONObject
    read: Callable[[Any], T]

    def check(self, terms: Terms) -> None:
        """Raises: MissingCapability when the client did not declare what this needs."""
        if not client_features.declares(terms, self.needed):
            raise MissingCapability(f"The client does not offer {self.words}", self.needed)

    @property
    def words(self) -> str:
        """What it needs: `elicitation.url`."""
        name, parts = next(iter(self.needed.items()))
        return ".".join((name, *parts))


def form(message: str, schema: Mapping[str, Any] | type, terms: Terms) -> Asking[Elicited]:
    """A form to fill. Raises: ValueError for a schema that is not flat."""
    as_type = schema if isinstance(schema, type) else None
    wire = flat_schema(_schema_of(as_type) if as_type is not None else _mapping(schema), terms.revision)
    accepts = compile_schema(wire).accepts
    fields = frozenset(wire["properties"])

    def read(result: Any) -> Elicited:
        action, filled = read_answer(result, accepts, fields)
        if filled is not None and as_type is not None:
            filled = msgspec.convert(filled, as_type)
        return Elicited(action, filled)

    params: JSONObject = {"message": message, "requestedSchema": wire}
    if terms.revision.has_elicitation_modes:
        params["mode"] = "form"
    return Asking("elicitation", "elicitation/create", params, client_features.FORM, read)


def link(message: str, url: str, terms: Terms) -> Asking[Elicited]:
    """A link to open. Raises: ValueError for one that is not of the web."""
    import secrets

    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"a link to open starts with https://, not {url[:80]!r}")
    params: JSONObject = {"mode": "url", "message": message, "url": url}
    identifier = "" if terms.revision.is_stateless else secrets.token_urlsafe(16)
    if identifier:
        params["elicitationId"] = identifier

    def read(result: Any) -> Elicited:
        return Elicited(read_answer(result, None, frozenset())[0], id=identifier)

    return Asking("elicitation", "elicitation/create", params, client_features.URL, read)


def sampling(messages: Messages, options: Mapping[str, Any], terms: Terms) -> Asking[Sampled]:
    """A message for the client's model to write. `options` are members of the request; None leaves one out.

    Raises: ClientError for messages the revision cannot carry, ValueError for tool results out of balance.
    """
    given = {key: value for key, value in options.items() if value is not None}
    params: JSONObject = {"messages": _messages(messages, terms)} | given
    return Asking("sampling", "sampling/createMessage", params, _sampling_needs(given), read_sampled)


def roots() -> Asking[list[Root]]:
    """The client's roots."""
    return Asking("roots", "roots/list", {}, client_features.ROOTS, read_roots)


def _mapping(schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        raise ValueError(f"a form needs a schema or a class with fields, not {type(schema).__name__}")
    return schema


def _schema_of(as_type: type) -> JSONObject:
    """The schema of a dataclass or TypedDict. Raises: ValueError when it has none."""
    try:
        (reference,), definitions = msgspec.json.schema_components((as_type,))
    except TypeError as error:
        raise ValueError(f"{as_type.__name__} has no JSON Schema: {error}") from None
    name = str(reference.get("$ref", "")).rpartition("/")[2]
    return {**definitions.get(name, reference), "$defs": definitions}


def _sampling_needs(options: Mapping[str, Any]) -> JSONObject:
    if "tools" in options or "toolChoice" in options:
        return client_features.SAMPLING_TOOLS
    if options.get("includeContext", "none") != "none":
        return client_features.SAMPLING_CONTEXT
    return client_features.SAMPLING


def _messages(messages: Messages, terms: Terms) -> list[JSONObject]:
    listed = [messages] if isinstance(messages, str) else messages
    plain = [_message(each) for each in listed]
    check_turns(plain)
    return (
        plain
        if terms.revision.has_sampling_tools
        else [part for each in plain for part in _single(each, terms)]
    )


def _message(message: str | Mapping[str, Any]) -> JSONObject:
    if isinstance(message, str):
        return {"role": "user", "content": content.text(message)}
    shaped = {"role": "user", **message}
    if isinstance(shaped.get("content"), str):
        shaped["content"] = content.text(shaped["content"])
    return shaped


def _single(message: JSONObject, terms: Terms) -> list[JSONObject]:
    """Messages of one block each, as revisions without tools in sampling have them."""
    blocks = message["content"] if isinstance(message["content"], list) else [message["content"]]
    for block in blocks:
        kind = block.get("type")
        if kind not in ("text", "image", "audio") or kind not in terms.revision.content_types:
            raise ClientError(f"Revision {terms.revision} has no {kind} content in sampling")
    return [{"role": message["role"], "content": block} for block in blocks]
