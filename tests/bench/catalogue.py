"""A server of 1,000 tools: lists of all of them, and calls of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.bench.contender import contenders, served
from tests.bench.figure import FRAME, OURS, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.messages import LIST
from tests.bench.stdio import over_pipes

TOOLS = 1_000
LISTED = {FRAME: Goal(1.2), TYPESCRIPT: Goal(75)}
LISTED_OVER_STDIO = {FRAME: Goal(1.2), TYPESCRIPT: Goal(35)}
CALLED = {FRAME: Goal(0.8), SDK: Goal(9), TYPESCRIPT: Goal(19), "one tool": Goal(0.95)}


def figures(effort: Effort) -> Iterator[Figure]:
    """Lists a second over HTTP and stdio; calls a second with many tools and with one."""
    with served(effort, TOOLS) as places, served(replace(effort, peers=())) as few:
        samples = effort.interleaved(
            {name: place.job("list", "stateless", effort.seconds, 1).run for name, place in places.items()}
        )
        yield from rates("http 1,000 tools listed", samples, LISTED)
        all_places = {**places, "one tool": few[OURS]}
        samples = effort.interleaved(
            {
                name: place.job("echo", "stateless", effort.seconds, 32).run
                for name, place in all_places.items()
            }
        )
        yield from rates("http call among 1,000 tools", samples, CALLED)
    with contenders(effort, TOOLS) as known:
        samples = over_pipes(effort, known, LIST, "stateless", 1)
        yield from rates("stdio 1,000 tools listed", samples, LISTED_OVER_STDIO)
