"""Replacement of a folder by a newly read one, and the messages about it."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.hosting.folder import reload
from mcpdesk.hosting.folder.folder_watcher import FolderWatcher
from mcpdesk.hosting.folder.loader import LoadedFolder, load_folder
from mcpdesk.hosting.folder.reload import OfferChanges, apply, is_watched, watch
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool
from tests.support.folders import write
from tests.support.patience import within

Save = Callable[[dict[str, str]], OfferChanges]


async def _nothing(_arguments: object, _context: object) -> None: ...


BASH = Tool("Bash", _nothing, {"type": "object"}, source="built-in")


@pytest.fixture
def server() -> Server:
    return Server("test")


@pytest.fixture
def save(tmp_path: Path, server: Server) -> Iterator[Save]:
    """Writes files and applies the folder to the server."""
    loads: list[LoadedFolder] = []

    def write_and_apply(files: dict[str, str]) -> OfferChanges:
        write(tmp_path, files)
        loads.append(load_folder(tmp_path, loads[-1] if loads else None))
        return apply(loads[-1], server, [BASH], [Unavailable("Nope", "unknown", "mcp.json")])

    yield write_and_apply
    loads[-1].close()


def test_changes_are_told_apart(save: Save, tmp_path: Path) -> None:
    save({"tools/a.py": "async def a(): ...", "tools/b.py": "async def b(): ...", "resources/r.md": "x"})
    (tmp_path / "tools/b.py").unlink()
    changes = save(
        {"tools/a.py": "async def a(): return 1", "tools/c.py": "async def c(): ...", "resources/r.md": "y"}
    )
    assert changes.added == ("c",)
    assert changes.changed == ("a", "resource://r")
    assert changes.removed == ("b",)
    assert changes.updated == ("resource://r",)
    assert changes.summary() == "1 added: c; 2 changed: a, resource://r; 1 removed: b"


def test_broken_file_is_told_once_and_its_repair_as_well(save: Save, server: Server) -> None:
    save({"tools/a.py": "async def a(): ..."})
    assert save({"tools/a.py": "async def a(:"}) == OfferChanges(broken=("a",))
    assert [each.is_serving for each in server.tools.unavailable] == [True, False]
    assert server.tools.get("a") is not None
    assert not save({})
    assert save({"tools/a.py": "async def a(): ..."}).summary() == "1 repaired: a"


def test_tool_of_the_folder_wins_over_a_built_in_one(save: Save, server: Server) -> None:
    save({"tools/a.py": "from mcpdesk import tool\n@tool(name='Bash')\nasync def bash(): ..."})
    found = server.tools.get("Bash")
    assert found is not None
    assert found.source == "tools/a.py:3"
    assert "replaces the built-in one" in server.tools.unavailable[1].reason


@asynccontextmanager
async def watching(folder: Path, polling: bool = False) -> AsyncIterator[asyncio.Queue[frozenset[Path]]]:
    """A queue of reported changes, begun."""
    seen: asyncio.Queue[frozenset[Path]] = asyncio.Queue()
    task = asyncio.create_task(watch(folder, seen.put_nowait, polling))
    try:
        await reported(seen, folder)
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def reported(seen: asyncio.Queue[frozenset[Path]], path: Path) -> None:
    """Wait for a report that names the path."""
    async with within():
        while path not in await seen.get():
            pass


@pytest.mark.parametrize("polling", [False, True])
async def test_saved_file_is_reported(tmp_path: Path, polling: bool) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    async with watching(tmp_path, polling) as seen:
        path = tools / "a.py"
        path.write_text("x", "utf-8")
        await reported(seen, path)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
async def test_the_watcher_reports_a_file_behind_a_linked_folder(tmp_path: Path) -> None:
    folder, shared = tmp_path / "server", tmp_path / "shared"
    folder.mkdir()
    (shared / "inner").mkdir(parents=True)
    (shared / "inner" / "up").symlink_to(shared)
    (folder / "tools").symlink_to(shared)
    watcher = FolderWatcher(folder)
    try:
        (shared / "inner" / "a.py").write_text("x", "utf-8")
        async with within():
            await watcher.wait_for_change()
    finally:
        watcher.close()


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
        await reported(seen, path)


async def test_folder_that_comes_back_is_watched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "RETRY_S", 0.05)
    folder = tmp_path / "server"
    folder.mkdir()
    async with watching(folder) as seen:
        shutil.rmtree(folder)
        await asyncio.to_thread(folder.mkdir)
        await reported(seen, folder)


@pytest.mark.parametrize(
    "name", ["a.py~", ".a.py.swp", "x.pyc", "__pycache__/a.py", ".git/index", "4913", ".#a.py"]
)
def test_noise_is_not_watched(name: str) -> None:
    assert not is_watched(Path("/server") / name, Path("/server"))


@pytest.mark.parametrize("name", ["mcp.json", "tools/a.py", "resources/image.png", ""])
def test_what_matters_is_watched(name: str) -> None:
    assert is_watched(Path("/server") / name, Path("/server"))
