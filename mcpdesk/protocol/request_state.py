"""`requestState`: signed state that a client returns in the next round of an operation.

Clients can read it but not change it. It contains the answers so far, the questions, the operation and
principal, and an expiry time. Source: MCP basic/patterns/mrtr.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct, field

from mcpdesk.protocol.jsonrpc import invalid_params

VERSION = "v2"
ROUND_MEMBERS = frozenset({"_meta", "inputResponses", "requestState"})
"""Members of `params` that differ between the rounds of one operation."""
_SORTED = orjson.OPT_SORT_KEYS


class RequestState(Struct, frozen=True):
    """Content of one token."""

    round: str
    """Id of the parked (suspended) handler that waits for the token. The handler may have ended already."""
    binding: str
    """Digest of the operation, and of the principal that the token belongs to."""
    expires: float
    """Unix time in seconds."""
    answers: dict[str, Any] = field(default_factory=dict)
    """Answers of the client in all rounds so far, by key."""
    questions: dict[str, str] = field(default_factory=dict)
    """Digests of the questions, by key."""


def digest(value: Any) -> str:
    """Return a short fingerprint of a JSON value. The order of keys does not matter."""
    import hashlib  # the import takes 0.3 ms, and most servers never need it

    return hashlib.sha256(orjson.dumps(value, option=_SORTED)).hexdigest()[:32]


def binding(server: str, method: str, params: Mapping[str, Any], principal: str) -> str:
    """Return the digest that binds a token to one operation: principal, server, method and parameters."""
    constant_params = {key: value for key, value in params.items() if key not in ROUND_MEMBERS}
    return digest([server, principal, method, constant_params])


def seal(state: RequestState, secret: bytes) -> str:
    """Return the token of a state."""
    text = f"{VERSION}.{urlsafe_b64encode(msgspec.json.encode(state)).decode()}"
    return f"{text}.{_signature(text, secret)}"


def unseal(token: object, secrets: Sequence[bytes], expected_binding: str, now: float) -> RequestState:
    """Return the state in a token.

    The token must have been sealed with one of the secrets and for the operation with the binding
    `expected_binding`, and must not have expired at the time `now`. Raises: RemoteProtocolError (-32602) with
    the same message for every fault.
    """
    import hmac

    error = invalid_params("requestState is not valid for this request")
    if not isinstance(token, str) or not token.isascii():
        raise error
    text, _, signature = token.rpartition(".")
    version, _, payload = text.partition(".")
    is_signed = any(hmac.compare_digest(_signature(text, secret), signature) for secret in secrets)
    if not is_signed or version != VERSION:
        raise error
    state = msgspec.json.decode(urlsafe_b64decode(payload), type=RequestState)
    if state.binding != expected_binding or state.expires <= now:
        raise error
    return state


def round_of(token: object) -> str:
    """Return the id of the parked handler in a token, without verifying the token.

    Return "" for an invalid token.
    """
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) < 2:
        return ""
    try:
        return msgspec.json.decode(urlsafe_b64decode(parts[1]), type=RequestState).round
    except (ValueError, msgspec.MsgspecError):
        return ""


def _signature(text: str, secret: bytes) -> str:
    import hmac

    return urlsafe_b64encode(hmac.digest(secret, text.encode(), "sha256")).decode().rstrip("=")
