"""Background work of servers, seen and controlled through the link, with real programs and files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.link.local import local_work
from mcpdesk.link.local.local_work import MAX_OUTPUT_BYTES
from mcpdesk.link.values import JobKind, JobState, JobView
from tests.support.desk import RunningDesk, running_desk
from tests.support.features import needs_feature
from tests.support.patience import in_time, until

BUILTINS = '["BackgroundBash", "SetCallback", "TaskManager", "PlanMode"]'
LASTING = '''
import asyncio

from mcpdesk import tool


@tool(task="required")
async def wait() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()
'''


@pytest.fixture(autouse=True)
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_work, "STATE_CHECK_S", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own" / "tools").mkdir(parents=True)
    (tmp_path / "own/mcp.json").write_text(f'{{"name": "own", "builtins": {BUILTINS}}}', encoding="utf-8")
    return tmp_path / "own"


async def call(desk: RunningDesk, name: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a tool that works."""
    result = await desk.call("own", name, **arguments)
    assert not result.get("isError"), result
    return dict(result["structuredContent"])


def only(desk: RunningDesk) -> JobView:
    (job,) = desk.jobs()
    return job


async def test_a_program_is_seen_measured_read_and_killed(folder: Path) -> None:
    async with running_desk(folder) as desk:
        assert desk.jobs() == () and desk.view().work.running_jobs == 0
        await call(desk, "BackgroundBash", command="echo one; sleep 0.01; echo two; exec sleep 600")
        job = only(desk)
        assert (job.kind, job.server, job.peer, job.state) == (
            JobKind.PROGRAM,
            "own",
            "desk",
            JobState.RUNNING,
        )
        assert job.name.startswith("echo one") and job.pid and not job.state.is_final
        assert desk.view().work.running_jobs == 1 and desk.busy() == ("1 running job",)
        await until(lambda: only(desk).size == 8)
        first = desk.output(job.id, -1)
        assert first is not None and (first.text, first.start, first.end) == ("one\ntwo\n", 0, 8)
        assert not first.is_last
        rest = desk.output(job.id, 4)
        assert rest is not None and rest.text == "two\n"
        assert desk.usage()[job.id].cpu is None

        def is_measured() -> bool:
            # A program that is just becoming another one has no memory for a moment.
            used = desk.usage()[job.id]
            return used.cpu is not None and used.memory > 0 and used.processes == 1

        await until(is_measured)
        version = desk.view().work.jobs_version
        desk.kill_job(job.id)
        await until(lambda: only(desk).state is JobState.KILLED)
        assert desk.view().work.jobs_version > version and desk.view().work.running_jobs == 0
        assert desk.busy() == () and only(desk).runtime_s(time.time() + 99) < 60
        last = desk.output(job.id, 8)
        assert last is not None and last.is_last and desk.usage() == {}


async def test_who_is_far_behind_gets_the_end(folder: Path) -> None:
    async with running_desk(folder) as desk:
        await call(desk, "BackgroundBash", command="seq 100000")
        await until(lambda: only(desk).state is JobState.SUCCEEDED)
        assert only(desk).message == "exit code 0"
        piece = desk.output(only(desk).id, 10)
        assert piece is not None and piece.start == only(desk).size - MAX_OUTPUT_BYTES
        assert piece.text.endswith("99999\n100000\n") and piece.end == only(desk).size
        rest = desk.output(only(desk).id, piece.end)
        assert rest is not None and rest.text == "" and rest.is_last


async def test_what_there_is_not_has_no_output_and_cannot_be_killed(folder: Path) -> None:
    async with running_desk(folder) as desk:
        for job in ("own:1", "own:x", "nobody:1", "", "x"):
            assert desk.output(job, -1) is None
            desk.kill_job(job)
        await call(desk, "BackgroundBash", command="true")
        assert desk.output("own:2", 0) is None


async def test_a_call_that_is_a_task_is_a_job_as_well(folder: Path) -> None:
    (folder / "tools/wait.py").write_text(LASTING, encoding="utf-8")
    async with running_desk(folder) as desk:
        made = desk.request("own", "tools/call", {"name": "wait"})
        await until(desk.jobs)
        job = only(desk)
        assert (job.kind, job.name, job.number, job.state) == (JobKind.TASK, "wait", 0, JobState.RUNNING)
        assert desk.busy() == ("1 running call", "1 running job") and desk.output(job.id, -1) is None
        desk.kill_job(job.id)
        outcome = await in_time(asyncio.wrap_future(made.outcome))
        assert outcome.error is not None and "cancelled at the desk" in outcome.error["message"]
        assert only(desk).state is JobState.CANCELLED and desk.busy() == ()


