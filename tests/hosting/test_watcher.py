"""Noticing changes, on a real file system."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.hosting.folder import reload
from mcpdesk.hosting.folder.reload import is_watched, watch
from tests.support.patience import WITHIN_S


@asynccontextmanager
async def watching(folder: Path, polling: bool = False) -> AsyncIterator[asyncio.Queue[frozenset[Path]]]:
    """A queue of reported changes, begun."""
    seen: asyncio.Queue[frozenset[Path]] = asyncio.Queue()
    task = asyncio.create_task(watch(folder, seen.put_nowait, polling))
    try:
        await until(seen, folder)
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(seen: asyncio.Queue[frozenset[Path]], path: Path) -> None:
    """Wait for a report that names the path."""
    async with asyncio.timeout(WITHIN_S):
        while path not in await seen.get():
            pass


@pytest.mark.parametrize("polling", [False, True])
async def test_saved_file_is_reported(tmp_path: Path, polling: bool) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    async with watching(tmp_path, polling) as seen:
        path = tools / "a.py"
        path.write_text("x", "utf-8")
        await until(seen, path)


async def test_nothing_is_missed_from_the_first_report_on(tmp_path: Path) -> None:
    for number in range(3):
        async with watching(tmp_path) as seen:
            path = tmp_path / f"{number}.py"
            path.write_text("x", "utf-8")
            await until(seen, path)


async def test_cancelled_watch_ends_at_once(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    took_s = []
    for _ in range(5):  # a busy machine has its moments, but not each time
        async with watching(tmp_path):
            began = loop.time()
        took_s.append(loop.time() - began)
    assert min(took_s) < 0.5, took_s


async def test_atomic_save_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("old", "utf-8")
    async with watching(tmp_path) as seen:
        fresh = tmp_path / ".a.py.tmp"
        fresh.write_text("new", "utf-8")
        fresh.replace(path)
        await until(seen, path)


async def test_folder_that_comes_back_is_watched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "RETRY_S", 0.05)
    folder = tmp_path / "server"
    folder.mkdir()
    async with watching(folder) as seen:
        shutil.rmtree(folder)
        await asyncio.to_thread(folder.mkdir)
        await until(seen, folder)


@pytest.mark.parametrize(
    "name", ["a.py~", ".a.py.swp", "x.pyc", "__pycache__/a.py", ".git/index", "4913", ".#a.py"]
)
def test_noise_is_not_watched(name: str) -> None:
    assert not is_watched(Path("/server") / name, Path("/server"))


@pytest.mark.parametrize("name", ["mcp.json", "tools/a.py", "resources/image.png", ""])
def test_what_matters_is_watched(name: str) -> None:
    assert is_watched(Path("/server") / name, Path("/server"))
