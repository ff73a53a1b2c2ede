"""Remarks: a fault that was found in a message of a server and did not stop us from reading it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class RemarkKind(StrEnum):
    """What is wrong. `docs/remarks.md` has a row for each."""

    UTF16 = "utf-16"
    ENCODING = "encoding"
    BYTE_ORDER_MARK = "byte-order-mark"
    NUL = "nul"
    SURROGATE = "surrogate"
    NUMBER = "number"
    CONTROL = "control-character"
    SYNTAX = "syntax"
    DUPLICATE_KEY = "duplicate-key"
    UNREADABLE = "unreadable"
    JSONRPC = "jsonrpc"
    ID_TYPE = "id-type"
    NO_ID = "no-id"
    UNKNOWN_ID = "unknown-id"
    REPEATED_ANSWER = "repeated-answer"
    BATCH = "batch"
    SEVERAL_MESSAGES = "several-messages"
    SEVERAL_LINES = "several-lines"
    CONTENT_LENGTH = "content-length"
    TEXT_AROUND = "text-around"
    STDOUT = "stdout"
    RESULT = "result"
    ERROR_SHAPE = "error-shape"
    CONTENT_TYPE = "content-type"
    UNTERMINATED = "unterminated"
    REDIRECT = "redirect"
    SESSION = "session"
    REVISION = "revision"
    OAUTH = "oauth"
    NEGOTIATION = "negotiation"
    NO_ANSWER = "no-answer"
    CODE_RUNS = "code-runs"
    CODE_ENDED = "code-ended"


class Remark(Struct, frozen=True, omit_defaults=True):
    """One fault, in words for a person."""

    kind: str
    """A `RemarkKind`."""
    text: str
    """One sentence without a full stop: the fault, its position, and how it was read."""
    at: int | None = None
    """Offset in bytes in the message; None where the fault has no position."""
    is_fault: bool = False
    """Whether the message could not be used because of it."""
