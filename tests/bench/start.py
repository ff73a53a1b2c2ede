"""From process start to the first answered `tools/list` of `mcpdesk stdio FOLDER`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

from tests.bench.figure import Effort, Figure, Goal
from tests.bench.pipe import Pipe
from tests.bench.process import MCPDESK, SDK, echo_folder, environment, serving

AS_PUMP = Goal(3.0, at_most=True)
AS_CORE = Goal(0.3, at_most=True)
STARTS = 5
"""Starts of every contender in a round, of which the median counts."""


def figures(effort: Effort) -> Iterator[Figure]:
    """As a pump beside a running core, and as a core of its own."""
    with echo_folder() as folder:
        stdio = [*MCPDESK, "stdio", str(folder)]
        with serving(folder):
            samples = effort.interleaved(
                {
                    "pump": partial(_until_listed, stdio, folder.parent),
                    "python -c pass": partial(_bare_python, folder.parent),
                }
            )
        bare = samples["python -c pass"]
        yield Figure("start stdio, pump", "ms", samples["pump"], "python -c pass", bare, AS_PUMP)
        samples = effort.interleaved(
            {
                "plain": partial(_until_listed, stdio, folder.parent),
                "alone": partial(_until_listed, [*stdio, "--alone"], folder.parent),
                "SDK": partial(_until_listed, SDK, folder.parent),
            }
        )
        yield Figure("start stdio, own core", "ms", samples["plain"], "SDK", samples["SDK"], AS_CORE)
        yield Figure("start stdio --alone", "ms", samples["alone"], "SDK", samples["SDK"], AS_CORE)


def _until_listed(command: Sequence[str], state: Path) -> float:
    return median(_one_start(command, state) for _ in range(STARTS))


def _one_start(command: Sequence[str], state: Path) -> float:
    """Milliseconds from the start to the answer."""
    began = time.perf_counter()
    with closing(Pipe(command, state)) as pipe:
        pipe.list_tools()
        return 1000 * (time.perf_counter() - began)


def _bare_python(state: Path) -> float:
    return median(_one_run([sys.executable, "-c", "pass"], state) for _ in range(STARTS))


def _one_run(command: Sequence[str], state: Path) -> float:
    """Milliseconds from the start to the end."""
    began = time.perf_counter()
    subprocess.run(command, env=environment(state), check=True)
    return 1000 * (time.perf_counter() - began)
