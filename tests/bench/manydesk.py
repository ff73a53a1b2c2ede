"""One desk over eight replicas of 2,000 frames a second each: its lag, and its cost.

The lag is from the moment a replica records a frame to the moment the desk has paired it. Replicas, engine
and desk share this machine: what else runs on it makes the lag longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from mcpdesk.features.replicas.desk.combined_link import CombinedLink
from mcpdesk.features.replicas.desk.engine_replicas import EngineReplicas
from mcpdesk.link.values import ShownCoreState
from tests.bench.figure import Effort, Figure, Goal
from tests.bench.replicas import used as engine_bytes
from tests.support.engine import PROGRAM, EngineServer, engine_server

REPLICAS, RATE = 8, 2_000
WARM_S = 2.0
EVERY = 7
"""One of so many frames is inspected."""
START_S = 120.0
LAG = Goal(500, at_most=True)


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds of lag, and shares of a processor core."""
    if not PROGRAM:
        return
    rounds = [_measured(max(5.0, effort.seconds)) for _ in range(effort.rounds)]
    for name, unit, goal in (
        ("lag p50", "ms", None),
        ("lag p99", "ms", LAG),
        ("frames missed", "", None),
        ("desk", "cores", None),
        ("replica", "cores", None),
        ("engine memory", "MiB", None),
    ):
        yield Figure(f"manydesk.{name}", unit, [each[name] for each in rounds], goal=goal)


def _measured(seconds: float) -> dict[str, float]:
    with TemporaryDirectory() as place, engine_server() as engine:
        before = engine_bytes(engine)
        sources = [_source(engine, Path(place) / str(at)) for at in range(REPLICAS)]
        try:
            found = _watched(engine, sources, seconds)
            found["engine memory"] = (engine_bytes(engine) - before) / (1 << 20)
            return found
        finally:
            for each in sources:
                each.kill()
                each.communicate()


def _source(engine: EngineServer, state: Path) -> subprocess.Popen[bytes]:
    state.mkdir()
    environment = {"MCPDESK_SHARED": engine.url, "MCPDESK_STATE_DIR": str(state)}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.bench.frame_source", str(RATE)],
        stdin=subprocess.PIPE, env={**os.environ, **environment},
    )  # fmt: skip


def _watched(
    engine: EngineServer, sources: Sequence[subprocess.Popen[bytes]], seconds: float
) -> dict[str, float]:
    link = CombinedLink(EngineReplicas(engine.url, "mcpdesk"), people=0)
    link.attend(1)
    try:
        end = time.monotonic() + START_S
        while sum(each.state is ShownCoreState.LIVING for each in link.view().cores) < REPLICAS:
            assert time.monotonic() < end, link.view().cores
            time.sleep(0.1)
        for each in sources:
            assert each.stdin is not None
            each.stdin.write(b"\n")
            each.stdin.flush()
        time.sleep(WARM_S)
        processes = [psutil.Process(each.pid) for each in sources]
        own, theirs, gone = time.process_time(), _used_s(processes), link.traffic.missing_frames
        lags = sorted(_lags(link, seconds))
        return {
            "lag p50": 1000 * lags[len(lags) // 2],
            "lag p99": 1000 * lags[int(len(lags) * 0.99)],
            "frames missed": link.traffic.missing_frames - gone,
            "desk": (time.process_time() - own) / seconds,
            "replica": (_used_s(processes) - theirs) / seconds / REPLICAS,
        }
    finally:
        link.close()


def _lags(link: CombinedLink, seconds: float) -> Iterator[float]:
    """Yield, in seconds, how long after their recording frames are found to be paired."""
    index, end = link.traffic, time.monotonic() + seconds
    seen = index.paired
    while time.monotonic() < end:
        link.view()
        paired, now = index.paired, time.time()
        for number in range(seen, paired, EVERY):
            if (frame := index.frame(number)) is not None:
                yield now - frame.time
        seen = paired
        time.sleep(0.02)


def _used_s(processes: Sequence[Any]) -> float:
    return float(sum(sum(each.cpu_times()[:2]) for each in processes))
