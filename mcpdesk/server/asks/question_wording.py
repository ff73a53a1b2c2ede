"""Questions to the client in the format of its protocol revision, and answers as Python values.

Source: MCP client/sampling, client/elicitation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from mcpdesk.errors import ClientError, MissingCapability
from mcpdesk.protocol import client_questions, content
from mcpdesk.protocol.client_questions import (
    Terms,
    check_turns,
    flat_schema,
    read_answer,
    strict_schema,
)
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.server.schemas.hints import HintError, from_json, schema_of
from mcpdesk.server.schemas.validation import SchemaError, Validator, compile_schema

T = TypeVar("T")
Messages = str | Sequence[str | Mapping[str, Any]]


class Accepted(Struct, Generic[T], frozen=True):
    """The person accepted. If the question had a URL, the person only agreed to open the URL."""

    content: T
    """Content of the form: an instance of the class of the form, or a dict if the form is a schema."""
    id: str = ""
    """`elicitationId` of a question with a URL, or "" in revisions without it. See `complete_elicitation`."""
    action: ClassVar[Literal["accept"]] = "accept"
    accepted: ClassVar[Literal[True]] = True


class Declined(Struct, frozen=True):
    """The person declined."""

    content: None = None
    id: str = ""
    action: ClassVar[Literal["decline"]] = "decline"
    accepted: ClassVar[Literal[False]] = False


class Cancelled(Struct, frozen=True):
    """The person closed the form without a choice."""

    content: None = None
    id: str = ""
    action: ClassVar[Literal["cancel"]] = "cancel"
    accepted: ClassVar[Literal[False]] = False


Elicited = Accepted[T] | Declined | Cancelled
"""Answer to a question with a form or a URL.

Check `answer.action == "accept"` or use `match` to narrow the type.
"""


class Sampled(Struct, frozen=True):
    """Message that the client's model wrote."""

    content: tuple[JSONObject, ...]
    """Content blocks as received, including `tool_use`."""
    model: str
    role: str = "assistant"
    stop_reason: str = ""

    @property
    def text(self) -> str:
        """All text blocks of the message, joined."""
        return "".join(each["text"] for each in self.content if each.get("type") == "text")


class Root(Struct, frozen=True):
    """Root that a client offers to servers."""

    uri: str
    name: str = ""


class ClientQuestion(Struct, Generic[T], frozen=True):
    """Question that is ready to be sent. `read` converts the client's result, or raises ValueError."""

    kind: str
    method: str
    params: JSONObject
    needed: JSONObject
    """Capability that the client must declare, such as `{"elicitation": {"url": {}}}`."""
    read: Callable[[Any], T]

    def check(self, terms: Terms) -> None:
        """Check the capabilities of the client. Raises: MissingCapability if the client lacks the needed
        capability.
        """
        if not client_questions.declares(terms, self.needed):
            raise MissingCapability(f"The client does not offer {self.capability_name}", self.needed)

    @property
    def capability_name(self) -> str:
        """Name of the capability that the question needs, such as `elicitation.url`."""
        name, parts = next(iter(self.needed.items()))
        return ".".join((name, *parts))


def form(message: str, schema: Mapping[str, Any] | type[T], terms: Terms) -> ClientQuestion[Elicited[Any]]:
    """Build a question with a form. Raises: ValueError if the schema is not flat."""
    form_class = schema if isinstance(schema, type) else None
    source_schema = _mapping(schema) if form_class is None else _schema_of_form(form_class)
    try:
        wire_schema = flat_schema(source_schema, terms.revision)
    except ValueError as error:
        raise ValueError(
            f"{form_class.__name__} cannot be a form: {error}" if form_class else str(error)
        ) from None
    validator = _validator(wire_schema, source_schema)
    fields: dict[str, JSONObject] = wire_schema["properties"]

    def problems_of(form_values: Any) -> str:
        failures = validator.failures(form_values, 3)
        return "; ".join(f"{'.'.join(map(str, each.path))} {each.message}" for each in failures)

    def read(result: Any) -> Elicited[Any]:
        action, form_values = read_answer(result, problems_of, frozenset(fields))
        if form_values is not None and form_class is not None:
            values = {name: _as_integer(value, fields[name]) for name, value in form_values.items()}
            form_values = msgspec.convert(values, form_class, dec_hook=from_json)
        return _elicited(action, form_values)

    params: JSONObject = {"message": message, "requestedSchema": wire_schema}
    if terms.revision.has_elicitation_modes:
        params["mode"] = "form"
    return ClientQuestion("elicitation", "elicitation/create", params, client_questions.FORM, read)


def link(message: str, url: str, terms: Terms) -> ClientQuestion[Elicited[None]]:
    """Build a question with a URL that the person can open. Raises: ValueError if it is not http or https."""
    import secrets

    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ValueError(f"a link must start with https:// or http://, not {url[:80]!r}")
    params: JSONObject = {"mode": "url", "message": message, "url": url}
    identifier = "" if terms.revision.is_stateless else secrets.token_urlsafe(16)
    if identifier:
        params["elicitationId"] = identifier

    def read(result: Any) -> Elicited[None]:
        return _elicited(read_answer(result, None, frozenset())[0], None, identifier)

    return ClientQuestion("elicitation", "elicitation/create", params, client_questions.URL, read)


