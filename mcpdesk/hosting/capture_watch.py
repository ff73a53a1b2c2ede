"""Creation of the recording of a core, and reports to the person when its capture file fails or recovers."""

from __future__ import annotations

import asyncio
from typing import Any

from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.capture.retention import Retention

CHECK_S = 0.5
"""Seconds between checks of the capture file. The watch checks only while frames wait to be written."""


def recording_for(plan: HostPlan, journal: Journal) -> Recording:
    """Create the recording of a core. The journal logs every old capture that the recording removes."""
    settings = plan.settings
    recording = Recording(
        plan.capture,
        settings.capture_memory_bytes,
        settings.capture_max_bytes,
        frozenset({settings.api_key_header}),
        settings.capture_body_bytes,
        Retention(settings.capture_keep_bytes, settings.capture_keep_age),
    )
    recording.on_removed = lambda removed: journal.log("info", "server", str(removed))
    return recording


async def watch_capture(recording: Recording, journal: Journal) -> None:
    """Report failures and recoveries of the capture file until cancelled."""
    loop = asyncio.get_running_loop()
    has_work = asyncio.Event()
    recording.on_work = lambda: call_soon_safely(loop, has_work.set)
    last_failure, reported_missing = "", 0
    while True:
        failure = recording.failing
        if failure and not last_failure:
            journal.notify(f"{failure[0].upper()}{failure[1:]}: frames are kept in memory", Severity.ERROR)
        missing_frames = recording.missing
        if not failure and (last_failure or missing_frames > reported_missing):
            message = f"nothing is missing ({recording.path})"
            if missing_frames > reported_missing:
                message = f"{recording.error}; it continues in {recording.path}"
            severity = Severity.WARNING if missing_frames > reported_missing else Severity.INFO
            journal.notify(f"The capture is written again: {message}", severity)
            reported_missing = missing_frames
        last_failure = failure
        has_work.clear()
        if recording.is_resting and not last_failure:
            await has_work.wait()
        await asyncio.sleep(CHECK_S)


def masked(value: Any, schema: Any = None) -> Any:
    """Return a copy of a value where the parts that its schema marks as secret are masked."""
    from mcpdesk.recorder.masking import mask_declared  # only needed once a person sees a value

    return mask_declared(value, schema)
