"""The messages of an exchange, decoded for a person: batches taken apart, secrets masked, nothing raised."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol.codec import decode
from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.header_checks import Checked, checked
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.masking import mask_headers, mask_message, mask_text
from mcpdesk.recorder.record import Frame

LARGEST = 2 << 20
"""Bytes beyond which a frame is not decoded but shown as the beginning of its text."""
_BEGINNING = 16 << 10
DEEPEST = 200
"""Levels of a message beyond which it is shown as text."""
USUAL_ANSWER = ("HTTP/1.1 200 OK", (("Content-Type", "application/json"),))
"""What is not noted around an answer to a POST: only others are."""


class Legible(NamedTuple):
    """A message to show: `value` is JSON, or text where `problem` says why it is not."""

    value: Any
    problem: str = ""


def message(index: Index, exchange: Exchange, frame: int, schema: Any = None) -> Legible:
    """The message of `exchange` in `frame`; `schema` is the called tool's input schema, if it is known."""
    kept = index.frame(frame)
    if kept is None:
        return Legible("", "the frame is no longer in memory and in no file")
    if kept.size > LARGEST:
        return Legible(_text(kept.data[:_BEGINNING]), f"{kept.size:,} bytes: only the beginning is shown")
    whole = index.whole(frame)
    try:
        value = decode(whole)
    except ProtocolError as error:
        return Legible(_text(whole[:_BEGINNING]), _cut(whole, kept) or error.message)
    if is_deep(whole, value):
        return Legible(_text(whole[:_BEGINNING]), f"nested more than {DEEPEST} levels deep: shown as text")
    return Legible(mask_message(_part(index, exchange, frame, value), schema))


def http(index: Index, exchange: Exchange, frame: int) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """Request or status line and headers around a frame, secrets masked; None: it was not HTTP."""
    note = index.note(frame)
    if note is not None:
        return (mask_text(note.line), mask_headers(note.headers, index.secret_headers))
    return USUAL_ANSWER if _is_posted_answer(index, exchange, frame) else None


def _is_posted_answer(index: Index, exchange: Exchange, frame: int) -> bool:
    """Whether a frame without a note is what a POST was answered with."""
    info = index.connections.get(exchange.connection)
    if frame != exchange.response or exchange.request is None or info is None or info.transport != "http":
        return False
    asked = index.note(exchange.request)
    return asked is not None and asked.line.startswith("POST ")


def http_checked(
    index: Index, exchange: Exchange, frame: int, schema: Any = None
) -> tuple[str, list[Checked]] | None:
    """What `http` gives for the request of an exchange, each header held against the body."""
    note = index.note(frame)
    if note is None:
        return None
    try:
        body = unmasked(index, exchange, frame)
    except ValueError:
        body = None
    headers = checked(note.headers, body, exchange.revision, schema, index.secret_headers)
    return mask_text(note.line), headers


def unmasked(index: Index, exchange: Exchange, frame: int) -> Any:
    """The message of `exchange` in `frame`, secrets and all: to be sent or judged, never to be shown.

    Raises: ValueError when the frame is gone, too large or not JSON.
    """
    kept = index.frame(frame)
    if kept is None:
        raise ValueError("the frame is no longer in memory and in no file")
    if kept.size > LARGEST:
        raise ValueError(f"a frame of {kept.size:,} bytes is too large")
    try:
        value = decode(whole := index.whole(frame))
    except ProtocolError as error:
        raise ValueError(_cut(whole, kept) or error.message) from None
    if is_deep(whole, value):
        raise ValueError(f"a message nested more than {DEEPEST} levels deep")
    return _part(index, exchange, frame, value)


def is_deep(data: bytes, value: Any) -> bool:
    """Whether a decoded message is nested so deeply that walking through it would end the program."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return False
    level = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += [item for item in one.values() if isinstance(item, dict | list)]
            elif isinstance(one, list):
                below += [item for item in one if isinstance(item, dict | list)]
        if not below:
            return False
        level = below
    return True


def _cut(whole: bytes, kept: Frame) -> str:
    """What is said of a frame of which not all was kept."""
    if len(whole) >= kept.size:
        return ""
    return f"only {len(whole):,} of {kept.size:,} bytes were kept (capture_body_bytes)"


def _part(index: Index, exchange: Exchange, frame: int, value: Any) -> Any:
    """The message of `exchange` in a frame that may be a batch."""
    part = index.part_of(exchange.number, frame)
    return value[part] if part is not None and isinstance(value, list) and part < len(value) else value


def _text(data: bytes) -> str:
    return mask_text(data.decode("utf-8", "replace"))
