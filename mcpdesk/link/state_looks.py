"""Glyph, word and tone of each state. The terminal and the dashboard use the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from mcpdesk.inbox.question import QuestionState
from mcpdesk.link.values import JobState, Presence, ShownCoreState
from mcpdesk.recorder.index.exchange import Status


class Tone(StrEnum):
    """Meaning of a colour."""

    GOOD = "good"
    BAD = "bad"
    WARN = "warn"
    ACTIVE = "active"
    MUTED = "muted"
    PLAIN = ""


class Look(NamedTuple):
    """Appearance of a state."""

    glyph: str
    word: str
    tone: Tone
    short: str = ""
    """Word of at most seven cells for a narrow column, if `word` is longer."""

    @property
    def text(self) -> str:
        """Glyph and word."""
        return f"{self.glyph} {self.word}".strip()

    def fitted(self, cells: int) -> str:
        """Return the first text that fits: glyph and word, glyph and short word, or only the glyph."""
        texts = (self.text, f"{self.glyph} {self.short or self.word}".strip())
        return next((text for text in texts if len(text) <= cells), self.glyph)


EXCHANGES: Mapping[Status, Look] = {
    Status.PENDING: Look("…", "pending", Tone.ACTIVE),
    Status.OK: Look("✓", "ok", Tone.GOOD),
    Status.ERROR: Look("✗", "protocol error", Tone.BAD, "proto"),
    Status.TOOL_ERROR: Look("✗", "tool error", Tone.BAD, "tool"),
    Status.CANCELLED: Look("⊘", "cancelled", Tone.WARN, "cancel"),
    Status.LEFT: Look("◌", "stopped waiting", Tone.WARN, "runs on"),
    Status.LATE: Look("!", "late", Tone.WARN),
    Status.LOST: Look("!", "lost", Tone.WARN),
    Status.MALFORMED: Look("✗", "malformed", Tone.BAD, "broken"),
    Status.SENT: Look("", "", Tone.PLAIN),
    Status.ASKS: Look("?", "asks", Tone.WARN),
    Status.NEGOTIATION: Look("·", "negotiation", Tone.MUTED),
}
JOBS: Mapping[JobState, Look] = {
    JobState.QUEUED: Look("…", JobState.QUEUED, Tone.MUTED),
    JobState.RUNNING: Look("▸", JobState.RUNNING, Tone.ACTIVE),
    JobState.WAITING: Look("?", JobState.WAITING, Tone.WARN),
    JobState.SUCCEEDED: Look("✓", JobState.SUCCEEDED, Tone.GOOD),
    JobState.FAILED: Look("✕", JobState.FAILED, Tone.BAD),
    JobState.KILLED: Look("☓", JobState.KILLED, Tone.WARN),
    JobState.CANCELLED: Look("⊘", JobState.CANCELLED, Tone.MUTED),
    JobState.LEFT: Look("◌", JobState.LEFT, Tone.WARN),
}
QUESTIONS: Mapping[QuestionState, Look] = {
    QuestionState.WAITING: Look("?", QuestionState.WAITING, Tone.WARN),
    QuestionState.ANSWERED: Look("✓", QuestionState.ANSWERED, Tone.GOOD),
    QuestionState.DECLINED: Look("✕", QuestionState.DECLINED, Tone.BAD),
    QuestionState.CANCELLED: Look("⊘", QuestionState.CANCELLED, Tone.MUTED),
    QuestionState.TIMED_OUT: Look("◷", QuestionState.TIMED_OUT, Tone.MUTED),
    QuestionState.WITHDRAWN: Look("↶", QuestionState.WITHDRAWN, Tone.MUTED),
}
UPSTREAMS: Mapping[str, Look] = {
    "connecting": Look("…", "connecting", Tone.WARN),
    "ready": Look("●", "connected", Tone.GOOD),
    "failed": Look("✕", "not connected", Tone.BAD),
    "ended": Look("✕", "ended", Tone.BAD),
    "disabled": Look("○", "disabled", Tone.MUTED),
}
"""Looks of an upstream server, by `UpstreamView.state`."""
HOSTED: Mapping[str, Look] = {
    "served": Look("●", "served", Tone.GOOD),
    "faulty": Look("▲", "has problems", Tone.WARN),
    "withheld": Look("✕", "not served", Tone.BAD),
}
"""Looks of a server folder: without problems, with some, and without any item that works."""
PRESENCES: Mapping[Presence, Look] = {
    Presence.CONNECTED: Look("●", "connected", Tone.GOOD),
    Presence.QUIET: Look("○", "quiet", Tone.WARN),
    Presence.LEFT: Look("✕", "left", Tone.MUTED),
}
CORES: Mapping[ShownCoreState, Look] = {
    ShownCoreState.LIVING: Look("●", ShownCoreState.LIVING, Tone.GOOD),
    ShownCoreState.SILENT: Look("▲", ShownCoreState.SILENT, Tone.WARN),
    ShownCoreState.ENDED: Look("○", ShownCoreState.ENDED, Tone.MUTED),
    ShownCoreState.GONE: Look("✕", ShownCoreState.GONE, Tone.BAD),
    ShownCoreState.UNREADABLE: Look("▲", ShownCoreState.UNREADABLE, Tone.WARN),
}
LOOK_TABLES: Mapping[str, Mapping[Any, Look]] = {
    "exchanges": EXCHANGES,
    "jobs": JOBS,
    "questions": QUESTIONS,
    "upstreams": UPSTREAMS,
    "presences": PRESENCES,
    "cores": CORES,
}
"""The tables by name, for the dashboard."""
