"""Messages held at the desk, in the form for front ends, and the intents of front ends about them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import orjson
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.link.feature_part import FeaturePart, Intent
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.recorder.record import BY_HAND, BY_MOCK

if TYPE_CHECKING:
    from mcpdesk.link.link import Link

HeldDirections = Literal["requests", "answers", "both"]


class Verdict(StrEnum):
    """Decision about a held message. The value is a text for the person."""

    PASS = "passed on"
    CHANGE = "changed"
    DROP = "dropped"
    ANSWER = BY_HAND
    CANNED = BY_MOCK


class HeldMessage(Struct, frozen=True):
    """Message that waits for a person's decision."""

    number: int
    connection: int
    server: str
    peer: str
    is_answer: bool
    method: str
    name: str
    id: Id
    since: float
    """Unix time in seconds."""
    text: str
    """Message as indented JSON, or "" if it is too long to be edited."""
    due: float | None = None
    """Unix time in seconds when the message is released automatically, or None."""
    what: str = "request"
    """Kind of message: `request`, `answer`, `tells` (a notification), `asks` (a question to the client) or
    `reply` (the client's answer to a question).
    """
    is_sent: bool = False
    """True if the server sent the message."""
    core: str = ""
    """Core that holds the message, if the desk shows several machines."""


class CannedCall(Struct, frozen=True):
    """Key of a mock: server, method and name of the requests that get its recorded answer.

    These requests do not reach the server.
    """

    server: str
    method: str
    name: str


class SetHold(Intent[bool], frozen=True):
    """Hold messages that match a traffic filter.

    An empty filter releases all messages and holds no further ones.
    """

    rule: str
    directions: HeldDirections
    is_once: bool = False
    """True to hold only the next message that matches."""


class SetFaults(Intent[bool], frozen=True):
    """Set the fault rules, one per line. An empty text removes all rules."""

    text: str


class Mock(Intent[bool], frozen=True):
    """Answer all requests like `what` with a recorded answer. An empty answer ends this mock."""

    what: CannedCall
    answer: str

    @property
    def key(self) -> object:
        """Identifies the requests that are answered."""
        return self.what


class Release(Intent[bool], frozen=True):
    """Release a held message, replace it by `text`, answer it, or drop it."""

    number: int
    how: Verdict
    text: str = ""

    @property
    def item(self) -> int:
        """Number of the held message."""
        return self.number

    def with_item(self, number: int) -> Self:
        """Return the same request about another message."""
        return replace(self, number=number)


class Delay(Intent[bool], frozen=True):
    """Release a held message after some seconds."""

    number: int
    seconds: float

    @property
    def item(self) -> int:
        """Number of the held message."""
        return self.number

    def with_item(self, number: int) -> Self:
        """Return the same request about another message."""
        return replace(self, number=number)


class HoldView(FeaturePart, frozen=True):
    """Rules for holding messages, and the messages that are held now."""

    part_name: ClassVar[str] = "held"
    intents: ClassVar[Sequence[type[Intent[bool]]]] = (SetHold, SetFaults, Mock, Release, Delay)

    rule: str = ""
    """Filter for the messages to hold, or "" if no messages are held."""
    directions: HeldDirections = "requests"
    messages: tuple[HeldMessage, ...] = ()
    canned: tuple[CannedCall, ...] = ()
    """Requests that get a recorded answer."""
    faults: str = ""
    """Fault rules, one per line."""
    struck: int = 0
    """Number of messages that got a fault since the rules were set."""
    is_once: bool = False
    """True if only the next message that matches the rule is held. Holding then ends."""

    def with_offset(self, offset: int, core: str) -> Self:
        """Return the state with `offset` added to its numbers, and with the name of its core."""
        messages = tuple(
            replace(
                message, number=message.number + offset, connection=message.connection + offset, core=core
            )
            for message in self.messages
        )
        return replace(self, messages=messages)

    def as_masked(self, masked: Self) -> Self:
        """Return the masked state.

        Messages with masked parts cannot be edited, because the edit would contain the mask.
        """
        pairs = zip(self.messages, masked.messages, strict=True)
        messages = tuple(
            masked_message if original.text == masked_message.text else replace(masked_message, text="")
            for original, masked_message in pairs
        )
        return replace(masked, messages=messages)

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Merge the states of several cores. Held messages are sorted, oldest first."""
        view_with_rule = next((view for view in parts if view.rule), cls())
        messages = [message for view in parts for message in view.messages]
        return cls(
            view_with_rule.rule,
            view_with_rule.directions,
            tuple(sorted(messages, key=lambda message: message.since)),
            tuple(dict.fromkeys(call for view in parts for call in view.canned)),
            next((view.faults for view in parts if view.faults), ""),
            sum(view.struck for view in parts),
            view_with_rule.is_once,
        )


def hold_view(link: Link) -> HoldView:
    """Return the rules of a core for holding messages, and its held messages, oldest first."""
    return link.feature_part(HoldView)


def name_of(request: JSONObject) -> str:
    """Return the name of the tool or prompt, or the URI, in a request, or "" if there is none."""
    params = request.get("params")
    return str(params.get("name", params.get("uri", ""))) if isinstance(params, dict) else ""


def _json_object(text: str) -> JSONObject:
    """Parse a JSON object. Raises: ValueError."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("a message must be an object")
    return value


def changed_message(held_message: HeldMessage, original: JSONObject, text: str) -> JSONObject:
    """Parse the text of a message that a person has edited. The message keeps the id of `original`.

    Raises: ValueError.
    """
    message = _json_object(text)
    if held_message.is_answer and ("result" in message) == ("error" in message):
        raise ValueError("an answer must have either a result or an error")
    if not held_message.is_answer and not isinstance(message.get("method"), str):
        raise ValueError("a request must have a method, which is a string")
    if not isinstance(message.get("params", {}), dict):
        raise ValueError("params must be an object")
    if "id" not in original:
        message.pop("id", None)
        return message | {"jsonrpc": "2.0"}
    return message | {"jsonrpc": "2.0", "id": original["id"]}


def response_of(identifier: Id, text: str) -> JSONObject:
    """Create a response from the text that a person entered.

    The text is a full response, or only the result of a response. Raises: ValueError.
    """
    message = _json_object(text)
    if "error" in message and not isinstance(message["error"], dict):
        raise ValueError("an error must be an object with code and message")
    body: JSONObject = {name: message[name] for name in ("result", "error") if name in message}
    return {"jsonrpc": "2.0", "id": identifier} | (body or {"result": message})


def questions_in(answer: JSONObject) -> list[JSONObject]:
    """Return the questions in a result that asks for input, each in the form of a request."""
    result = answer.get("result")
    input_requests = result.get("inputRequests") if isinstance(result, dict) else None
    entries = input_requests.items() if isinstance(input_requests, dict) else ()
    return [{"jsonrpc": "2.0", "id": key, **entry} for key, entry in entries if isinstance(entry, dict)]
