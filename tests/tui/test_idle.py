"""An idle desk sleeps: no timer runs on the screen or in the core, and changes are reported."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from mcpdesk.hosting.core_loop.changes import LoopTurns
from mcpdesk.hosting.core_loop.core_thread import run
from mcpdesk.hosting.core_loop.heartbeat import Heartbeat, Stuck
from mcpdesk.hosting.folder.folder_watcher import FolderWatcher
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.app import DeskApp
from tests.support.desk import running_desk
from tests.support.driven import driven
from tests.support.patience import WITHIN_S, until, wait_until, within


@pytest.mark.slow
async def test_idle_screen_waits_for_the_core_and_shows_what_it_reports(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "still"}')
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "tools.py").write_text(
        'async def nod() -> str:\n    """Nod."""\n    return "yes"\n'
    )
    async with running_desk(tmp_path, state_dir=tmp_path / "state") as link:
        app = DeskApp(link)
        async with driven(app, size=(120, 40)) as pilot:
            refresher = app.main.refresher
            await asyncio.wrap_future(link.request("still", "tools/call", {"name": "nod"}).outcome)
            for screen in ("1", "5", "3", "6"):
                await pilot.press(screen)
                await until(lambda: refresher.is_waiting)
            link.host.journal.notify("something happened")
            await until(lambda: any("something happened" in each.message for each in app._notifications))


@pytest.mark.slow
async def test_change_a_moment_before_a_refresh_is_due_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "still"}')
    async with running_desk(tmp_path, state_dir=tmp_path / "state") as link:
        app = DeskApp(link)
        async with driven(app, size=(120, 40)):
            refresher = app.main.refresher
            await until(lambda: refresher.is_waiting)
            monkeypatch.setattr(app.main, "set_timer", lambda *_, **__: None)  # as a timer that starts late
            for number in range(3):
                link.host.journal.notify(f"news {number}")
                text = f"news {number}"
                await until(lambda: any(text in each.message for each in app._notifications))


def test_heartbeat_of_an_observed_loop_has_no_timer_and_still_finds_it_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, timers = LoopTurns(), list[float]()
    found = threading.Event()

    def report(stuck: Stuck) -> None:
        found.set()

    file = Path(__file__)
    heartbeat = Heartbeat(lambda: [file.parent], lambda *_: "tool", turns, report)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_later", lambda delay, *_: timers.append(delay))
        heartbeat.start()
        await asyncio.sleep(0)
        assert not timers and heartbeat.stuck() is None
        assert found.wait(WITHIN_S), "a loop that does not turn is reported"
        heartbeat.stop()

    run(main(), turns.new_loop)


def test_loop_that_waits_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = LoopTurns()
    noted = threading.Event()
    turns.changes.listen(noted.set)
    loop = turns.new_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        assert noted.wait(WITHIN_S), "the end of a turn is reported"
        noted.clear()
        loop.call_soon_threadsafe(lambda: None)
        assert noted.wait(WITHIN_S)
        started = threading.Event()
        turns.set_at_next_turn(started)
        loop.call_soon_threadsafe(lambda: None)
        assert started.wait(WITHIN_S), "a thread that waits for the next turn is woken"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_writer_of_a_capture_rests_and_writes_what_comes_after(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "capture.jsonl")
    worked = threading.Event()
    recording.start()
    try:
        wait_until(lambda: recording.is_resting)
        recording.on_work = worked.set
        recording.frame(1, Direction.IN, b'{"jsonrpc":"2.0","method":"late"}', True)
        assert worked.is_set()
        assert recording.path is not None
        path = recording.path
        wait_until(lambda: b'"late"' in path.read_bytes() or b"late" in path.read_bytes())
        wait_until(lambda: recording.is_resting)
    finally:
        recording.close()


async def test_folder_watcher_reports_files_and_in_new_folders(tmp_path: Path) -> None:
    watcher = FolderWatcher(tmp_path, {".git"})
    try:
        (tmp_path / ".git").mkdir()
        async with within():
            await watcher.wait_for_change()
            watcher.watch_subfolders()
            (tmp_path / "new").mkdir()
            await watcher.wait_for_change()
            watcher.watch_subfolders()
            (tmp_path / "new" / "file").write_text("1")
            await watcher.wait_for_change()
    finally:
        watcher.close()
