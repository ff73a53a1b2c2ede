"""`mcpdesk load`: calls at a steady rate, their durations, and comparison with the last run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

HELLO = Path(__file__).parents[3] / "sample_servers" / "hello"
Run = Callable[..., subprocess.CompletedProcess[str]]
TOOLS = '''
import asyncio

async def nap(ms: int) -> str:
    """Sleep."""
    await asyncio.sleep(ms / 1000)
    return "awake"

async def odd(n: int = 0) -> str:
    """Fail."""
    raise ValueError("not today")
'''


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `mcpdesk load` with a separate state folder and return the finished process."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpdesk", "load", *arguments],
            capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "MCPDESK_STATE_DIR": str(tmp_path / "state")},
        )  # fmt: skip

    return run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server" / "tools").mkdir(parents=True)
    (tmp_path / "server" / "tools" / "all.py").write_text(TOOLS)
    return tmp_path / "server"


def test_times_and_phases_are_told_over_every_transport_and_beside_the_last_run(run: Run) -> None:
    arguments = (str(HELLO), "greet", "name=Ada", "--rate", "50", "--for", "0.2")
    finished = run(*arguments, "--over", "memory,stdio,http")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    for way in ("memory", "stdio", "http"):
        assert f"greet over {way}: 10 calls in " in finished.stdout
    assert finished.stdout.count("on average: parse and queue") == 2
    assert "the run before" not in finished.stdout
    assert "the run before" in run(*arguments).stdout


def test_a_call_is_timed_from_when_it_was_due(run: Run, folder: Path) -> None:
    found = json.loads(run(str(folder), "nap", "ms=50", "--rate", "20", "--for", "0.2", "--json").stdout)
    assert (found["calls"], found["failed"], found["before"]) == (4, 0, None)
    assert 49 <= found["p50_ms"] <= found["p90_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert found["phases_ms"]["handler"] >= 49
    assert all(each == round(each, 4) for each in found["phases_ms"].values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nap", "ms=20", "--max-p99", "1"), "p99 is above 1 ms"),
        (("odd",), "2 times: odd failed: ValueError: not today"),
        (("nobody",), "Unknown tool: nobody"),
    ],
)
def test_what_is_too_slow_or_fails_ends_with_1(
    run: Run, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    finished = run(str(folder), *arguments, "--rate", "20", "--for", "0.1")
    assert (finished.returncode, said in finished.stdout) == (1, True), finished.stdout


def test_any_server_is_loaded(run: Run, folder: Path) -> None:
    command = ("--", sys.executable, "-m", "mcpdesk", "stdio", str(folder), "--alone")
    finished = run("--rate", "20", "--for", "0.1", "nap", "ms=1", *command)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "nap: 2 calls" in finished.stdout
