"""Masking of secrets in messages that a replica sends to desks through the engine. A setting enables it.

A mask replaces each secret within its text, so that a screen can show the message as usual.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.inbox.question import Question, as_masked
from mcpdesk.link.attach_messages import FEATURE_PARTS, CallUpdate, Reply, State, TrafficBatch, pack
from mcpdesk.link.values import CallOutcome
from mcpdesk.protocol import codec
from mcpdesk.recorder.masking import mask_headers, mask_json, mask_message, mask_text
from mcpdesk.recorder.record import Frame, HeldMark, HttpNote, RecordedRemark

_KEY = "api_key"
_QUESTIONS = "questions"


class SourceMask:
    """Masks messages to desks."""

    def __init__(self, headers: Iterable[str]) -> None:
        """`headers` are names of further headers whose values must be masked."""
        self._headers = frozenset(headers)

    def masked(self, message: Struct) -> Struct:
        """Return a copy of the message without secrets."""
        match message:
            case TrafficBatch():
                return replace(
                    message,
                    frames=tuple(map(_frame, message.frames)),
                    notes={number: self._note(note) for number, note in message.notes.items()},
                    marks=tuple(map(_mark, message.marks)),
                    remarks=tuple(map(_remark, message.remarks)),
                )
            case State():
                decoded = msgspec.msgpack.decode(message.value)
                value = _texts(decoded)
                if (kind := FEATURE_PARTS.get(message.part)) is not None:
                    value = msgspec.convert(decoded, kind).as_masked(msgspec.convert(value, kind))
                elif message.part == _QUESTIONS:
                    value = _questions(decoded, value)
                return replace(message, value=pack(value))
            case Reply():
                return replace(message, value=pack(_texts(msgspec.msgpack.decode(message.value))))
            case CallUpdate(outcome=CallOutcome() as outcome):
                masked_outcome = CallOutcome(
                    mask_json(outcome.result),
                    mask_json(outcome.error),
                    _bytes(outcome.raw),
                    outcome.elapsed_s,
                    outcome.cancelled,
                )
                return replace(message, outcome=masked_outcome)
        return message

    def _note(self, note: HttpNote) -> HttpNote:
        return HttpNote(mask_text(note.line), mask_headers(note.headers, self._headers))


def _frame(frame: Frame) -> Frame:
    data = _bytes(frame.data)
    if data == frame.data:
        return frame
    is_whole = len(frame.data) == frame.size
    return replace(frame, data=data, size=len(data) if is_whole else frame.size, end=_bytes(frame.end))


def _mark(mark: HeldMark) -> HeldMark:
    return replace(mark, was=mask_text(mark.was), now=mask_text(mark.now))


def _remark(remark: RecordedRemark) -> RecordedRemark:
    return replace(remark, remark=replace(remark.remark, text=mask_text(remark.remark.text)))


def _bytes(data: bytes) -> bytes:
    """Mask secrets in a message or a part of a message. Return the same object if it contains no secrets."""
    text = data.decode("utf-8", "replace")
    try:
        value = orjson.loads(data)
    except ValueError:
        masked = mask_text(text)
        return data if masked == text else masked.encode()
    masked_value = mask_message(value)
    return data if masked_value == value else codec.dumps(masked_value)


def _texts(value: Any) -> Any:
    """Mask secrets in the texts of a value, and remove the API key of the core."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, bytes):
        return _bytes(value)
    if isinstance(value, dict):
        return {key: "" if key == _KEY else _texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_texts(each) for each in value]
    return value


def _questions(before: Any, after: Any) -> tuple[Question, ...]:
    """Return questions with their secrets masked.

    If a part of a call is masked, the call cannot be allowed.
    """
    kind = tuple[Question, ...]
    pairs = zip(msgspec.convert(before, kind), msgspec.convert(after, kind), strict=True)
    return tuple(as_masked(was, now) for was, now in pairs)
