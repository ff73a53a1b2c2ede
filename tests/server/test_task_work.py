"""Tasks of the core design: requested by clients, notified beside requests, read through `tasks/result`."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.auth.principal import Principal
from mcpdesk.server.background import task_work
from tests.support.official_schema import problems
from tests.support.patience import in_time
from tests.support.task_server import TaskPeer, TaskServer

RELATED = "io.modelcontextprotocol/related-task"


async def opened(tasks: TaskServer | None = None) -> TaskPeer:
    peer = TaskPeer(tasks)
    await peer.shake()
    return peer


@pytest.mark.requirement("8.1")
async def test_the_capability_and_what_each_tool_supports_are_told() -> None:
    peer = TaskPeer()
    told = (await peer.shake())["capabilities"]["tasks"]
    assert told == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    listed = (await peer.core("tools/list", {}))["result"]["tools"]
    support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in listed}
    assert (support["wait"], support["must"], support["plain"]) == ("optional", "required", None)


@pytest.mark.requirement("8.1")
async def test_a_task_is_had_only_where_the_tool_allows_it_and_is_due_where_it_says_so() -> None:
    peer = await opened()
    never = await peer.core("tools/call", {"name": "plain", "task": {}})
    assert never["error"]["code"] == -32601 and "cannot be called as a task" in never["error"]["message"]
    always = await peer.core("tools/call", {"name": "must"})
    assert always["error"]["code"] == -32601 and "only be called as a task" in always["error"]["message"]
    unknown = await peer.core("tools/call", {"name": "unheard-of", "task": {}})
    assert unknown["error"]["code"] == -32602
    odd = await peer.core("tools/call", {"name": "must", "task": {"ttl": "long"}})
    assert odd["error"]["code"] == -32602
    peer.tasks.go.set()
    plain = await peer.core("tools/call", {"name": "wait"})
    assert plain["result"]["structuredContent"] == {"waited": ""}
    assert len(peer.services.jobs) == 0
    task = (await peer.start_core("must"))["taskId"]
    result = (await peer.core("tasks/result", {"taskId": task}))["result"]
    assert result["content"][0]["text"] == "plain, True"
    peer.services.jobs.close()


async def test_older_revisions_know_no_tasks_and_wait_for_the_answer() -> None:
    peer = TaskPeer()
    assert "tasks" not in (await peer.shake(revision="2025-06-18"))["capabilities"]
    answer = await peer.core("tools/call", {"name": "must", "task": {}})
    assert answer["result"]["content"][0]["text"] == "plain, False"
    assert (await peer.core("tasks/list", {}))["error"]["code"] == -32601


@pytest.mark.requirement("8.2")
async def test_the_result_is_waited_for_and_is_exactly_what_the_call_would_have_said() -> None:
    peer = await opened()
    created = await peer.start_core("wait", ttl=5000, label="x")
    assert (created["status"], created["ttl"]) == ("working", 5000)
    task = created["taskId"]
    waiting = peer.begin("tasks/result", {"taskId": task})
    assert (await peer.core("tasks/get", {"taskId": task}))["result"]["status"] == "working"
    assert not any(message.get("id") == waiting for message in peer.received)
    peer.tasks.go.set()
    result = (await peer.response(waiting))["result"]
    assert result.pop("_meta") == {RELATED: {"taskId": task}}
    peer.tasks.go.set()
    plain = (await peer.core("tools/call", {"name": "wait", "arguments": {"label": "x"}}))["result"]
    assert result == plain
    again = (await peer.core("tasks/result", {"taskId": task}))["result"]
    assert again["structuredContent"] == {"waited": "x"}
    peer.services.jobs.close()


@pytest.mark.requirement("8.2")
async def test_failing_tools_fail_their_task_and_errors_come_back_as_they_are() -> None:
    peer = await opened()
    task = (await peer.start_core("boom"))["taskId"]
    result = (await peer.core("tasks/result", {"taskId": task}))["result"]
    assert result["isError"] and result["structuredContent"] == {"order": 7}
    seen = (await peer.core("tasks/get", {"taskId": task}))["result"]
    assert (seen["status"], seen["statusMessage"]) == ("failed", "no such order")
    task = (await peer.start_core("refused"))["taskId"]
    error = (await peer.core("tasks/result", {"taskId": task}))["error"]
    assert error == {"code": 7, "message": "not today", "data": {"why": "closed"}}
    assert (await peer.core("tasks/get", {"taskId": task}))["result"]["status"] == "failed"
    peer.services.jobs.close()


@pytest.mark.requirement("8.2", "8.7")
async def test_a_task_begun_in_one_design_is_told_in_the_words_of_the_other() -> None:
    peer = await opened()
    peer.channel.dialogue.identify(Principal("token", "ada", identity="id-of-ada"))
    begun = (await peer.start_core("boom"))["taskId"]
    assert (await peer.core("tasks/result", {"taskId": begun}))["result"]["isError"]
    seen = await peer.get(begun)
    assert (seen["status"], seen["result"]["isError"]) == ("completed", True)
    assert RELATED not in str(seen)
    begun = (await peer.start("boom"))["taskId"]
    result = (await peer.core("tasks/result", {"taskId": begun}))["result"]
    assert (result["isError"], result["_meta"]) == (True, {RELATED: {"taskId": begun}})
    peer.services.jobs.close()


@pytest.mark.requirement("8.3")
async def test_a_cancelled_task_stays_so_and_cannot_be_cancelled_again() -> None:
    peer = await opened()
    task = (await peer.start_core("wait"))["taskId"]
    await peer.tasks.running.wait()
    waiting = peer.begin("tasks/result", {"taskId": task})
    cancelled = (await peer.core("tasks/cancel", {"taskId": task}))["result"]
    assert (cancelled["status"], cancelled["taskId"]) == ("cancelled", task)
    assert problems("2025-11-25", "CancelTaskResult", cancelled) == []
    assert "was cancelled" in (await peer.response(waiting))["error"]["message"]
    assert peer.tasks.ended == ["cancelled"]
    again = await peer.core("tasks/cancel", {"taskId": task})
    assert again["error"]["code"] == -32602 and "cancelled already" in again["error"]["message"]
    peer.tasks.go.set()
    assert (await peer.core("tasks/get", {"taskId": task}))["result"]["status"] == "cancelled"
    peer.services.jobs.close()


async def test_a_question_left_unanswered_is_asked_again_with_the_next_request() -> None:
    peer = await opened()
    task = (await peer.start_core("ask"))["taskId"]
    waiting = peer.begin("tasks/result", {"taskId": task})
    first = await peer.message(lambda message: message.get("method") == "elicitation/create")
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
    taken_back = await peer.told("notifications/cancelled", lambda params: params["requestId"] == first["id"])
    assert taken_back["_meta"] == first["params"]["_meta"] == {RELATED: {"taskId": task}}
    waiting = peer.begin("tasks/result", {"taskId": task})
    second = await peer.message(
        lambda message: message.get("method") == "elicitation/create" and message["id"] != first["id"]
    )
    also = peer.begin("tasks/result", {"taskId": task})
    peer.send({"jsonrpc": "2.0", "id": second["id"], "result": {"action": "decline"}})
    for identifier in (waiting, also):
        assert (await peer.response(identifier))["result"]["content"][0]["text"] == "decline"
    asked = [message for message in peer.received if message.get("method") == "elicitation/create"]
    assert len(asked) == 2
    peer.services.jobs.close()


async def test_a_refused_question_is_the_handlers_to_deal_with() -> None:
    peer = await opened()
    task = (await peer.start_core("ask"))["taskId"]
    waiting = peer.begin("tasks/result", {"taskId": task})
    question = await peer.message(lambda message: message.get("method") == "elicitation/create")
    peer.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}})
    result = (await peer.response(waiting))["result"]
    assert result["isError"] and "refused elicitation/create: no" in result["content"][0]["text"]
    peer.services.jobs.close()


async def test_progress_and_logs_of_a_task_say_whose_they_are() -> None:
    peer = await opened()
    task = (await peer.start_core("wait"))["taskId"]
    progress = await peer.told("notifications/progress", lambda _: True)
    assert progress["progressToken"] == "p" and progress["_meta"] == {RELATED: {"taskId": task}}
    logged = await peer.told("notifications/message", lambda _: True)
    assert logged["_meta"] == {RELATED: {"taskId": task}}
    assert (await peer.core("tasks/get", {"taskId": task}))["result"]["statusMessage"] == "half way"
    peer.services.jobs.close()


async def test_tasks_are_listed_in_pages_with_a_lifetime_of_our_choice() -> None:
    peer = TaskPeer(TaskServer(page_size=2, task_ttl_s=10.0))
    await peer.shake()
    made = [(await peer.start_core("wait", ttl))["taskId"] for ttl in (None, 5000, 90_000)]
    first = (await peer.core("tasks/list", {}))["result"]
    second = (await peer.core("tasks/list", {"cursor": first["nextCursor"]}))["result"]
    assert "nextCursor" not in second
    listed = [*first["tasks"], *second["tasks"]]
    assert [task["taskId"] for task in listed] == made
    assert [task["ttl"] for task in listed] == [10_000, 5000, 10_000]
    for wrong in ("made up", 5, "", "YWJj"):
        assert (await peer.core("tasks/list", {"cursor": wrong}))["error"]["code"] == -32602
    peer.services.jobs.close()


async def test_who_waits_for_a_result_sees_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_work, "KEEP_ALIVE_S", 0.001)
    peer = await opened()
    alive = asyncio.Event()
    monkeypatch.setattr(peer.channel, "keep_alive", alive.set)
    task = (await peer.start_core("wait"))["taskId"]
    waiting = peer.begin("tasks/result", {"taskId": task})
    await in_time(alive.wait())
    peer.tasks.go.set()
    assert "result" in await peer.response(waiting)
    peer.services.jobs.close()
