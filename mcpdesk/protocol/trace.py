"""Trace context of a request: W3C Trace Context and Baggage, in `params._meta`. Source: MCP basic."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

KEYS = ("traceparent", "tracestate", "baggage")
MAX_STATE_LENGTH, MAX_BAGGAGE_LENGTH = 512, 8192
"""Maximum number of characters."""
_PARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?"
)
_STATE_KEY = r"[a-z0-9][a-z0-9_*/-]{0,255}(?:@[a-z][a-z0-9_*/-]{0,13})?"
_STATE_MEMBER = re.compile(rf"{_STATE_KEY}=[ -+\--<>-~]{{0,255}}[!-+\--<>-~]")
_PAIR = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+[ \t]*=[ \t]*[!#-+\--:<-\[\]-~]*"
_BAGGAGE_MEMBER = re.compile(
    rf"{_PAIR}(?:[ \t]*;[ \t]*[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?:[ \t]*=[!#-+\--:<-\[\]-~]*)?)*"
)


class Trace(Struct, frozen=True):
    """Trace context that a caller sent. Each member is well-formed or empty, but not trusted."""

    traceparent: str = ""
    tracestate: str = ""
    baggage: str = ""

    @property
    def id(self) -> str:
        """Trace id of 32 hexadecimal digits, or "" without a trace."""
        return self.traceparent[3:35]

    @property
    def parent(self) -> str:
        """Id of the caller's span, of 16 hexadecimal digits, or "" without a trace."""
        return self.traceparent[36:52]

    @property
    def is_sampled(self) -> bool:
        """True if the caller records the trace."""
        return bool(self.traceparent) and int(self.traceparent[53:55], 16) & 1 == 1

    def environment(self) -> dict[str, str]:
        """Return the environment variables that pass the context to child processes."""
        return {key.upper(): value for key in KEYS if (value := getattr(self, key))}


class CallSpan(Struct, frozen=True):
    """Position of a call in a trace: a span for the call, and below it a span for its handler.

    Ids are numbers, of 128 bits for a trace and 64 bits for a span.
    """

    trace: Trace
    """Context that the handler must propagate. Its parent is the handler's span (`handler_id`)."""
    trace_id: int
    span_id: int
    """Id of the call's span."""
    handler_id: int
    """Id of the handler's span."""
    parent_id: int = 0
    """Id of the caller's span, or 0 if the call begins the trace."""
    is_sampled: bool = True
    """False if the trace is not recorded."""
    linked: Trace | None = None
    """Trace of the HTTP request, if it differs from that of the message."""


NONE = Trace()


def read_trace(meta: object) -> Trace:
    """Return the trace context in a request's `_meta`. Malformed members count as absent."""
    if not isinstance(meta, Mapping) or not any(key in meta for key in KEYS):
        return NONE
    parent, state, baggage = (_text(meta.get(key)) for key in KEYS)
    if not _is_parent(parent):
        parent = state = ""
    if not _is_list(state, _STATE_MEMBER, MAX_STATE_LENGTH, 32):
        state = ""
    if not _is_list(baggage, _BAGGAGE_MEMBER, MAX_BAGGAGE_LENGTH, 180):
        baggage = ""
    return Trace(parent, state, baggage)


def trace_of(meta: object, headers: Mapping[str, str] | None) -> Trace:
    """Return the trace in the `_meta` of a request, or else the trace in its HTTP headers."""
    trace = read_trace(meta)
    return read_trace(headers) if not trace.traceparent and headers is not None else trace


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_parent(text: str) -> bool:
    match = _PARENT.fullmatch(text)
    # In version 00 the flags are the last field. Later versions may have more fields.
    return match is not None and (match[1] != "00" or match[3] is None)


def _is_list(text: str, member: re.Pattern[str], max_characters: int, max_members: int) -> bool:
    if len(text) > max_characters:
        return False
    members = [part for each in text.split(",") if (part := each.strip(" \t"))]
    return len(members) <= max_members and all(member.fullmatch(each) for each in members)
