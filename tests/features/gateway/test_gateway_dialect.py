"""The gateway's side of a server, without HTTP: one peer, its calls, and readers of its jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import HandlerError, Refusal
from mcpdesk.features.gateway.gateway_dialect import GatewayDialect
from mcpdesk.jobs import downloads
from mcpdesk.jobs.job import Job
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.background.job_reader import JobReader, details
from mcpdesk.server.background.job_work import DROPPED, job_owner, job_roots
from mcpdesk.server.offer.server import Limits
from mcpdesk.server.offer.tool import Tool, ToolResult
from tests.support.patience import WITHIN_S, in_time
from tests.support.served import Peer, make_server


class Caller:
    """Speaks the dialect over a channel in memory."""

    def __init__(self, principal: Principal = OPEN) -> None:
        self.peer = Peer()
        self.endpoint = self.peer.endpoint.in_dialect(GatewayDialect)
        self.store = self.peer.services.jobs
        self.channel = self.endpoint.channel("websocket", "tester", self.peer._take, {}, principal)

    async def ask(self, method: str, params: Any = None, number: int = 1) -> Any:
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.channel.receive(orjson.dumps(message if params is None else message | {"params": params}))
        return await self.peer.response(number)

    async def begin(self, name: str, **arguments: Any) -> Job:
        answer = await self.ask("tools/call", {"name": name, "arguments": arguments, "mode": "async"}, 77)
        self.peer.received.clear()
        return self.store._jobs[answer["result"]["job_id"]]


async def ended(job: Job) -> Job:
    with JobReader(job) as reader:
        assert await reader.wait_for_end(WITHIN_S)
    return job


async def test_each_change_of_a_list_is_told_once() -> None:
    caller = Caller()
    await caller.ask("initialize", {})
    caller.channel.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    caller.peer.server.tools.replace(list(caller.peer.server.tools)[:2])
    await caller.ask("ping", number=2)
    told = [each for each in caller.peer.received if "list_changed" in str(each.get("method"))]
    assert len(told) == 1


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_progress_of_one_call_and_of_one_job(mode: str) -> None:
    caller = Caller()
    params = {"name": "steps", "_meta": {"progressToken": "p"}, "mode": mode}
    answer = await caller.ask("tools/call", params)
    if mode == "sync":
        assert answer["result"]["stdout"] == "done"
    else:
        await caller.peer.message(lambda each: each.get("params", {}).get("status") == "succeeded")
    told = [each for each in caller.peer.received if each.get("method") == "notifications/progress"]
    assert told and all(each["params"]["progressToken"] == "p" for each in told)


async def test_a_program_that_failed_with_exit_code_0_is_an_error_with_its_code() -> None:
    async def odd(arguments: Any, context: Any) -> Any:
        return ToolResult(({"type": "text", "text": "late"},), {"exit_code": 0, "stdout": "x"}, is_error=True)

    caller = Caller()
    caller.peer.server.tools.replace([Tool("odd", odd, {"type": "object"})])
    error = (await caller.ask("tools/call", {"name": "odd"}))["error"]
    assert error["code"] == -32000
    assert error["data"] == {"exit_code": 0, "stage": "odd", "command": "", "stdout": "x"}


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_python_tool_that_fails_is_an_error_without_an_exit_code(mode: str) -> None:
    async def crash(arguments: Any, context: Any) -> Any:
        if arguments.get("politely"):
            raise HandlerError("no such order\nlook again", {"order": 7})
        raise RuntimeError("kaputt")

    async def picture(arguments: Any, context: Any) -> Any:
        return ToolResult(({"type": "image", "data": "eA==", "mimeType": "image/png"},), is_error=True)

    caller = Caller()
    caller.peer.server.tools.replace(
        [Tool("shop-crash", crash, {"type": "object"}), Tool("picture", picture, {"type": "object"})]
    )
    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    named = {"exit_code": None, "stage": "shop", "command": "crash"}
    told = "shop-crash failed: RuntimeError: kaputt"
    order = {"stderr": "no such order\nlook again", "structuredContent": {"order": 7}}
    expected: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
        ("shop-crash", {}, told, named | {"stderr": told}),
        ("shop-crash", {"politely": True}, "no such order", named | order),
        (
            "picture",
            {},
            "picture failed",
            {"exit_code": None, "stage": "picture", "command": "", "content": [image]},
        ),
    ]
    for number, (name, arguments, message, data) in enumerate(expected, 1):
        if mode == "sync":
            error = (await caller.ask("tools/call", {"name": name, "arguments": arguments}, number))["error"]
        else:
            job = await ended(await caller.begin(name, **arguments))
            found = details(job, 1000)
            assert (found["status"], found["exit_code"]) == ("failed", None)
            assert (found["stderr"], found["message"]) == (data.get("stderr", ""), message)
            error = found["error"]
        assert error == {"code": -32000, "message": message, "data": data}


async def test_a_tool_that_must_be_a_task_runs_as_a_job() -> None:
    async def slow(arguments: Any, context: Any) -> Any:
        return "done" if not await context.become_task() else "task"

    caller = Caller()
    caller.peer.server.tools.replace([Tool("slow", slow, {"type": "object"}, task="required")])
    job = await ended(await caller.begin("slow"))
    assert details(job, 1000)["stdout"] == "done"


async def test_a_tool_that_asks_the_client_is_told_that_nobody_is_there() -> None:
    async def asks(arguments: Any, context: Any) -> Any:
        return (await context.elicit("Name?", {"type": "object", "properties": {}})).action

    caller = Caller()
    await caller.ask("initialize", {"capabilities": {"elicitation": {}}})
    caller.peer.server.tools.replace([Tool("asks", asks, {"type": "object"})])
    job = await ended(await caller.begin("asks"))
    assert job.status is TaskStatus.FAILED and "cannot be asked" in details(job, 1000)["stderr"]


async def test_a_job_that_only_reports_lets_others_have_their_turn() -> None:
    async def reports(arguments: Any, context: Any) -> Any:
        step = 0
        while not context.cancelled:
            step += 1
            await context.progress(step)

    caller = Caller()
    caller.peer.server.tools.replace(
        [*caller.peer.server.tools, Tool("reports", reports, {"type": "object"})]
    )
    job = await caller.begin("reports")
    assert (await caller.ask("tools/call", {"name": "echo", "arguments": {"text": "a"}}))["result"][
        "stdout"
    ] == "a"
    assert caller.store.cancel(job, "enough")
    await ended(job)


async def test_a_job_belongs_to_the_trace_of_its_caller() -> None:
    async def traced(arguments: Any, context: Any) -> Any:
        return context.trace.id

    caller, trace = Caller(), "0af7651916cd43dd8448eb211c80319c"
    caller.peer.server.tools.replace([Tool("traced", traced, {"type": "object"})])
    meta = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    answer = await caller.ask("tools/call", {"name": "traced", "mode": "async", "_meta": meta})
    job = await ended(caller.store._jobs[answer["result"]["job_id"]])
    assert details(job, 1000)["stdout"] == trace


async def test_a_job_ends_whatever_goes_wrong_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def makes(arguments: Any, context: Any) -> Any:
        context.produced(tmp_path / "a")

    def broken(*_: Any) -> Any:
        raise RuntimeError("no disk")

    monkeypatch.setattr(downloads, "record_files", broken)
    caller = Caller()
    caller.peer.server.tools.replace([Tool("makes", makes, {"type": "object"})])
    job = await ended(await caller.begin("makes"))
    assert job.status is TaskStatus.FAILED and job.exit_code is None and "no disk" in job.message


async def test_a_job_whose_tool_returns_no_content_block_says_so() -> None:
    async def odd(arguments: Any, context: Any) -> Any:
        return ToolResult(({"type": "text"},), {"a": 1})

    caller = Caller()
    caller.peer.server.tools.replace([Tool("odd", odd, {"type": "object"})])
    job = await ended(await caller.begin("odd"))
    assert job.status is TaskStatus.FAILED and "content[0] is not a content block" in job.message


async def test_a_job_ends_when_nothing_of_it_can_be_kept() -> None:
    async def loud(arguments: Any, context: Any) -> Any:
        context.feed.stdout("x" * 600)
        return "done"

    caller = Caller()
    caller.store._max_kept_bytes = 1000
    caller.peer.server.tools.replace(
        [*caller.peer.server.tools, Tool("loud", loud, {"type": "object"})],
    )
    await caller.begin("forever", filling="x" * 900)
    job = await ended(await caller.begin("loud"))
    assert job.status is TaskStatus.COMPLETED and job.message == DROPPED and not job.ending.result
    await caller.store.stop()


async def test_what_a_cancelled_job_still_does_is_no_part_of_it() -> None:
    went_on = asyncio.Event()

    async def stubborn(arguments: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            went_on.set()
        if arguments["how"] == "raises":
            raise ValueError("too late")
        if arguments["how"] == "refuses":
            raise Refusal(-32000, "too late")
        return "too late"

    caller = Caller()
    caller.peer.server.tools.replace([Tool("stubborn", stubborn, {"type": "object"})])
    for how in ("returns", "raises", "refuses"):
        job = await caller.begin("stubborn", how=how)
        with JobReader(job) as reader:
            while job.started is None:
                await reader.wait_for_change(WITHIN_S)
        went_on.clear()
        assert caller.store.cancel(job, "enough")
        await in_time(went_on.wait())
        await asyncio.gather(*caller.store._works)
        assert job.status is TaskStatus.CANCELLED
        assert (job.exit_code, job.message, details(job, 1000)["stdout"]) == (None, "enough", "")


async def test_a_job_belongs_to_its_principal() -> None:
    ada = Principal("token", "ada", identity="id-of-ada")
    caller = Caller(ada)
    job = await caller.begin("forever")
    assert caller.store.find(job.id, job_owner(ada)) is job
    assert caller.store.find(job.id, job_owner(OPEN)) is None
    # What the protocol calls tasks has other owners, so that neither finds the other's.
    assert caller.store.get(job.id, "sample", "id-of-ada") is None and caller.store.owned("sample", "") == []
    await caller.store.stop()
    assert job.status is TaskStatus.CANCELLED


async def test_a_core_that_stops_waits_until_its_jobs_have_let_go() -> None:
    caller = Caller()
    let_go = []

    async def slow_to_end(arguments: Any, context: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            let_go.append(True)

    caller.peer.server.tools.replace([Tool("slow", slow_to_end, {"type": "object"})])
    job = await caller.begin("slow")
    with JobReader(job) as reader:
        while job.started is None:
            await reader.wait_for_change(WITHIN_S)
    await caller.store.stop()
    assert let_go == [True]


async def test_a_reader_is_told_kinds_one_by_one_and_the_end_last() -> None:
    caller = Caller()
    job = await caller.begin("forever")
    assert job.feed is not None
    with JobReader(job) as reader:
        assert [each["status"] for each in reader.changes()] == ["queued"] or job.started is not None
        job.feed.stdout("a")
        job.feed.progress(1, 2, "half")
        job.feed.stderr("b")
        assert await reader.wait_for_change(WITHIN_S)
        news = reader.changes()
        assert {"job_id": job.id, "progress": 0.5, "message": "half"} in news
        assert news[-2:] == [{"job_id": job.id, "stdout": "a"}, {"job_id": job.id, "stderr": "b"}]
        assert reader.changes() == [] and not reader.is_complete
        caller.store.cancel(job, "enough")
        assert reader.changes() == [
            {"job_id": job.id, "status": "canceled", "exit_code": None, "progress": 0.5, "message": "enough"}
        ]
        assert reader.is_complete
    assert reader._on_state_change not in (job.listeners or {}).values()


async def test_what_a_reader_missed_is_counted_in_its_text() -> None:
    caller = Caller()
    job = await caller.begin("forever")
    assert job.feed is not None
    with JobReader(job, ["stdout"]) as reader:
        job.feed.stdout("x" * 1_000_000)
        (text,) = [each["stdout"] for each in reader.changes() if "stdout" in each]
        note, _, rest = text.partition("\n")
        assert note == f"[... {1_000_000 - len(rest):,} characters left out ...]"
        assert set(rest) == {"x"}
    await caller.store.stop()


def test_files_may_lie_in_the_folder_and_in_output_dirs(tmp_path: Path) -> None:
    plain = make_server()
    plain.limits = Limits(output_dirs=(tmp_path,))
    assert job_roots(plain) == (tmp_path,)
    plain.folder = tmp_path / "server"
    assert job_roots(plain) == (tmp_path / "server", tmp_path)