async def test_callbacks_are_seen_fired_and_cancelled(folder: Path) -> None:
    async with running_desk(folder) as desk:
        assert desk.callbacks() == () and desk.view().work.next_callback is None
        await call(desk, "SetCallback", action="set", message="stretch", delay_seconds=600, repeat_count=3)
        (callback,) = desk.callbacks()
        assert (callback.server, callback.message, callback.fired) == ("own", "stretch", 0)
        assert desk.view().work.next_callback == callback.due
        version = desk.view().work.callbacks_version
        desk.fire_callback("own", callback.id)
        await until(lambda: desk.callbacks()[0].fired == 1)
        assert desk.view().work.callbacks_version > version
        notice = desk.notices()[-1]
        assert notice.screen == "activity/callbacks" and "stretch" in notice.text
        desk.cancel_callback("own", callback.id)
        await until(lambda: desk.callbacks()[0].due is None)
        assert desk.callbacks()[0].is_cancelled and desk.view().work.next_callback is None
        desk.fire_callback("own", 99)


async def test_lists_are_read_when_somebody_looks_and_again_after_a_restart(folder: Path) -> None:
    async with running_desk(folder) as desk:
        desk.view()
        assert desk.todo() == ()
        await call(desk, "TaskManager", action="create", query="Release")
        await call(desk, "TaskManager", action="add", query="", text="tag")
        await until(lambda: desk.view() and desk.todo())
        await until(lambda: desk.view() and [len(task.steps) for task in desk.todo()] == [1])
        version = desk.view().work.todo_version
        await call(desk, "TaskManager", action="complete", query="", step_id=1)
        await until(lambda: desk.view().work.todo_version > version)
        (task,) = desk.todo()
        assert (task.server, task.name, task.done, task.is_current) == ("own", "Release", 1, True)
    async with running_desk(folder) as desk:
        await until(lambda: desk.view() and desk.todo() == (task,))


async def test_plans_are_seen_with_their_text(folder: Path) -> None:
    async with running_desk(folder) as desk:
        assert desk.view().work.plans == () and desk.plan_text("own", "") is None
        plan = await call(desk, "PlanMode", action="enter", goal="Tidy up")
        (seen,) = desk.view().work.plans
        assert (seen.server, seen.goal, seen.is_active) == ("own", "Tidy up", True)
        session = seen.session
        assert desk.view().work.is_planning and desk.plan_text("own", session) == "# Plan: Tidy up\n\n"
        Path(plan["plan_file"]).unlink()
        assert desk.plan_text("own", session) is None and desk.plan_text("nobody", session) is None
        os.mkfifo(plan["plan_file"])
        assert desk.plan_text("own", session) is None, "the reader must not wait for a writer"
        await call(desk, "PlanMode", action="exit")
        assert not desk.view().work.is_planning
        await call(desk, "PlanMode", action="enter", goal="Tidy up again")
        desk.end_plan("own", session)
        await until(lambda: not desk.view().work.is_planning)


async def test_a_server_that_keeps_nothing_gets_no_state_file(folder: Path) -> None:
    async with running_desk(folder) as desk:
        for _ in range(3):
            desk.view()
        home = desk.host.folders["own"].server.hosted
        assert home is not None
        assert not home.has_state and not home.has_created("todo") and not home.has_created("data")


STEPPING = '''
import asyncio
from pathlib import Path

from mcpdesk import Context


async def step(ctx: Context) -> str:
    """Go on when it may."""
    await ctx.progress(3, 10, "reading")
    while not Path(__file__).with_name("go").exists():
        await asyncio.sleep(0.01)
    return "it is done"
'''


@needs_feature("gateway")
async def test_a_call_asked_for_as_a_job_is_followed_read_and_cancelled(folder: Path) -> None:
    (folder / "tools/step.py").write_text(STEPPING, encoding="utf-8")
    async with running_desk(folder, http=True) as desk, aiohttp.ClientSession() as client:
        gateway = desk.view().servers[0].url.partition("/mcp")[0] + "/v1/mcp"
        asked = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "step", "mode": "async"},
        }
        key = {desk.view().api_key_header: desk.view().api_key}
        for _ in range(2):
            async with client.post(gateway, json=asked, headers=key) as answer:
                assert (await answer.json())["result"]["status"] == "accepted"
        await until(lambda: all(job.message == "30 % reading" for job in desk.jobs()))
        first, second = desk.jobs()
        assert (first.kind, first.name, first.state) == (JobKind.CALL, "step", JobState.RUNNING)
        nothing = desk.output(first.id, -1)
        assert nothing is not None and (nothing.text, nothing.is_last) == ("", False)
        desk.kill_job(second.id)
        await until(lambda: desk.jobs()[1].state is JobState.CANCELLED)
        (folder / "tools/go").touch()
        await until(lambda: desk.jobs()[0].state is JobState.SUCCEEDED)
        whole = desk.output(first.id, 3)
        assert whole is not None and (whole.text, whole.start, whole.is_last) == ("is done", 3, True)
