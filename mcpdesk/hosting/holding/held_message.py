"""Messages that wait for a person, as a front end sees them, and what a person makes of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import orjson
from msgspec import Struct

from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.recorder.record import BY_HAND, BY_MOCK

Ways = Literal["requests", "answers", "both"]


class Verdict(StrEnum):
    """What becomes of a held message. Its value is what a person reads."""

    GO_ON = "passed on"
    CHANGE = "changed"
    DROP = "dropped"
    ANSWER = BY_HAND
    CANNED = BY_MOCK


class HeldMessage(Struct, frozen=True):
    """A message that waits for a person."""

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
    """The message as indented JSON; empty for one that is too long to be changed."""
    due: float | None = None
    """Unix time in seconds at which it goes on by itself."""
    what: str = "request"
    """`request`, `answer`, `tells` (a notification), `asks` (a question to the client) or `reply` to that."""
    is_sent: bool = False
    """Whether the server sends it."""
    replica: str = ""
    """Of several machines that a desk looks at, the one that holds it."""


class CannedCall(Struct, frozen=True):
    """Requests that all get one captured answer."""

    server: str
    method: str
    name: str


class HoldView(Struct, frozen=True):
    """What is to be held, and what is."""

    rule: str = ""
    """A filter of the traffic; empty: nothing is held."""
    ways: Ways = "requests"
    messages: tuple[HeldMessage, ...] = ()
    canned: tuple[CannedCall, ...] = ()
    """What is answered without its server."""
    faults: str = ""
    """The rules of faults, a line each."""
    struck: int = 0
    """Messages that met a fault since the rules were set."""


def name_of(request: JSONObject) -> str:
    """The tool, prompt or URI a request names."""
    params = request.get("params")
    return str(params.get("name", params.get("uri", ""))) if isinstance(params, dict) else ""


def _read(text: str) -> JSONObject:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"this is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("a message must be an object")
    return found


def changed_message(held: HeldMessage, before: JSONObject, text: str) -> JSONObject:
    """What a person made of a held message; its id stays. Raises: ValueError."""
    found = _read(text)
    if held.is_answer and ("result" in found) == ("error" in found):
        raise ValueError("an answer must have either a result or an error")
    if not held.is_answer and not isinstance(found.get("method"), str):
        raise ValueError("a request must have a method, which is a string")
    if not isinstance(found.get("params", {}), dict):
        raise ValueError("params must be an object")
    if "id" not in before:
        found.pop("id", None)
        return found | {"jsonrpc": "2.0"}
    return found | {"jsonrpc": "2.0", "id": before["id"]}


def response_of(identifier: Id, text: str) -> JSONObject:
    """The answer a person gave: a whole response, or its result alone. Raises: ValueError."""
    found = _read(text)
    if "error" in found and not isinstance(found["error"], dict):
        raise ValueError("an error must be an object with code and message")
    body: JSONObject = {name: found[name] for name in ("result", "error") if name in found}
    return {"jsonrpc": "2.0", "id": identifier} | (body or {"result": found})
