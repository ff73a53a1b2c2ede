"""Recorded values are not tracked by the garbage collector."""

from __future__ import annotations

import gc

from mcpdesk.recorder.record import Direction, Frame, FrameRun, HttpNote
from tests.support.traffic import connection


def test_frames_connections_and_notes_are_never_tracked() -> None:
    frame, run = Frame(0, 1.0, 1, Direction.IN, b"x", 1), FrameRun(0, 1.0, 1, Direction.IN, b"x", 1)
    values = (frame, run, connection(), HttpNote("GET / HTTP/1.1", ()))
    assert not any(gc.is_tracked(value) for value in values)