def sampling(messages: Messages, options: Mapping[str, Any], terms: Terms) -> ClientQuestion[Sampled]:
    """Build a request to the client's model. Options with the value None are left out.

    Raises: ClientError for messages that the revision does not support; ValueError if tool results do not
    match the tool uses.
    """
    given_options = {key: value for key, value in options.items() if value is not None}
    params: JSONObject = {"messages": _messages(messages, terms)} | given_options
    return ClientQuestion(
        "sampling", "sampling/createMessage", params, _sampling_needs(given_options), read_sampled
    )


def roots() -> ClientQuestion[list[Root]]:
    """Build a request for the client's roots."""
    return ClientQuestion("roots", "roots/list", {}, client_questions.ROOTS, read_roots)


def _mapping(schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        raise ValueError(f"a form must be a schema or a class with fields, not {type(schema).__name__}")
    return schema


def _elicited(action: str, content: T, id: str = "") -> Elicited[T]:
    if action == "accept":
        return Accepted(content, id)
    return Declined(id=id) if action == "decline" else Cancelled(id=id)


def _schema_of_form(form_class: type) -> JSONObject:
    """Return the schema of a class. Raises: ValueError that names the class and the unsupported field."""
    try:
        return schema_of(form_class)
    except HintError as error:
        raise ValueError(f"{form_class.__name__} cannot be a form: {error}") from None


def _validator(wire_schema: JSONObject, schema: Mapping[str, Any]) -> Validator:
    """Return a validator for the values of a form.

    It checks `wire_schema`, which the client receives, and the constraints of `schema` that `wire_schema`
    cannot express. If one of these constraints is invalid, such as a pattern, it only checks `wire_schema`.
    """
    try:
        return compile_schema(strict_schema(wire_schema, schema))
    except SchemaError:
        return compile_schema(wire_schema)


def _as_integer(value: Any, field: JSONObject) -> Any:
    """Return the value of an integer field as an int, because JSON Schema also allows 3.0."""
    return int(value) if field["type"] == "integer" and isinstance(value, float) else value


def _sampling_needs(options: Mapping[str, Any]) -> JSONObject:
    if "tools" in options or "toolChoice" in options:
        return client_questions.SAMPLING_TOOLS
    if options.get("includeContext", "none") != "none":
        return client_questions.SAMPLING_CONTEXT
    return client_questions.SAMPLING


def _messages(messages: Messages, terms: Terms) -> list[JSONObject]:
    message_list = [messages] if isinstance(messages, str) else messages
    message_objects = [_message(each) for each in message_list]
    check_turns(message_objects)
    if terms.revision.has_sampling_tools:
        return message_objects
    return [part for each in message_objects for part in _split_blocks(each, terms)]


def _message(message: str | Mapping[str, Any]) -> JSONObject:
    if isinstance(message, str):
        return {"role": "user", "content": content.text(message)}
    message_object = {"role": "user", **message}
    if isinstance(message_object.get("content"), str):
        message_object["content"] = content.text(message_object["content"])
    return message_object


def _split_blocks(message: JSONObject, terms: Terms) -> list[JSONObject]:
    """Split a message into messages with one block each, for revisions without tools in sampling."""
    blocks = message["content"] if isinstance(message["content"], list) else [message["content"]]
    for block in blocks:
        kind = block.get("type")
        if kind not in ("text", "image", "audio") or kind not in terms.revision.content_types:
            raise ClientError(f"Revision {terms.revision} has no {kind} content in sampling")
    return [{"role": message["role"], "content": block} for block in blocks]


def read_sampled(result: Any) -> Sampled:
    """Return the message in a sampling result. Raises: ValueError if it is invalid."""
    if not isinstance(result, dict):
        raise ValueError("a sampling result must be an object")
    content = result.get("content")
    blocks: list[Any] = content if isinstance(content, list) else [content]
    if not all(_is_block(block) for block in blocks):
        raise ValueError("a sampling result must have content blocks")
    role, model = result.get("role"), result.get("model")
    if role not in ("assistant", "user") or not isinstance(model, str):
        raise ValueError("a sampling result must have a role (assistant or user) and a model")
    reason = result.get("stopReason")
    return Sampled(tuple(blocks), model, role, reason if isinstance(reason, str) else "")


def read_roots(result: Any) -> list[Root]:
    """Return the roots in a result. Raises: ValueError if it is invalid."""
    root_objects = result.get("roots") if isinstance(result, dict) else None
    if not isinstance(root_objects, list) or not all(_is_root(each) for each in root_objects):
        raise ValueError("roots must be a list of objects with a uri")
    return [Root(each["uri"], each.get("name") or "") for each in root_objects]


def _is_block(block: object) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _is_root(root: object) -> bool:
    if not isinstance(root, dict) or not isinstance(root.get("uri"), str):
        return False
    return isinstance(root.get("name", ""), str | None)
