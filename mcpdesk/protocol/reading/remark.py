"""Remarks, which describe faults in the messages of a server."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class RemarkKind(StrEnum):
    """Kind of a fault. `docs/remarks.md` has a row for each."""

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
    QUESTION = "question"
    NO_ANSWER = "no-answer"
    CODE_RUNS = "code-runs"
    CODE_ENDED = "code-ended"


class Remark(Struct, frozen=True, omit_defaults=True):
    """One fault, described for a person."""

    kind: str
    """Value of a `RemarkKind`."""
    text: str
    """One sentence without a full stop: the fault, its position, and how the faulty message was read."""
    at: int | None = None
    """Offset in the message in bytes, or None if the fault has no position."""
    is_fault: bool = False
    """True if the fault made the message unusable."""
