"""The slowest calls beside the usual ones, at 32 connections, with new and with full rings.

Where a hypervisor takes the processors away for some milliseconds a second, the slowest calls of any program
take several times as long. Loads that were disturbed like that are measured again; the result does not
influence it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter

from tests.bench.figure import FRAME, OURS, Effort, Figure, beside, values
from tests.bench.http import FULL, TAIL, started
from tests.bench.measured import Measured
from tests.bench.messages import ERAS

CONNECTIONS = 32
LOADS = 5
"""Undisturbed loads of each program, every round."""
TRIES = 4
"""Largest factor by which the loads may be repeated."""


def figures(effort: Effort) -> Iterator[Figure]:
    """Milliseconds, beside the median calls and beside the frame's."""
    few = effort.beside_only(FRAME)
    for calls, state in ((0, ""), (FULL, ", full ring")):
        for era in ERAS:
            yield from _told(f"http {era} c{CONNECTIONS}{state}", _loads(few, era, calls))


def _loads(effort: Effort, era: str, calls: int) -> Mapping[str, Sequence[Measured]]:
    """Return all loads of each program. Every round starts it again; ours receives `calls` calls before."""
    case, samples = (era, CONNECTIONS), dict[str, list[Measured]]()
    for _ in range(effort.rounds):
        with started(effort, [case], calls) as cases:
            for name, loads in least_disturbed(cases[case], LOADS).items():
                samples.setdefault(name, []).extend(loads)
    return samples


def least_disturbed(
    jobs: Mapping[str, Callable[[], Measured]], loads: int
) -> Mapping[str, Sequence[Measured]]:
    """Return loads of each, measured in turn until `loads` were undisturbed, or `TRIES` times as many."""
    measured: dict[str, list[Measured]] = {name: [] for name in jobs}
    for _ in range(loads * TRIES):
        for name, run in jobs.items():
            measured[name].append(run())
        if all(sum(not load.is_disturbed for load in each) >= loads for each in measured.values()):
            break
    return {name: sorted(each, key=attrgetter("stolen"))[:loads] for name, each in measured.items()}


def _told(name: str, samples: Mapping[str, Sequence[Measured]]) -> Iterator[Figure]:
    slow, usual = values("p99_ms", samples), values("p50_ms", samples)
    disturbed = sum(load.is_disturbed for load in samples[OURS])
    note = f"{disturbed} of {len(samples[OURS])} loads disturbed" if disturbed else ""
    yield from beside(f"{name}, p50", "ms", usual)
    yield Figure(f"{name}, p99", "ms", slow[OURS], "own p50", usual[OURS], TAIL, note)
    for peer in slow.keys() - {OURS}:
        yield Figure(f"{name}, p99", "ms", slow[OURS], peer, slow[peer])
        yield Figure(f"{name}, {peer}'s p99", "ms", slow[peer], "own p50", usual[peer])
