"""Recorded values cost the collector nothing."""

from __future__ import annotations

import gc

from mcpdesk.recorder.record import Direction, Frame, HttpNote
from tests.support.traffic import connection


def test_frames_connections_and_notes_are_never_tracked() -> None:
    values = (Frame(0, 1.0, 1, Direction.IN, b"x", 1), connection(), HttpNote(0, "GET / HTTP/1.1", ()))
    assert not any(gc.is_tracked(value) for value in values)
