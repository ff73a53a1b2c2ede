"""A screen attached to a stopped core: every key is handled, and results appear later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from textual.widgets import Static

from mcpdesk.link.link import promise
from mcpdesk.link.remote import RemoteLink, running_cores
from mcpdesk.link.values import JobUse
from mcpdesk.link.waiting import result_of
from mcpdesk.tui import core_answers
from mcpdesk.tui.screens.compare import CompareScreen
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.workbench.save_page import SavePage
from tests.cli.conftest import Service, started_services
from tests.support.folders import write
from tests.support.frame import toasts
from tests.support.patience import until
from tests.support.workbench import Bench, bench

FILES = {
    "mcp.json": '{"name": "far"}',
    "tools/tools.py": '''
        from mcpdesk import tool


        @tool(read_only=True)
        async def large(letter: str, words: str = "") -> str:
            """A text of 200 kB."""
            return letter * 200_000 + " the-last-word"
        ''',
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The screen waits until the test resumes the core, also on a busy machine."""
    monkeypatch.setattr(core_answers, "ANSWER_TIMEOUT_S", 600.0)


ASKED_FOR = "Requesting all bytes of large messages from the core."
ON_ITS_WAY = "bytes of this frame are being loaded from its core"


class Core:
    """A core in another process, and a screen attached to it."""

    def __init__(self, service: Service, link: RemoteLink, it: Bench) -> None:
        self.link, self.it = link, it
        self._process = psutil.Process(service.process.pid)

    def stop(self) -> None:
        self._process.suspend()

    def resume(self) -> None:
        self._process.resume()

    @property
    def is_stopped(self) -> bool:
        return bool(self._process.status() == psutil.STATUS_STOPPED)

    async def press(self, *keys: str) -> None:
        """Press keys while the core is stopped."""
        for key in keys:
            await self.it.pilot.press(key)
            await self.it.pilot.pause()
            assert self.is_stopped, key

    async def sees(self, words: str) -> None:
        await self.it.until(lambda: words in self.it.shown())

    def problems(self) -> str:
        """The problems of the messages that are shown in full."""
        shown = self.traffic_pane.detail.query(".problem").results(Static)
        return " ".join(str(each.content) for each in shown)

    @property
    def traffic_pane(self) -> TrafficPane:
        return self.it.app.screen.query_one(TrafficPane)


@asynccontextmanager
async def attached(folder: Path, *letters: str) -> AsyncIterator[Core]:
    """A core whose tool was called with some letters before a screen was attached, whose size is large."""
    with started_services() as start:
        service = start(str(write(folder, FILES)), "--port", "0")
        await asyncio.to_thread(service.says, "serving far")
        await until(running_cores)
        link = await asyncio.to_thread(lambda: RemoteLink(running_cores()[0]))
        try:
            for letter in letters:
                arguments = {"letter": letter, "words": "w" * 100_000}
                asked = link.request("far", "tools/call", {"name": "large", "arguments": arguments})
                await asyncio.wrap_future(asked.outcome)
            await until(lambda: _answered(link) == len(letters))
            async with bench(link, size=(120, 40)) as it:  # type: ignore[arg-type]
                core = Core(service, link, it)
                try:
                    yield core
                finally:
                    core.resume()
        finally:
            await asyncio.to_thread(link.close)


def _answered(link: RemoteLink) -> int:
    link.traffic.catch_up()
    return sum(
        one.method == "tools/call" and one.response is not None for one in list(link.traffic.exchanges)
    )


@pytest.mark.slow
async def test_configurations_are_asked_for_while_keys_go_on(tmp_path: Path) -> None:
    async with attached(tmp_path / "far") as core:
        core.stop()
        await core.press("2")
        await core.sees("loading from the core")
        await core.press("3", "4")
        await core.sees("loading from the core")
        await core.press("5", "6", "1", "4", "space", *"client", "space", *"conf", "enter")
        await core.sees("Connect a client to far")
        await core.press("1")
        await core.it.until(lambda: "Requesting configuration from the core." in toasts(core.it.app))
        await core.press("1", "y", "c")
        await core.it.until(lambda: "Requesting curl command from the core." in toasts(core.it.app))
        assert not core.it.app.clipboard
        core.resume()
        await core.it.until(lambda: "curl" in core.it.app.clipboard or "claude" in core.it.app.clipboard)
        await core.it.pilot.press("4")
        await core.sees("claude mcp add")
        await core.it.pilot.press("2")
        await core.sees("claude mcp add")


