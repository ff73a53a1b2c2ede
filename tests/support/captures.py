"""Captures of tool calls."""

from __future__ import annotations

import time
from pathlib import Path

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote
from tests.support.traffic import IN, OUT, call, connection, error, request, text


def recorded(path: Path, *calls: tuple[str, str, str, float], is_secret: bool = False) -> Path:
    """A capture of calls of a tool: name, argument, what it said (`!`: an error), seconds it took."""
    recording = Recording(path)
    recording.start()
    recording.connect(connection())
    now = time.time()
    for number, (name, argument, output, took) in enumerate(calls):
        asked = call(number, name, {"text": argument, **({"password": "hunter2"} if is_secret else {})})
        headers = (("Host", "a.test"), ("Authorization", "Bearer s3cret-token"))
        note = HttpNote("POST /mcp/profiles HTTP/1.1", headers)
        recording.frame(1, IN, asked, note=note, at=now)
        answer = error(number, -32602, output) if output.startswith("!") else text(number, output)
        recording.frame(1, OUT, answer, at=now + took)
    recording.frame(1, IN, request(99, "tools/list"), at=now)
    recording.close()
    return path
