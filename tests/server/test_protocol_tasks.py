"""Tasks of the extension, and what both designs refuse."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.jobs.job import JobStore
from mcpdesk.protocol.task_shapes import EXTENSION
from tests.support.asked_client import ADA, EVERYTHING
from tests.support.patience import in_time
from tests.support.task_server import EXTENDED, TaskPeer, TaskServer

TOM = {"action": "accept", "content": {"name": "Tom"}}
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@pytest.mark.requirement("8.5", "8.6", "8.8")
async def test_a_call_is_a_task_that_can_be_looked_at_at_once() -> None:
    peer = TaskPeer()
    created = await peer.start("wait", label="x")
    assert set(created) == {
        "resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta",
    }  # fmt: skip
    assert (created["status"], created["ttlMs"]) == ("working", 3_600_000)
    seen = await peer.get(created["taskId"])
    assert (seen["resultType"], seen["status"], seen["createdAt"]) == (
        "complete",
        "working",
        created["createdAt"],
    )
    assert "result" not in seen and "inputRequests" not in seen
    peer.tasks.go.set()
    done = await peer.settled(created["taskId"])
    assert done["status"] == "completed" and done["resultType"] == "complete"
    assert done["result"]["structuredContent"] == {"waited": "x"}
    assert "io.modelcontextprotocol/related-task" not in done["result"].get("_meta", {})
    peer.services.jobs.close()


@pytest.mark.requirement("8.7")
async def test_a_failing_tool_completes_and_only_errors_of_the_protocol_fail() -> None:
    peer = TaskPeer()
    failed = await peer.settled((await peer.start("boom"))["taskId"])
    assert failed["status"] == "completed" and failed["result"]["isError"] is True
    assert failed["statusMessage"] == "no such order"
    refused = await peer.settled((await peer.start("refused"))["taskId"])
    assert refused["status"] == "failed" and "result" not in refused
    assert refused["error"] == {"code": 7, "message": "not today", "data": {"why": "closed"}}
    unsendable = await peer.settled((await peer.start("unsendable"))["taskId"])
    assert unsendable["result"]["isError"] and "cannot be sent" in unsendable["result"]["content"][0]["text"]
    late = await peer.settled((await peer.start("brief"))["taskId"])
    assert late["result"]["isError"] and "limit of 0.1 s" in late["result"]["content"][0]["text"]
    peer.services.jobs.close()


async def test_a_refusal_is_an_error_of_a_plain_call_as_well() -> None:
    peer = TaskPeer()
    answer = await peer.ask("tools/call", {"name": "refused"}, declared={})
    assert answer["error"] == {"code": 7, "message": "not today", "data": {"why": "closed"}}


@pytest.mark.requirement("8.5", "8.10")
@pytest.mark.parametrize("declared", [{}, EVERYTHING, {"tasks": {}}, {"extensions": {"com.example/x": {}}}])
async def test_without_the_extension_nothing_is_a_task(declared: dict[str, Any]) -> None:
    peer = TaskPeer()
    peer.tasks.go.set()
    done = await peer.ask("tools/call", {"name": "wait", "arguments": {}, "task": {"ttl": 1}}, declared)
    assert done["result"]["resultType"] == "complete" and done["result"]["structuredContent"] == {
        "waited": ""
    }
    must = await peer.ask("tools/call", {"name": "must"}, declared)
    assert (must["error"]["code"], must["error"]["data"]) == (-32021, NEEDED)
    task = (await peer.start("wait"))["taskId"]
    others: list[tuple[str, dict[str, Any]]]
    others = [("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})]
    for method, more in others:
        refused = await peer.ask(method, {"taskId": task} | more, declared)
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32021, NEEDED)
    peer.services.jobs.close()


@pytest.mark.requirement("8.10")
async def test_methods_of_the_other_design_do_not_exist() -> None:
    peer = TaskPeer()
    task = (await peer.start("wait"))["taskId"]
    for method in ("tasks/result", "tasks/list"):
        assert (await peer.ask(method, {"taskId": task}))["error"]["code"] == -32601
    discovered = (await peer.ask("server/discover", {}))["result"]["capabilities"]
    assert discovered["extensions"] == {EXTENSION: {}} and "tasks" not in discovered
    listed = (await peer.ask("tools/list", {}))["result"]["tools"]
    assert all("execution" not in tool for tool in listed)
    peer.services.jobs.close()


async def test_a_server_without_such_tools_has_no_tasks() -> None:
    peer = TaskPeer()
    peer.server.tools.replace([peer.server.tools.get("plain")])  # type: ignore[list-item]
    assert "extensions" not in (await peer.ask("server/discover", {}))["result"]["capabilities"]
    assert (await peer.ask("tasks/get", {"taskId": "x"}))["error"]["code"] == -32601
    assert "tasks" not in (await peer.shake())["capabilities"]
    params = {"name": "plain", "arguments": {}, "task": {"ttl": 1}}
    assert (await peer.core("tools/call", params))["result"]["content"][0]["text"] == "plain, False"


@pytest.mark.requirement("8.8", "8.9")
async def test_a_question_waits_in_the_task_and_its_answer_goes_on() -> None:
    peer = TaskPeer()
    task = (await peer.start("ask"))["taskId"]
    asked = await peer.settled(task, "input_required")
    (request,) = asked["inputRequests"].values()
    assert list(asked["inputRequests"]) == ["user_name"] and "requestState" not in asked
    assert request["method"] == "elicitation/create" and request["params"]["message"] == "What is your name?"
    assert set((await peer.update(task, stranger=TOM))["result"]) == {"resultType", "_meta"}
    assert (await peer.get(task))["status"] == "input_required"
    wrong = await peer.update(task, user_name={"action": "accept", "content": {"name": 5}})
    assert wrong["error"]["code"] == -32602 and "inputResponses.user_name" in wrong["error"]["message"]
    assert (await peer.update(task, user_name=ADA))["result"]["resultType"] == "complete"
    done = await peer.settled(task)
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"
    assert (await peer.update(task, user_name=TOM))["result"]["resultType"] == "complete"
    peer.services.jobs.close()


@pytest.mark.requirement("8.9")
async def test_answers_may_come_one_by_one_and_keys_are_never_used_twice() -> None:
    peer = TaskPeer()
    task = (await peer.start("two"))["taskId"]
    asked = await peer.settled(task, "input_required")
    assert set(asked["inputRequests"]) == {"name", "cat"}
    await peer.update(task, cat=TOM)
    left = await peer.get(task)
    assert left["status"] == "input_required" and set(left["inputRequests"]) == {"name"}
    await peer.update(task, name=ADA, cat=ADA)
    await peer.message(lambda _: True)
    again = await peer.settled(task, "input_required")
    assert set(again["inputRequests"]) == {"cat-2"}
    await peer.update(task, **{"cat-2": ADA})
    assert (await peer.settled(task))["result"]["content"][0]["text"] == "Ada Tom Ada"
    peer.services.jobs.close()


async def test_what_is_asked_first_is_asked_in_the_call_and_its_answers_flow_into_the_task() -> None:
    peer = TaskPeer()
    asked = await peer.ask("tools/call", {"name": "first"})
    assert asked["result"]["resultType"] == "input_required" and "taskId" not in asked["result"]
    assert len(peer.services.jobs) == 0
    more = {"requestState": asked["result"]["requestState"], "inputResponses": {"user_name": ADA}}
    created = (await peer.ask("tools/call", {"name": "first"} | more))["result"]
    assert created["resultType"] == "task" and created["status"] == "working"
    peer.tasks.go.set()
    assert (await peer.settled(created["taskId"]))["result"]["content"][0]["text"] == "Hello, Ada!"
    peer.services.jobs.close()


@pytest.mark.requirement("8.3", "8.8")
async def test_cancelling_ends_the_handler_and_is_acknowledged_every_time() -> None:
    peer = TaskPeer()
    task = (await peer.start("wait"))["taskId"]
    await peer.tasks.running.wait()
    assert set((await peer.ask("tasks/cancel", {"taskId": task}))["result"]) == {"resultType", "_meta"}
    seen = await peer.get(task)
    assert (seen["status"], seen["statusMessage"]) == ("cancelled", "cancelled by the client")
    assert "result" not in seen and "error" not in seen
    assert peer.tasks.ended == ["cancelled"]
    assert set((await peer.ask("tasks/cancel", {"taskId": task}))["result"]) == {"resultType", "_meta"}
    assert (await peer.get(task))["status"] == "cancelled"
    waiting = (await peer.start("ask"))["taskId"]
    await peer.settled(waiting, "input_required")
    await peer.ask("tasks/cancel", {"taskId": waiting})
    await peer.update(waiting, user_name=ADA)
    assert (await peer.get(waiting))["status"] == "cancelled"
    peer.services.jobs.close()


@pytest.mark.parametrize("params", [{}, {"taskId": 5}, {"taskId": "unheard-of"}])
async def test_ids_that_are_none_are_refused(params: dict[str, Any]) -> None:
    peer = TaskPeer()
    for method in ("tasks/get", "tasks/cancel"):
        assert (await peer.ask(method, params))["error"]["code"] == -32602
    update = await peer.ask("tasks/update", params | {"inputResponses": {}})
    assert update["error"]["code"] == -32602
    answers = await peer.ask("tasks/update", {"taskId": "x", "inputResponses": [1]})
    assert answers["error"]["code"] == -32602 and "inputResponses" in answers["error"]["message"]


async def test_too_many_tasks_are_refused_by_name() -> None:
    peer = TaskPeer(TaskServer(max_tasks=2))
    await peer.start("wait")
    refused = await peer.ask("tools/call", {"name": "wait"})
    assert refused["error"]["code"] == -32603 and "max_tasks is 2" in refused["error"]["message"]
    peer.services.jobs.close()


async def test_a_result_that_cannot_be_kept_fails_its_task() -> None:
    peer = TaskPeer(jobs=JobStore(kept_bytes=1700))
    peer.tasks.go.set()
    failed = await peer.settled((await peer.start("wait", label="x" * 1000))["taskId"])
    assert failed["status"] == "failed" and failed["error"]["code"] == -32603
    assert "exceeds the limit of stored results" in failed["error"]["message"]
    peer.services.jobs.close()


async def test_there_is_neither_progress_nor_a_log_for_a_task_but_a_message_to_look_at() -> None:
    peer = TaskPeer()
    peer._last += 1
    meta = {
        "io.modelcontextprotocol/clientCapabilities": EXTENDED,
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": "p",
    }
    peer.modern(peer._last, "tools/call", {"name": "wait"}, **meta)
    task = (await peer.response(peer._last))["result"]["taskId"]
    await peer.tasks.running.wait()
    assert (await peer.get(task))["statusMessage"] == "half way"
    assert [message for message in peer.received if "method" in message] == []
    assert ("info", "wait", "waiting") in peer.logged
    peer.services.jobs.close()


@pytest.mark.requirement("8.4")
async def test_listeners_hear_of_the_tasks_they_name_and_may_see() -> None:
    peer = TaskPeer()
    task, other = [(await peer.start(tool))["taskId"] for tool in ("ask", "wait")]
    await peer.settled(task, "input_required")
    wanted = {"notifications": {"taskIds": [task, "unheard-of", task], "toolsListChanged": True}}
    capabilities = {"io.modelcontextprotocol/clientCapabilities": EXTENDED}
    peer.modern("sub", "subscriptions/listen", wanted, **capabilities)
    tag = {"io.modelcontextprotocol/subscriptionId": "sub"}
    told = await peer.told("notifications/subscriptions/acknowledged", lambda _: True)
    assert told == {"_meta": tag, "notifications": {"taskIds": [task], "toolsListChanged": True}}
    waiting = await peer.told("notifications/tasks", lambda params: params["status"] == "input_required")
    assert waiting["_meta"] == tag and set(waiting["inputRequests"]) == {"user_name"}
    await peer.update(task, user_name=ADA)
    done = await peer.told("notifications/tasks", lambda params: params["status"] == "completed")
    assert done["result"]["content"][0]["text"] == "Hello, Ada!"
    assert "resultType" not in done
    await peer.ask("tasks/cancel", {"taskId": other})
    heard = [
        message["params"]["taskId"]
        for message in peer.received
        if message.get("method") == "notifications/tasks"
    ]
    assert set(heard) == {task}
    peer.services.subscriptions.close()
    assert (await peer.response("sub"))["result"]["_meta"].items() >= tag.items()
    peer.services.jobs.close()


@pytest.mark.requirement("8.10")
async def test_listening_to_tasks_needs_the_extension_and_texts() -> None:
    peer = TaskPeer()
    wanted = {"notifications": {"taskIds": ["x"]}}
    refused = await peer.ask("subscriptions/listen", wanted, declared={})
    assert (refused["error"]["code"], refused["error"]["data"]) == (-32021, NEEDED)
    for wrong in ("x", [5], {"x": 1}):
        answer = await peer.ask("subscriptions/listen", {"notifications": {"taskIds": wrong}})
        assert answer["error"]["code"] == -32602


async def test_the_core_that_stops_ends_its_tasks() -> None:
    peer = TaskPeer()
    await peer.start("wait")
    await peer.tasks.running.wait()
    peer.services.jobs.close()
    await in_time(peer.tasks.over.wait())
    assert peer.tasks.ended == ["cancelled"] and len(peer.services.jobs) == 0