@pytest.mark.slow
async def test_large_messages_are_asked_for_while_keys_go_on(tmp_path: Path) -> None:
    async with attached(tmp_path / "far", "a", "b") as core:
        index = core.link.traffic
        first, second = (one.number for one in index.exchanges if one.method == "tools/call")
        core.stop()
        await core.press("2")
        pane = core.traffic_pane
        pane.open_exchange(first)
        await core.it.until(lambda: ON_ITS_WAY in core.problems())
        # Copy, compare and send again wait for the bytes, each in its own worker.
        await core.press("y", "t")
        pane.listing.marks.update((first, second))
        pane.action_compare()
        await core.press("1", "3", "4", "5", "6", "2")
        pane = core.traffic_pane
        pane.set_filter("the-last-word")
        await core.press("down", "up")
        assert not list(pane.listing.view.lines), "the word is in bytes that have not arrived"
        core.resume()
        await core.it.until(lambda: isinstance(core.it.app.screen, CompareScreen))
        await core.it.pilot.press("escape")
        await core.it.until(lambda: list(core.traffic_pane.listing.view.lines) == [first, second])
        core.traffic_pane.open_exchange(first)
        await core.it.until(lambda: "the-last-word" in core.it.app.clipboard)
        await core.it.until(lambda: ON_ITS_WAY not in core.problems())


@pytest.mark.slow
async def test_details_fill_in_when_the_core_answers(tmp_path: Path) -> None:
    async with attached(tmp_path / "far", "a") as core:
        (number,) = (one.number for one in core.link.traffic.exchanges if one.method == "tools/call")
        core.stop()
        await core.press("2")
        core.traffic_pane.open_exchange(number)
        await core.it.until(lambda: ON_ITS_WAY in core.problems())
        core.resume()
        await core.it.until(lambda: ON_ITS_WAY not in core.problems())
        await core.it.until(lambda: '"type": "text"' in core.it.shown() or "isError" in core.it.shown())


@pytest.mark.slow
async def test_pager_resend_and_edit_wait_for_the_core_while_keys_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "the-pager")
    async with attached(tmp_path / "far", "a", "b", "c") as core:
        app, until_shown = core.it.app, core.it.until
        paged, resent, edited = (
            one.number for one in core.link.traffic.exchanges if one.method == "tools/call"
        )

        async def press_while_stopped(number: int, key: str) -> None:
            """Choose an exchange whose bytes are not here, press a key that needs them, and continue."""
            core.stop()
            if app.main.shown != "traffic":
                await core.press("2")
            core.traffic_pane.open_exchange(number)
            asked = toasts(app).count(ASKED_FOR)
            await core.press(key)
            await until_shown(lambda: toasts(app).count(ASKED_FOR) > asked)
            await core.press("p", "p", "1", "2")
            core.traffic_pane.open_exchange(number)

        await press_while_stopped(paged, "o")
        core.resume()
        await until_shown(lambda: "The terminal cannot be handed over to the-pager." in toasts(app))

        await press_while_stopped(resent, "r")
        core.resume()
        await until_shown(lambda: "sent again as desk: tools/call large" in toasts(app))
        await until_shown(lambda: _answered(core.link) == 4)

        await press_while_stopped(edited, "e")
        assert app.main.shown == "traffic"
        core.resume()
        await until_shown(lambda: app.main.shown == "workbench")
        await until_shown(lambda: core.it.pane.draft is not None and core.it.pane.draft.item.name == "large")


@pytest.mark.slow
async def test_recorded_calls_are_made_again_once_the_core_answers(tmp_path: Path) -> None:
    async with attached(tmp_path / "far", "a", "b") as core:
        core.stop()
        await core.press("v", "d")
        await core.it.until(lambda: isinstance(core.it.app.screen, SavePage))
        await core.press("r", "down", "escape")
        await core.it.until(lambda: core.it.app.screen is core.it.app.main)
        await core.press("2", "3", "1")
        assert _answered(core.link) == 2
        core.resume()
        await core.it.until(lambda: _answered(core.link) == 4)
        await core.it.until(lambda: any("recording of far: 2 same" in each for each in toasts(core.it.app)))


async def test_a_wait_on_the_thread_of_an_event_loop_is_a_bug() -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        result_of(promise())
    asked = promise()
    asked.set_result({"1": JobUse(0.0, 0, 1)})
    assert await asyncio.to_thread(result_of, asked) == asked.result()
