"""Messages held at the desk, as a front end shows them, and a person's changes to them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import orjson
from msgspec import Struct

from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.recorder.record import BY_HAND, BY_MOCK

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
    """Message as indented JSON. Empty if it is too long to be edited."""
    due: float | None = None
    """Unix time in seconds when the message continues automatically, or None."""
    what: str = "request"
    """Kind of message: `request`, `answer`, `tells` (notification), `asks` (question to the client) or
    `reply`.
    """
    is_sent: bool = False
    """True if the server sent the message."""
    replica: str = ""
    """Replica that holds the message, if the desk shows several machines."""


class CannedCall(Struct, frozen=True):
    """Identifies requests that are all answered with one recorded answer, without calling the server."""

    server: str
    method: str
    name: str


class HoldView(Struct, frozen=True):
    """Rules for holding messages, and the messages that are held now."""

    rule: str = ""
    """Filter for the messages to hold. Empty to hold none."""
    directions: HeldDirections = "requests"
    messages: tuple[HeldMessage, ...] = ()
    canned: tuple[CannedCall, ...] = ()
    """Requests that get a recorded answer."""
    faults: str = ""
    """Fault rules, one per line."""
    struck: int = 0
    """Number of messages that got a fault since the rules were set."""


def name_of(request: JSONObject) -> str:
    """Return the name of the tool or prompt, or the URI, in a request."""
    params = request.get("params")
    return str(params.get("name", params.get("uri", ""))) if isinstance(params, dict) else ""


def _read(text: str) -> JSONObject:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("a message must be an object")
    return value


def changed_message(held: HeldMessage, before: JSONObject, text: str) -> JSONObject:
    """Parse the message as a person edited it. Its id stays the same. Raises: ValueError."""
    message = _read(text)
    if held.is_answer and ("result" in message) == ("error" in message):
        raise ValueError("an answer must have either a result or an error")
    if not held.is_answer and not isinstance(message.get("method"), str):
        raise ValueError("a request must have a method, which is a string")
    if not isinstance(message.get("params", {}), dict):
        raise ValueError("params must be an object")
    if "id" not in before:
        message.pop("id", None)
        return message | {"jsonrpc": "2.0"}
    return message | {"jsonrpc": "2.0", "id": before["id"]}


def response_of(identifier: Id, text: str) -> JSONObject:
    """Create a response from the text that a person entered.

    The text is a full response or only its result. Raises: ValueError.
    """
    message = _read(text)
    if "error" in message and not isinstance(message["error"], dict):
        raise ValueError("an error must be an object with code and message")
    body: JSONObject = {name: message[name] for name in ("result", "error") if name in message}
    return {"jsonrpc": "2.0", "id": identifier} | (body or {"result": message})
