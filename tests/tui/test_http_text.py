"""What HTTP said is laid out per exchange, headers with glyph and words; only requests are judged."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote
from mcpdesk.tui.traffic import exchange_text as module
from mcpdesk.tui.traffic.exchange_text import http_text
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    busy_recording,
    connection,
    request,
    result,
    settle,
)


def said(recording: Recording, number: int) -> str:
    index = recording.index
    return http_text(index, index.exchange(number)).plain


def test_headers_have_a_glyph_and_words() -> None:
    lines = said(asking_recording(), 0).splitlines()
    assert lines[:5] == [
        "tools/call #11",
        "",
        "POST /mcp/profiles HTTP/1.1",
        "✗ Mcp-Name:  missing",
        "✓ Host: 127.0.0.1:3333  this machine",
    ]
    assert lines[9] == "  Authorization: Bearer ••••"


def test_a_single_exchange_has_no_heading_and_its_response_is_not_judged() -> None:
    lines = said(busy_recording(), 0).splitlines()
    assert lines[0] == "POST /mcp/profiles?api_key=•••• HTTP/1.1"
    assert lines[-2:] == ["HTTP/1.1 200 OK", "  Content-Type: application/json"]


def test_what_was_no_post_is_not_judged() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    frame = recording.frame(1, IN, request(1, "ping"))
    recording.note(HttpNote(frame, "GET /mcp/profiles/ws HTTP/1.1", (("Upgrade", "websocket"),)))
    recording.frame(1, OUT, result(1))
    settle(recording)
    assert said(recording, 0) == "GET /mcp/profiles/ws HTTP/1.1\n  Upgrade: websocket"


def test_strangers_headers_are_harmless() -> None:
    recording = Recording(None)
    frame = recording.frame(1, IN, b"no json")
    recording.note(HttpNote(frame, "POST /\x1b[31m HTTP/1.1", (("X-\x07", "[b]\x1b[0m"),)))
    settle(recording)
    assert "\x1b" not in said(recording, 0) and "[b]" in said(recording, 0)


def test_only_the_newest_parts_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARTS", 1)
    text = said(asking_recording(), 0)
    assert "#11" in text and "#12" not in text and "#13" in text


def test_a_pipe_has_no_headers() -> None:
    assert said(asking_recording(), 3) == "This did not pass over HTTP."
