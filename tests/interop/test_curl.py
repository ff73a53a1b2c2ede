"""What scripts send: single requests without a session, by the real curl."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.curl import JSON, Fetched, fetch
from tests.support.desk import RunningDesk, running_desk
from tests.support.stdio_server import Server
from tests.support.workshop import workshop

SAMPLES = Path(__file__).parents[2] / "sample_servers"
KEY = "open-sesame"


@pytest.fixture
async def profiles() -> AsyncIterator[str]:
    """The address of a core with the sample `profiles`."""
    async with running_desk(SAMPLES / "profiles", http=True) as desk:
        yield address(desk)


def address(desk: RunningDesk) -> str:
    return desk.view().servers[0].url.rpartition("/mcp/")[0]


def rpc(method: str, params: dict[str, Any] | None = None, **more: Any) -> str:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, **more}
    return json.dumps(message if params is None else message | {"params": params})


def streamed(answer: Fetched) -> list[Any]:
    assert answer.headers["content-type"] == "text/event-stream"
    events = answer.text.replace("\r\n", "\n").strip().split("\n\n")
    assert all(each.startswith("event: message\ndata: ") for each in events)
    return [json.loads(each.removeprefix("event: message\ndata: ")) for each in events]


@pytest.mark.parametrize("method", ["tools/list", "tools.list"])
async def test_tools_are_listed_by_slash_and_dot(profiles: str, method: str) -> None:
    without: tuple[dict[str, Any] | None, ...] = (None, {})
    for params in without:
        answer = await fetch(f"{profiles}/mcp/profiles", rpc(method, params))
        assert answer.status == 200 and answer.headers["content-type"] == "application/json"
        assert [tool["name"] for tool in answer.json["result"]["tools"]] == ["user-profile"]


async def test_a_tool_is_called_with_the_context_of_the_headers(profiles: str) -> None:
    call = rpc("tools/call", {"name": "user-profile", "arguments": {"userId": "123"}})
    headers = JSON | {"X-Request-Id": "r-1", "X-User-Id": "124"}
    result = (await fetch(f"{profiles}/mcp/profiles", call, headers)).json["result"]
    facts = {"name": "Ada Lovelace", "email": "ada@example.org", "role": "analyst", "userId": "123"}
    expected = {**facts, "requestedBy": "124", "requestId": "r-1"}
    assert result["structuredContent"] == expected
    assert json.loads(result["content"][0]["text"]) == expected
    own = (await fetch(f"{profiles}/mcp/profiles", rpc("tools.call", {"name": "user-profile"}), headers)).json
    assert own["result"]["structuredContent"]["name"] == "Grace Hopper"


@pytest.mark.parametrize("uri", ["resource://getting-started", "resources/getting-started.md"])
@pytest.mark.parametrize("method", ["resources/read", "resources.read"])
async def test_a_resource_is_read_by_uri_and_by_path(profiles: str, uri: str, method: str) -> None:
    listed = (await fetch(f"{profiles}/mcp/profiles", rpc("resources.list"))).json["result"]["resources"]
    assert [each["uri"] for each in listed] == ["resource://getting-started"]
    result = (await fetch(f"{profiles}/mcp/profiles", rpc(method, {"uri": uri}))).json["result"]
    assert result["contents"][0]["uri"] == "resource://getting-started"
    assert result["contents"][0]["text"].startswith("# Getting started")


@pytest.mark.parametrize(
    "uri",
    ["mcp.json", "../hello/mcp.json", "resources/../mcp.json", "/etc/hostname", "file:///etc/hostname", ""],
)
async def test_no_path_leads_to_what_is_no_resource(profiles: str, uri: str) -> None:
    error = (await fetch(f"{profiles}/mcp/profiles", rpc("resources/read", {"uri": uri}))).json["error"]
    assert error["code"] == -32002 and error["data"] == {"uri": uri}


@pytest.mark.parametrize("method", ["prompts/get", "prompts.get"])
async def test_a_prompt_is_its_markdown_without_front_matter(profiles: str, method: str) -> None:
    url = f"{profiles}/mcp/profiles"
    result = (await fetch(url, rpc(method, {"name": "summarize", "arguments": {"text": "A tale."}}))).json
    text = result["result"]["messages"][0]["content"]["text"]
    assert "A tale." in text and "---" not in text
    bare = (await fetch(url, rpc(method, {"name": "summarize"}))).json["result"]["messages"][0]["content"]
    assert bare["text"].endswith("exactly as they are.")


@pytest.mark.parametrize(
    ("query", "accept"), [("?stream=1", "*/*"), ("", "text/event-stream"), ("?stream=true&x=1", "*/*")]
)
async def test_an_answer_is_streamed_when_asked_for(profiles: str, query: str, accept: str) -> None:
    answer = await fetch(f"{profiles}/mcp/profiles{query}", rpc("tools.list"), JSON | {"Accept": accept})
    assert [message["id"] for message in streamed(answer)] == [1]
    refused = await fetch(f"{profiles}/mcp/profiles{query}", rpc("tools/dance"), JSON | {"Accept": accept})
    assert [message["error"]["code"] for message in streamed(refused)] == [-32601]


@pytest.mark.parametrize("query", ["", "?stream=0", "?stream=", "?upstream=1"])
async def test_an_answer_is_json_otherwise(profiles: str, query: str) -> None:
    answer = await fetch(f"{profiles}/mcp/profiles{query}", rpc("tools.list"), JSON | {"Accept": "*/*"})
    assert answer.headers["content-type"] == "application/json"


async def test_logs_and_answer_are_events_of_one_stream(tmp_path: Path) -> None:
    async with running_desk(workshop(tmp_path / "workshop"), http=True) as desk:
        call = rpc(
            "tools/call", {"name": "steps", "arguments": {"count": 2}, "_meta": {"progressToken": "p"}}
        )
        answer = await fetch(f"{address(desk)}/mcp/workshop", call, JSON | {"Accept": "*/*"})
    kinds = [message.get("method", message.get("id")) for message in streamed(answer)]
    progress, log = "notifications/progress", "notifications/message"
    assert kinds == [log, progress, progress, log, 1]


async def test_handshake_notifications_and_levels(profiles: str) -> None:
    url = f"{profiles}/mcp/profiles"
    client = {"name": "curl", "version": "8"}
    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client}
    opened = await fetch(url, rpc("initialize", params))
    assert opened.json["result"]["protocolVersion"] == "2024-11-05"
    session = JSON | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    for method in ("notifications/initialized", "notifications/cancelled", "notifications/canceled"):
        note = json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 99}})
        told = await fetch(url, note, session)
        assert (told.status, told.text) == (202, "")
    uri = {"uri": "resource://getting-started"}
    for method, given in (
        ("logging/setLevel", {"level": "error"}),
        ("resources/subscribe", uri),
        ("resources.unsubscribe", uri),
        ("ping", {}),
    ):
        assert (await fetch(url, rpc(method, given), session)).json["result"] == {}
    assert (await fetch(url, None, session, "DELETE")).status == 204
    gone = await fetch(url, rpc("ping"), session)
    assert gone.status == 404 and "initialize again" in gone.json["error"]["message"]


async def test_health_status_and_explanations(profiles: str) -> None:
    assert (await fetch(f"{profiles}/health")).json == {"status": "ok"}
    status = (await fetch(f"{profiles}/status")).json
    counts = {"tools": 1, "resources": 1, "prompts": 1}
    assert (
        status.items() >= {"name": "profiles", "version": "1.2.0", "token_required": False, **counts}.items()
    )
    [server] = status["servers"]
    assert server["name"] == "profiles" and server["token_required"] is False
    assert server.items() >= counts.items()
    explained = await fetch(f"{profiles}/mcp/profiles")
    assert explained.status == 405 and explained.headers["allow"] == "POST"
    assert "JSON-RPC" in explained.json["error"]
    nowhere = await fetch(f"{profiles}/mcp/nobody", rpc("tools/list"))
    assert nowhere.status == 404 and "/mcp/profiles" in nowhere.json["error"]
    assert (await fetch(f"{profiles}/mcp", rpc("tools/list"))).status == 200


@pytest.mark.parametrize("name", ["X-API-Key", "X-Desk-Key"])
async def test_a_configured_key_is_asked_for(name: str) -> None:
    async with running_desk(SAMPLES / "profiles", http=True, api_key=KEY, api_key_header=name) as desk:
        url = address(desk)
        right = await fetch(f"{url}/mcp/profiles", rpc("tools/list"), JSON | {name: KEY})
        assert right.status == 200
        for headers, state in ((JSON, "missing"), (JSON | {name: "guess"}, "wrong")):
            refused = await fetch(f"{url}/mcp/profiles", rpc("tools/list"), headers)
            assert refused.status == 403 and refused.json["error"].startswith(f"Forbidden: {state} key")
        assert (await fetch(f"{url}/health")).status == 200
        assert (await fetch(f"{url}/status")).json["token_required"]


async def test_a_switched_off_endpoint_leaves_the_facts() -> None:
    async with running_desk(SAMPLES / "profiles", http=True, enable_mcp=False) as desk:
        assert (await fetch(f"{address(desk)}/mcp/profiles", rpc("tools/list"))).status == 404
        assert (await fetch(f"{address(desk)}/health")).status == 200


def test_lines_over_stdio_are_answered_as_published() -> None:
    server = Server(SAMPLES / "desk", "--alone")
    try:
        client = {"name": "claude-ai", "version": "1.0"}
        params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client}
        opened = server.ask("initialize", params)["result"]
        assert opened["protocolVersion"] == "2024-11-05" and "tools" in opened["capabilities"]
        server.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}\n')
        names = {tool["name"] for tool in server.ask("tools/list", {}, 2)["result"]["tools"]}
        assert {"Bash", "AskUserQuestion"} <= names
        call = {"name": "Bash", "arguments": {"command": "ls -la /tmp", "timeout": 5000}}
        listed = server.ask("tools/call", call, 42)["result"]
        assert listed["isError"] is False
        assert listed["content"][0]["type"] == "text" and listed["content"][0]["text"].startswith("total ")
    finally:
        server.close()
