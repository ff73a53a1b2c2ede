"""Masking of secrets in messages that a replica sends to desks through the engine. A setting enables it.

Each secret in a text is replaced by a placeholder, so a screen can still show the message.
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

_KEY_FIELD = "api_key"
_QUESTIONS_PART = "questions"


class SourceMask:
    """Masks messages to desks."""

    def __init__(self, headers: Iterable[str]) -> None:
        """`headers` are names of additional headers whose values must be masked."""
        self._headers = frozenset(headers)

    def masked(self, message: Struct) -> Struct:
        """Return a copy of the message without secrets."""
        match message:
            case TrafficBatch():
                return replace(
                    message,
                    frames=tuple(map(_masked_frame, message.frames)),
                    notes={number: self._masked_note(note) for number, note in message.notes.items()},
                    marks=tuple(map(_masked_mark, message.marks)),
                    remarks=tuple(map(_masked_remark, message.remarks)),
                )
            case State():
                decoded = msgspec.msgpack.decode(message.value)
                value = _masked_texts(decoded)
                if (part_type := FEATURE_PARTS.get(message.part)) is not None:
                    value = msgspec.convert(decoded, part_type).as_masked(msgspec.convert(value, part_type))
                elif message.part == _QUESTIONS_PART:
                    value = _masked_questions(decoded, value)
                return replace(message, value=pack(value))
            case Reply():
                return replace(message, value=pack(_masked_texts(msgspec.msgpack.decode(message.value))))
            case CallUpdate(outcome=CallOutcome() as outcome):
                masked_outcome = CallOutcome(
                    mask_json(outcome.result),
                    mask_json(outcome.error),
                    _masked_bytes(outcome.raw),
                    outcome.elapsed_s,
                    outcome.cancelled,
                )
                return replace(message, outcome=masked_outcome)
        return message

    def _masked_note(self, note: HttpNote) -> HttpNote:
        return HttpNote(mask_text(note.line), mask_headers(note.headers, self._headers))


def _masked_frame(frame: Frame) -> Frame:
    data = _masked_bytes(frame.data)
    if data == frame.data:
        return frame
    is_complete = len(frame.data) == frame.size
    return replace(
        frame, data=data, size=len(data) if is_complete else frame.size, end=_masked_bytes(frame.end)
    )


def _masked_mark(mark: HeldMark) -> HeldMark:
    return replace(mark, was=mask_text(mark.was), now=mask_text(mark.now))


def _masked_remark(remark: RecordedRemark) -> RecordedRemark:
    return replace(remark, remark=replace(remark.remark, text=mask_text(remark.remark.text)))


def _masked_bytes(data: bytes) -> bytes:
    """Mask secrets in a message or a part of a message. Return the same object if it contains no secrets."""
    text = data.decode("utf-8", "replace")
    try:
        value = orjson.loads(data)
    except ValueError:
        masked = mask_text(text)
        return data if masked == text else masked.encode()
    masked_value = mask_message(value)
    return data if masked_value == value else codec.dumps(masked_value)


def _masked_texts(value: Any) -> Any:
    """Mask secrets in the texts of a value, and remove the API key of the core."""
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, bytes):
        return _masked_bytes(value)
    if isinstance(value, dict):
        return {key: "" if key == _KEY_FIELD else _masked_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_masked_texts(each) for each in value]
    return value


def _masked_questions(originals: Any, masked: Any) -> tuple[Question, ...]:
    """Return questions with their secrets masked.

    If a part of a call is masked, the call cannot be allowed.
    """
    question_type = tuple[Question, ...]
    pairs = zip(
        msgspec.convert(originals, question_type), msgspec.convert(masked, question_type), strict=True
    )
    return tuple(as_masked(original, masked_question) for original, masked_question in pairs)
