"""Round trips over stdio with a separate core, beside the peers: one by one, and 64 in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from tests.bench.contender import Contender, contenders
from tests.bench.figure import FRAME, SDK, TYPESCRIPT, Effort, Figure, Goal, rates
from tests.bench.load import WARM_S
from tests.bench.measured import Measured
from tests.bench.messages import ASKS, Ask

GOALS = {
    ("handshake", 1): {FRAME: Goal(0.85), SDK: Goal(7), TYPESCRIPT: Goal(0.94)},
    ("handshake", 64): {FRAME: Goal(0.45), SDK: Goal(80), TYPESCRIPT: Goal(2)},
    ("stateless", 1): {FRAME: Goal(0.85), SDK: Goal(7), TYPESCRIPT: Goal(1.15)},
    ("stateless", 64): {FRAME: Goal(0.45), SDK: Goal(80), TYPESCRIPT: Goal(5)},
}


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second in both eras."""
    with contenders(effort) as known:
        for (era, in_flight), goals in GOALS.items():
            samples = over_pipes(effort, known, ASKS["echo"], era, in_flight)
            yield from rates(f"stdio {era} {sequence(in_flight)}", samples, goals)


def over_pipes(
    effort: Effort, known: Sequence[Contender], ask: Ask, era: str, in_flight: int, events: int = 0
) -> dict[str, list[Measured]]:
    """Return the measurements of loads on pipes."""

    @contextmanager
    def begin() -> Iterator[Mapping[int, Mapping[str, Callable[[], Measured]]]]:
        with ExitStack() as stack:
            measuring = {}
            for one in known:
                pipe = stack.enter_context(closing(one.pipe()))
                if era == "handshake":
                    pipe.shake_hands()
                pipe.load(ask, era, WARM_S, in_flight, events)
                measuring[one.name] = partial(pipe.load, ask, era, effort.seconds, in_flight, events)
            yield {in_flight: measuring}

    return effort.afresh(begin)[in_flight]


def sequence(in_flight: int) -> str:
    """Load of a line, in words."""
    return "one by one" if in_flight == 1 else f"{in_flight} in flight"
