from __future__ import annotations

from mcpdesk.link.values import Progress
from mcpdesk.tui.results.result_view import RunningView
from tests.support.fake_link import FakeCall
from tests.support.widgets import staged, until


async def test_progress_and_logs_appear_as_they_come() -> None:
    call = FakeCall("tools/call", {}, 1)
    async with staged(RunningView(call)) as (stage, pilot):
        await until(pilot, lambda: "running …" in stage.shown())
        call.progress = Progress(1, 4, "one [b]of four")
        call.logs.append("\x1b[2Jfirst line")
        await until(pilot, lambda: "25% (1 of 4)" in stage.shown())
        assert "one [b]of four" in stage.shown()
        assert "␛[2Jfirst line" in stage.shown()
        call.progress = Progress(7)
        await until(pilot, lambda: "25%" not in stage.shown() and "7" in stage.shown())
