"""Code that cannot be interrupted: its call or job is shown as `stopped waiting` until it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from mcpdesk.link.link import LinkCall
from mcpdesk.link.values import JobState, JobView
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.server.calls.threads.running_code import CODE_ENDED, CODE_STILL_RUNS, RunningCode
from mcpdesk.tui.results.result_view import verdict
from mcpdesk.tui.workbench.drafts import Drafts
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import until
from tests.support.wire import Wire

TOOLS = '''
import asyncio
import os
import time
from pathlib import Path

from mcpdesk import resource, tool


@tool(task="optional")
def hold(until: str) -> str:
    """Block a thread."""
    Path(until).with_suffix(".begun").touch()
    while not os.path.exists(until):
        time.sleep(0.01)
    return "held"


async def wait(until: str) -> str:
    """Wait, and heed a cancellation."""
    Path(until).with_suffix(".begun").touch()
    await asyncio.sleep(600)
    return "waited"


async def block(until: str) -> str:
    """Block the loop."""
    Path(until).with_suffix(".begun").touch()
    while not os.path.exists(until):
        time.sleep(0.01)
    return "blocked"
'''


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[RunningDesk]:
    folder = write(tmp_path / "left", {"mcp.json": '{"name": "left"}', "tools/hold.py": TOOLS})
    async with running_desk(folder, http=True, no_auth=True) as made:
        yield made
        (tmp_path / "go").touch()


async def begun(desk: RunningDesk, tmp_path: Path, tool: str) -> LinkCall:
    call = desk.request("left", "tools/call", {"name": tool, "arguments": {"until": str(tmp_path / "go")}})
    await until((tmp_path / "go.begun").exists)
    return call


def exchange_of(desk: RunningDesk, call: LinkCall) -> Exchange:
    desk.traffic.catch_up(1.0)
    return next(
        each
        for each in desk.traffic.exchanges
        if (each.connection, each.id) == (call.connection, call.request_id)
    )


def logged(desk: RunningDesk) -> list[str]:
    return [line.text for line in desk.host.journal.lines() if line.text in (CODE_STILL_RUNS, CODE_ENDED)]


@pytest.mark.slow
async def test_a_cancelled_thread_is_left_until_its_function_has_ended(
    desk: RunningDesk, tmp_path: Path
) -> None:
    call = await begun(desk, tmp_path, "hold")
    call.cancel()
    await until(lambda: logged(desk) == [CODE_STILL_RUNS])
    assert exchange_of(desk, call).status is Status.LEFT
    (tmp_path / "go").touch()
    await until(lambda: logged(desk) == [CODE_STILL_RUNS, CODE_ENDED])
    assert exchange_of(desk, call).status is Status.CANCELLED
    remarks = desk.traffic.recorded_remarks(exchange_of(desk, call))
    assert [each.remark.text for each in remarks] == [CODE_STILL_RUNS, CODE_ENDED]


@pytest.mark.slow
async def test_a_handler_that_heeds_its_cancellation_is_cancelled(desk: RunningDesk, tmp_path: Path) -> None:
    call = await begun(desk, tmp_path, "wait")
    call.cancel()
    await until(lambda: exchange_of(desk, call).status is Status.CANCELLED)
    assert logged(desk) == []


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["hold", "block"])
async def test_a_result_says_stopped_waiting_until_the_code_has_ended(
    desk: RunningDesk, tmp_path: Path, tool: str
) -> None:
    items = {each.name: each for each in desk.catalogue("left").items}
    drafts = Drafts(desk)
    draft = drafts.of("left", items[tool])
    draft.start({"until": str(tmp_path / "go")})
    await until((tmp_path / "go.begun").exists)
    assert draft.call is not None
    draft.call.cancel()
    await until(lambda: drafts.finish_calls() == [draft])

    def told() -> str:
        desk.traffic.catch_up(1.0)
        draft.update_duration()
        assert draft.outcome is not None
        return verdict(draft.outcome, is_still_running=draft.may_still_run)[0]

    if tool == "hold":
        await until(lambda: logged(desk) == [CODE_STILL_RUNS])
    assert told().startswith("⊘ stopped waiting")
    (tmp_path / "go").touch()
    await until(lambda: told().startswith("⊘ cancelled"))


@pytest.mark.slow
async def test_a_cancelled_job_is_left_until_its_function_has_ended(
    desk: RunningDesk, tmp_path: Path
) -> None:
    async with aiohttp.ClientSession() as client:
        wire = Wire(client, desk.view().servers[0].url)
        name = await wire.job("hold", until=str(tmp_path / "go"))
        await until((tmp_path / "go.begun").exists)

        def job() -> JobView:
            return next(each for each in desk.jobs() if each.id == name)

        async with client.delete(f"{wire.base}/jobs/{name}") as answer:
            facts = await answer.json()
        assert facts["status"] == "canceled"
        assert facts["message"] == f"canceled by the client; {CODE_STILL_RUNS}"
        assert (job().state, job().message) == (JobState.LEFT, facts["message"])
        (tmp_path / "go").touch()
        await until(lambda: job().state is JobState.CANCELLED)
        async with client.get(f"{wire.base}/jobs/{name}") as answer:
            assert (await answer.json())["message"] == "canceled by the client"


def place_of(number: int) -> tuple[int, int]:
    """Return a new object that is equal to the others for `number`, but not identical."""
    return number, number


def test_code_of_a_call_is_counted_and_its_end_is_reported_once() -> None:
    left, ends = RunningCode(), list[int]()
    place, other = place_of(1), place_of(1)
    assert place == other and place is not other
    left.add(place)
    left.add(place)
    assert left.has(place) and not left.has(other) and not left.has(None)
    left.when_ended(place, lambda: ends.append(1))
    left.remove(place)
    assert ends == [] and left.has(place)
    left.remove(place)
    assert ends == [1] and not left.has(place)
    left.when_ended(place, lambda: ends.append(2))
    assert ends == [1, 2]
