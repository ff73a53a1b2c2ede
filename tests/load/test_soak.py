"""No data is kept for every call: objects, memory and disk level off once the buffers are full."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.recorder.capture import recording as capture
from tests.load.soak import TOOL, Sample, call_many, growth
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import wait_until
from tests.support.traffic import size_on_disk

CALLS, STEPS = 1_000, 10
"""Calls between two samples, and number of samples."""
WARM, SOME = 2, 3
"""Samples before the rings are full, and samples of which the least counts."""
KEEP = 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("is_watched", [False, True], ids=["serve", "desk"])
async def test_calls_leave_nothing_behind_once_the_rings_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_watched: bool
) -> None:
    monkeypatch.setattr(capture, "_MAX_READABLE_FRAMES", 2_000)
    monkeypatch.setattr(capture, "_MIN_KEPT_EXCHANGES", 300)
    folder = write(tmp_path / "loaded", {"mcp.json": '{"name": "loaded"}', "tools/t.py": TOOL})
    limits: dict[str, Any] = {
        "capture_memory_bytes": KEEP,
        "capture_keep_bytes": KEEP,
        "state_dir": tmp_path / "state",
    }
    async with running_desk(folder, http=True, **limits) as desk:
        port = int(desk.view().servers[0].url.split(":")[2].partition("/")[0])
        tracemalloc.start()
        states: list[tuple[int, int]] = []
        try:
            for step in range(STEPS):
                await call_many(port, step * CALLS, CALLS, 8)
                await asyncio.to_thread(come_to_rest, desk, is_watched=is_watched)
                states.append(state())
        finally:
            tracemalloc.stop()
        # The least of some: a ring drops many frames at a time.
        full, late = states[WARM : WARM + SOME], states[-SOME:]
        calls = (STEPS - WARM - SOME) * CALLS
        assert min(late)[0] - min(full)[0] < calls // 12  # what is under way differs by some hundred
        grown = min(memory for _, memory in late) - min(memory for _, memory in full)
        assert grown < 20 * calls  # the positions of the two frames of a call are 32 bytes
        captures = tmp_path / "state" / "captures"
        wait_until(lambda: size_on_disk(captures) <= KEEP)
        assert len(list(captures.iterdir())) > 1
        assert desk.host.recording.removed_files > 0
        assert not is_watched or desk.traffic.statistics.total().calls == STEPS * CALLS


def come_to_rest(desk: RunningDesk, *, is_watched: bool) -> None:
    """Wait until all frames are on disk, and paired if the desk is watched."""
    recording = desk.host.recording
    wait_until(lambda: recording._on_disk == recording.frames)
    while is_watched and desk.traffic.catch_up(1.0):
        pass


def state() -> tuple[int, int]:
    """Objects known to the garbage collector, and bytes in use."""
    gc.collect()
    return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]


def test_growth_is_the_slope_after_the_rings_are_full() -> None:
    def sample(calls: int, memory: float) -> Sample:
        return Sample(calls, memory, 0.0, 0, 0)

    level = [sample(100, 50.0), *(sample(1_000 * step, 90.0 + step % 2) for step in range(1, 9))]
    assert growth(level[:3], 1_000) is None
    assert abs(growth(level, 1_000) or 0.0) < 100
    rising = [sample(1_000 * step, 90.0 + step) for step in range(1, 9)]
    assert growth(rising, 1_000) == pytest.approx(1_000)
