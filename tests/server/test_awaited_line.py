"""Current line of a running call: the author's, through nested coroutines and threads."""

from __future__ import annotations

import asyncio
import threading
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.server.calls.awaited_line import awaited_line
from mcpdesk.server.calls.threads.sync_context import awaitable

CODE = """\
import asyncio

async def inner(gate):
    await asyncio.wait_for(gate.wait(), None)

async def nested(gate):
    for _ in range(1):
        await inner(gate)

def blocks(gate):
    gate.wait()

async def gathers(gate):
    await asyncio.gather(asyncio.sleep(0), inner(gate))

async def waits_for_a_task(gate):
    await asyncio.create_task(inner(gate))

async def has_a_group(gate):
    async with asyncio.TaskGroup() as group:
        group.create_task(inner(gate))

async def waits(gate):
    await asyncio.wait([asyncio.create_task(gathers(gate))])

async def has_a_limit(gate):
    async with asyncio.timeout(60):
        await waits_for_a_task(gate)

async def is_busy_elsewhere(gate):
    other = asyncio.create_task(asyncio.sleep(3600))
    try:
        await gate.wait()
    finally:
        other.cancel()
"""


class Gate:
    """A wait of a plain function, which reports when it begins."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reached, self.opened, self._loop = asyncio.Event(), threading.Event(), loop

    def wait(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        self.opened.wait()


def authored(folder: Path) -> Any:
    """The module of an author, in a folder with a non-ASCII name."""
    file = folder / "tools.py"
    folder.mkdir()
    file.write_text(CODE)
    spec = spec_from_file_location("authored", file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_innermost_line_of_the_author_is_found_through_nested_coroutines(tmp_path: Path) -> None:
    folder = tmp_path / "märz"
    module, gate = authored(folder), asyncio.Event()
    task = asyncio.create_task(module.nested(gate))
    await asyncio.sleep(0)
    expected = "tools.py:4 · await asyncio.wait_for(gate.wait(), None)"
    assert awaited_line(task, folder) == expected
    assert await asyncio.to_thread(awaited_line, task, folder) == expected, "from any thread"
    assert awaited_line(task, tmp_path / "elsewhere") == awaited_line(task, None) == ""
    gate.set()
    await task
    assert awaited_line(task, folder) == awaited_line(None, folder) == ""


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gathers", 4),
        ("waits_for_a_task", 4),
        ("has_a_group", 4),
        ("waits", 4),
        ("has_a_limit", 4),
        ("is_busy_elsewhere", 33),
    ],
)
async def test_tasks_that_are_awaited_are_followed(tmp_path: Path, name: str, line: int) -> None:
    folder = tmp_path / "märz"
    module, gate = authored(folder), asyncio.Event()
    task = asyncio.create_task(getattr(module, name)(gate))
    for _ in range(5):
        await asyncio.sleep(0)
    assert awaited_line(task, folder).startswith(f"tools.py:{line} · ")
    assert (await asyncio.to_thread(awaited_line, task, folder)).startswith(f"tools.py:{line} · ")
    gate.set()
    await task


async def test_the_line_of_a_plain_function_is_found_in_its_thread(tmp_path: Path) -> None:
    folder = tmp_path / "märz"
    module, gate = authored(folder), Gate(asyncio.get_running_loop())
    waiting: Any = awaitable(module.blocks)(gate)
    task = asyncio.create_task(waiting)
    try:
        await gate.reached.wait()
        assert awaited_line(task, folder) == "tools.py:11 · gate.wait()"
    finally:
        gate.opened.set()
    await task
