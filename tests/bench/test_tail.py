"""Disturbed loads are measured again, whatever they measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.bench import tail
from tests.bench.figure import FRAME, OURS, Effort
from tests.bench.measured import DISTURBED, Measured
from tests.bench.tail import TRIES, least_disturbed

WORSE = 2 * DISTURBED


def loads(stolen: Sequence[float]) -> Callable[[], Measured]:
    """Return loads with these stolen shares, one after the other; the last one repeats."""
    left = list(stolen)
    return lambda: Measured(rate=1, stolen=left.pop(0) if len(left) > 1 else left[0])


def stolen(found: Sequence[Measured]) -> list[float]:
    return [load.stolen for load in found]


def test_undisturbed_loads_are_not_measured_again() -> None:
    found = least_disturbed({OURS: loads([0, DISTURBED, WORSE]), FRAME: loads([0])}, 2)
    assert {name: stolen(some) for name, some in found.items()} == {OURS: [0, DISTURBED], FRAME: [0, 0]}


def test_disturbed_loads_are_measured_again_for_all() -> None:
    found = least_disturbed({OURS: loads([WORSE, 0, WORSE, 0]), FRAME: loads([0.001, 0.002, 0.003, 0])}, 2)
    assert {name: stolen(some) for name, some in found.items()} == {OURS: [0, 0], FRAME: [0, 0.001]}


def test_where_it_is_never_quiet_the_least_disturbed_loads_count() -> None:
    noise = [(1 + number % 7) * WORSE for number in range(3 * TRIES)]
    found = least_disturbed({OURS: loads(noise)}, 3)
    assert stolen(found[OURS]) == sorted(noise)[:3]
    assert all(load.is_disturbed for load in found[OURS])


@pytest.mark.slow
def test_figures_are_told_for_new_and_full_rings_of_both_eras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "FULL", 300)
    monkeypatch.setattr(tail, "LOADS", 1)
    monkeypatch.setattr(tail, "TRIES", 1)  # what is measured again is proven above
    told = list(tail.figures(Effort(1, 0.05, (FRAME,))))
    assert [figure.name for figure in told if figure.goal] == [
        f"http {era} c32{state}, p99" for state in ("", ", full ring") for era in ("handshake", "stateless")
    ]
    assert all(0 < figure.ratio < 1000 for figure in told if figure.ratio is not None)
