"""Short runs of the benchmarks of the tools."""

from __future__ import annotations

import pytest

from tests.bench import tools
from tests.bench.figure import Effort

EFFORT = Effort(1, 0.05)
SMALL = 3_000_000


@pytest.mark.slow
def test_tools_are_measured_beside_what_they_are_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "OUTPUT_BYTES", SMALL)
    monkeypatch.setattr(tools, "WRITE", tools.WRITE.replace("200000000", str(SMALL)))
    monkeypatch.setattr(tools, "CALLBACKS", 1)
    peers = [figure.peer for figure in (*tools._spawning(EFFORT), *tools._reading(EFFORT))]
    assert peers == ["asyncio", "own tool", "file"]
    assert tools._changes(EFFORT.seconds, 4) > 0
    assert -100 < tools._latest() < 10_000
