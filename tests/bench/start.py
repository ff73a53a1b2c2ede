"""From process start to the first answered `tools/list` of `mcpdesk stdio FOLDER`, in its other two forms.

The usual form, which starts a core, is in `cold`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench.cold import starts, until_listed, usual
from tests.bench.contender import contenders
from tests.bench.figure import OURS, SDK, Effort, Figure, Goal
from tests.bench.process import environment, serving

AS_PUMP = Goal(3.0, at_most=True)
ALONE = Goal(0.3, at_most=True)


def figures(effort: Effort) -> Iterator[Figure]:
    """Measure it as a pump beside a running core, and with `--alone`."""
    with contenders(effort) as (ours, *peers):
        folder = Path(ours.stdio[-1])
        with serving(folder):
            samples = effort.interleaved(
                {
                    OURS: partial(usual, partial(until_listed, ours.stdio, ours.state)),
                    "python -c pass": partial(usual, partial(_bare_python, ours.state)),
                }
            )
        yield from starts("start stdio, pump", samples, {"python -c pass": AS_PUMP})
        commands = {OURS: (*ours.stdio, "--alone")} | {
            one.name: one.stdio for one in peers if one.name == SDK
        }
        samples = effort.interleaved(
            {
                name: partial(usual, partial(until_listed, command, ours.state))
                for name, command in commands.items()
            }
        )
        yield from starts("start stdio --alone", samples, {SDK: ALONE})


def _bare_python(state: Path) -> float:
    return _one_run([sys.executable, "-c", "pass"], state)


def _one_run(command: Sequence[str], state: Path) -> float:
    """Milliseconds from the start to the end."""
    began = time.perf_counter()
    subprocess.run(command, env=environment(state), check=True)
    return 1000 * (time.perf_counter() - began)
