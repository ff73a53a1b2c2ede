"""Tells the person when the capture cannot be written, and when it can again."""

from __future__ import annotations

import asyncio

from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.recorder.capture.recording import Recording

CHECK_S = 0.5
"""How often to check whether the capture is written."""


async def watch_capture(recording: Recording, journal: Journal) -> None:
    """Report until cancelled."""
    failing, missing = "", 0
    while True:
        now = recording.failing
        if now and not failing:
            journal.notify(f"{now[0].upper()}{now[1:]}: frames wait in memory", Severity.ERROR)
        lost = recording.missing
        if not now and (failing or lost > missing):
            told = f"nothing is missing ({recording.path})"
            if lost > missing:
                told = f"{recording.error}; it goes on in {recording.path}"
            severity = Severity.WARNING if lost > missing else Severity.INFO
            journal.notify(f"The capture is written again: {told}", severity)
            missing = lost
        failing = now
        await asyncio.sleep(CHECK_S)
