"""Round trips over stdio, a core of its own beside the SDK's server: one by one, and 64 in flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.messages import ERAS
from tests.bench.pipe import Pipe
from tests.bench.process import MCPDESK, SDK, echo_folder

GOAL = Goal(5.0, at_most=False)


def figures(effort: Effort) -> Iterator[Figure]:
    """Calls a second in both eras."""
    with echo_folder() as folder:
        for era in ERAS:
            for in_flight in (1, 64):
                with ExitStack() as stack:
                    ours = stack.enter_context(closing(Pipe([*MCPDESK, "stdio", str(folder)], folder.parent)))
                    sdk = stack.enter_context(closing(Pipe(SDK, folder.parent)))
                    if era == "handshake":
                        ours.shake_hands()
                        sdk.shake_hands()
                    contenders = {
                        name: partial(pipe.round_trips, era, effort.seconds, in_flight)
                        for name, pipe in (("ours", ours), ("SDK", sdk))
                    }
                    samples = effort.interleaved(contenders)
                name = f"stdio {era} {'one by one' if in_flight == 1 else f'{in_flight} in flight'}"
                yield Figure(name, "/s", samples["ours"], "SDK", samples["SDK"], GOAL)
