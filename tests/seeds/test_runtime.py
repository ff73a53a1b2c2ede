"""The runtime as it was promised: every request its pages print, by curl and by a plain client."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cli.conftest import Service
from tests.support.curl import JSON, FetchResult, fetch
from tests.support.folders import write
from tests.support.plainly import plainly
from tests.support.stdio_server import Server

SAMPLES = Path(__file__).parents[2] / "sample_servers"
Ask: TypeAlias = Callable[..., Awaitable[FetchResult]]

CALL = """
{
  "jsonrpc": "2.0",
  "id": 1,
  "method": "tools/call",
  "params": {
    "name": "user-profile",
    "arguments": { "userId": "123" }
  }
}
"""
READ = """
{
  "jsonrpc": "2.0",
  "id": 2,
  "method": "resources/read",
  "params": { "uri": "resource://getting-started" }
}
"""
GET = """
{
  "jsonrpc": "2.0",
  "id": 3,
  "method": "prompts/get",
  "params": { "name": "summarize" }
}
"""
CONTEXT = '''
    """What tools get as their second argument."""

    from mcpdesk import RequestView


    async def create_context(request: RequestView) -> dict[str, object]:
        """Once per request."""
        if "x-broken" in request.headers:
            raise KeyError("x-broken")
        return {
            "requestId": request.headers.get("x-request-id"),
            "userId": request.headers.get("x-user-id") or request.environment.get("SEED_USER"),
            "headers": len(request.headers) > 0,
            "environment": len(request.environment) > 0,
        }
    '''
TOOLS = '''
    """Tools of every kind of output."""

    import asyncio
    from typing import Any

    from mcpdesk import Context, tool


    @tool
    async def number() -> Any:
        """A number."""
        return 42


    @tool
    async def listed() -> Any:
        """A list."""
        return [1, "two"]


    @tool
    async def thing() -> Any:
        """An object."""
        return {"a": 1}


    @tool
    async def nothing() -> Any:
        """Nothing."""


    @tool(timeout=0.2)
    async def slow() -> str:
        """Slower than it may be."""
        await asyncio.sleep(60)
        return "never"


    @tool
    async def who(ctx: Context) -> dict[str, Any]:
        """What context.py made of the request."""
        return ctx.context
    '''
PROMISED = '''
    """A tool that promises a shape, and a handler in the manner of modules."""

    INPUT_SCHEMA = {"type": "object", "properties": {"keep": {"type": "boolean"}}}
    OUTPUT_SCHEMA = {"type": "object", "properties": {"kept": {"type": "boolean"}}, "required": ["kept"]}
    DESCRIPTION = "Keep a promise, or not."


    async def handler(args, context):
        """The second argument is the context."""
        if "keep" not in args:
            return None
        return {"kept": context["userId"] is not None} if args["keep"] else {"kept": "no"}
    '''


def address(service: Service, *names: str) -> str:
    """Address of a service, once it serves these."""
    for name in names:
        url = service.says(f"serving {name} at").rpartition(" ")[2]
    return url.rpartition("/mcp/")[0]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three servers on one port, in a process of their own."""
    home = tmp_path_factory.mktemp("runtime")
    kinds = write(
        home / "kinds", {"tools/tools.py": TOOLS, "tools/promised.py": PROMISED, "context.py": CONTEXT}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPDESK_STATE_DIR", str(home / "state"))
        patch.setenv("MCPDESK_CONFIG_DIR", str(home / "config"))
        service = Service(str(SAMPLES / "profiles"), str(SAMPLES / "hello"), str(kinds), "--port", "0")
    try:
        yield address(service, "profiles", "hello", "kinds")
        assert service.end() == 0
    finally:
        service.process.kill()
        service.process.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()


@pytest.fixture(params=[fetch, plainly], ids=["curl", "plain"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """A client."""
    chosen: Ask = request.param
    return chosen


def rpc(method: str, params: dict[str, Any] | None = None) -> str:
    message = {"jsonrpc": "2.0", "id": 7, "method": method}
    return json.dumps(message if params is None else message | {"params": params})


def calling(tool: str, **arguments: Any) -> str:
    return rpc("tools/call", {"name": tool, "arguments": arguments})


async def result(answer: Awaitable[FetchResult]) -> Any:
    fetched = await answer
    assert fetched.status == 200, fetched.text
    return fetched.json["result"]


@pytest.mark.process
async def test_printed_call_is_answered_in_the_printed_shape(ask: Ask, url: str) -> None:
    answer = await ask(f"{url}/mcp/profiles", CALL)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json.keys() == {"jsonrpc", "id", "result"} and answer.json["id"] == 1
    profile = answer.json["result"]["structuredContent"]
    assert profile["userId"] == "123"
    [content] = answer.json["result"]["content"]
    assert content["type"] == "text" and json.loads(content["text"]) == profile


@pytest.mark.process
async def test_printed_read_is_answered_by_uri_and_by_path(ask: Ask, url: str) -> None:
    listed = (await result(ask(f"{url}/mcp/profiles", rpc("resources/list"))))["resources"]
    assert [each["uri"] for each in listed] == ["resource://getting-started"]
    by_uri = await result(ask(f"{url}/mcp/profiles", READ))
    by_path = await result(
        ask(f"{url}/mcp/profiles", READ.replace("resource://getting-started", "resources/getting-started.md"))
    )
    assert by_uri == by_path and by_uri["contents"][0]["text"].startswith("# Getting started")


@pytest.mark.process
async def test_printed_prompt_is_the_body_without_front_matter(ask: Ask, url: str) -> None:
    prompt = await result(ask(f"{url}/mcp/profiles", GET))
    [message] = prompt["messages"]
    assert message["role"] == "user" and message["content"]["type"] == "text"
    text = message["content"]["text"]
    assert text.startswith("Summarize") and "---" not in text and "{{" not in text


@pytest.mark.process
async def test_a_required_argument_of_a_prompt_is_asked_for_by_name(ask: Ask, url: str) -> None:
    answer = await ask(f"{url}/mcp/hello", rpc("prompts/get", {"name": "explain"}))
    assert (answer.status, answer.json["error"]["code"]) == (200, -32602)
    assert "'topic'" in answer.json["error"]["message"]
    filled = await result(
        ask(f"{url}/mcp/hello", rpc("prompts.get", {"name": "explain", "arguments": {"topic": "tea"}}))
    )
    assert filled["messages"][0]["content"]["text"].startswith("Explain tea in")


@pytest.mark.process
@pytest.mark.parametrize(
    ("method", "params", "key"),
    [
        ("tools/list", {}, "tools"),
        ("resources/list", {}, "resources"),
        ("resources/templates/list", {}, "resourceTemplates"),
        ("prompts/list", {}, "prompts"),
        ("tools/call", {"name": "user-profile", "arguments": {"userId": "124"}}, "content"),
        ("resources/read", {"uri": "resource://getting-started"}, "contents"),
        ("resources/subscribe", {"uri": "resource://getting-started"}, ""),
        ("resources/unsubscribe", {"uri": "resource://getting-started"}, ""),
        ("prompts/get", {"name": "summarize"}, "messages"),
        ("logging/setLevel", {"level": "warning"}, ""),
        ("ping", {}, ""),
    ],
)
async def test_slash_and_dot_are_the_same(
    ask: Ask, url: str, method: str, params: dict[str, Any], key: str
) -> None:
    answers = [
        await result(ask(f"{url}/mcp/profiles", rpc(name, params)))
        for name in (method, method.replace("/", "."))
    ]
    assert answers[0] == answers[1]
    assert key in answers[0] if key else answers[0] == {}


@pytest.mark.process
async def test_initialize_opens_a_session_and_notifications_are_taken(ask: Ask, url: str) -> None:
    client = {"name": "seed", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    opened = await ask(f"{url}/mcp/profiles", rpc("initialize", params))
    assert opened.json["result"]["serverInfo"]["name"] == "profiles"
    session = JSON | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    for name in ("initialized", "cancelled", "canceled"):
        for method in (f"notifications/{name}", f"notifications.{name}"):
            note = json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 99}})
            taken = await ask(f"{url}/mcp/profiles", note, session)
            assert (taken.status, taken.text) == (202, "")


@pytest.mark.process
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications.canceled"])
async def test_a_call_is_cancelled_in_either_spelling(url: str, method: str) -> None:
    server = Server(SAMPLES / "hello", "--alone")
    try:
        server.shake_hands()
        start = {"name": "countdown", "arguments": {"start": 60}, "_meta": {"progressToken": "t"}}
        request = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": start}
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["method"].startswith("notifications/")
        server.stdin.write(
            json.dumps({"jsonrpc": "2.0", "method": method, "params": {"requestId": 5}}).encode() + b"\n"
        )
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 6, "method": "ping"}).encode() + b"\n")
        server.stdin.flush()
        while (message := json.loads(server.stdout.readline())).get("id") != 6:
            assert "method" in message, message
    finally:
        server.close()


@pytest.mark.process
@pytest.mark.parametrize(
    ("query", "accept"), [("?stream=1", "application/json"), ("?stream=1", "*/*"), ("", "text/event-stream")]
)
async def test_either_way_of_asking_gets_a_stream(ask: Ask, url: str, query: str, accept: str) -> None:
    answer = await ask(f"{url}/mcp/profiles{query}", CALL, JSON | {"Accept": accept})
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    event, data, *rest = answer.text.replace("\r\n", "\n").split("\n")
    assert (event, rest) == ("event: message", ["", ""])
    assert data.startswith("data: ")
    assert json.loads(data.removeprefix("data: "))["result"]["structuredContent"]["userId"] == "123"


@pytest.mark.process
async def test_an_error_is_streamed_as_well(ask: Ask, url: str) -> None:
    answer = await ask(f"{url}/mcp/profiles?stream=1", rpc("tools/call", {"name": "nobody"}))
    assert answer.headers["content-type"] == "text/event-stream" and '"code":-32602' in answer.text


@pytest.mark.slow
async def test_without_asking_the_answer_is_json_unless_the_handler_reports(ask: Ask, url: str) -> None:
    both = JSON | {"Accept": "application/json, text/event-stream"}
    assert (await ask(f"{url}/mcp/profiles", CALL, both)).headers["content-type"] == "application/json"
    params = {"name": "countdown", "arguments": {"start": 1}, "_meta": {"progressToken": 1}}
    streamed = await ask(f"{url}/mcp/hello", rpc("tools/call", params), both)
    assert (
        streamed.headers["content-type"] == "text/event-stream" and "notifications/progress" in streamed.text
    )
    only = await ask(f"{url}/mcp/hello", rpc("tools/call", params), JSON | {"Accept": "application/json"})
    assert only.headers["content-type"] == "application/json" and only.json["result"]["isError"] is False


@pytest.mark.process
async def test_output_is_text_and_an_object_is_structured(ask: Ask, url: str) -> None:
    expected = {"number": ("42", None), "listed": ('[1,"two"]', None), "thing": ('{"a":1}', {"a": 1})}
    for name, (text, structured) in expected.items():
        answer = await result(ask(f"{url}/mcp/kinds", calling(name)))
        assert answer["content"] == [{"type": "text", "text": text}]
        assert answer.get("structuredContent") == structured
    assert await result(ask(f"{url}/mcp/kinds", calling("nothing"))) == {"content": [], "isError": False}


@pytest.mark.process
async def test_a_promise_that_is_not_kept_is_a_tool_error(ask: Ask, url: str) -> None:
    kept = await result(ask(f"{url}/mcp/kinds", calling("promised", keep=True), JSON | {"X-User-Id": "u"}))
    assert kept["structuredContent"] == {"kept": True} and kept["isError"] is False
    for arguments, words in (({}, "returned nothing"), ({"keep": False}, "violates its schema")):
        broken = await result(ask(f"{url}/mcp/kinds", calling("promised", **arguments)))
        assert broken["isError"] is True and words in broken["content"][0]["text"]
        assert broken["content"][0]["text"].startswith("promised")


@pytest.mark.process
async def test_context_is_made_of_the_headers_over_http(ask: Ask, url: str) -> None:
    headers = JSON | {"x-request-id": "r-9", "X-USER-ID": "u-9"}
    seen = (await result(ask(f"{url}/mcp/kinds", calling("who"), headers)))["structuredContent"]
    assert seen == {"requestId": "r-9", "userId": "u-9", "headers": True, "environment": False}
    seen = (await result(ask(f"{url}/mcp/kinds", calling("who"))))["structuredContent"]
    assert seen == {"requestId": None, "userId": None, "headers": True, "environment": False}


@pytest.mark.process
def test_context_is_made_of_the_environment_over_stdio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEED_USER", "from-outside")
    server = Server(write(tmp_path / "kinds", {"tools/tools.py": TOOLS, "context.py": CONTEXT}), "--alone")
    try:
        server.shake_hands()
        seen = server.ask("tools/call", {"name": "who", "arguments": {}}, 3)["result"]["structuredContent"]
    finally:
        server.close()
    assert seen == {"requestId": None, "userId": "from-outside", "headers": False, "environment": True}


@pytest.mark.process
async def test_a_context_that_raises_is_a_tool_error_with_its_place(ask: Ask, url: str) -> None:
    broken = await result(ask(f"{url}/mcp/kinds", calling("who"), JSON | {"X-Broken": "1"}))
    assert broken["isError"] is True
    assert broken["content"][0]["text"] == "who got no context: context.py:9: KeyError: 'x-broken'"


@pytest.mark.process
async def test_a_tool_over_its_time_is_a_tool_error_with_the_limit(ask: Ask, url: str) -> None:
    late = await result(ask(f"{url}/mcp/kinds", calling("slow")))
    assert late["isError"] is True and "limit of 0.2 s" in late["content"][0]["text"]


@pytest.mark.process
async def test_mistakes_of_a_call_are_told_apart(ask: Ask, url: str) -> None:
    unknown = await ask(f"{url}/mcp/profiles", rpc("tools/call", {"name": "nobody"}))
    assert (unknown.status, unknown.json["error"]["code"]) == (200, -32602)
    wrong = await result(ask(f"{url}/mcp/profiles", calling("user-profile", userId=1, more=True)))
    assert wrong["isError"] is True
    assert "- userId: " in wrong["content"][0]["text"] and "more" in wrong["content"][0]["text"]
    missing = await ask(f"{url}/mcp/profiles", rpc("tools/dance"))
    assert missing.json["error"]["code"] == -32601


@pytest.mark.process
async def test_health_and_counts(ask: Ask, url: str) -> None:
    health = await ask(f"{url}/health", headers={})
    assert (health.status, health.json) == (200, {"status": "ok"})
    status = (await ask(f"{url}/status", headers={})).json
    servers = {each["name"]: each for each in status["servers"]}
    assert list(servers) == ["profiles", "hello", "kinds"]
    assert (
        servers["profiles"].items() >= {"version": "1.2.0", "tools": 1, "resources": 1, "prompts": 1}.items()
    )
    assert servers["kinds"].items() >= {"tools": 7, "resources": 0, "prompts": 0}.items()
    for kind in ("tools", "resources", "prompts"):
        assert status[kind] == sum(each[kind] for each in servers.values())
    assert (status["name"], status["version"]) == ("profiles", "1.2.0")
    assert status["uptime_s"] > 0 and status["token_required"] is False
    metrics = await ask(f"{url}/metrics", headers={})
    assert 'mcpdesk_items{kind="tool",server="kinds"} 7.0' in metrics.text
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")


@pytest.mark.process
async def test_each_server_has_its_path_and_the_first_one_the_bare_one(ask: Ask, url: str) -> None:
    for path, tool in (
        ("", "user-profile"),
        ("/profiles", "user-profile"),
        ("/hello", "greet"),
        ("/kinds", "who"),
    ):
        listed = await result(ask(f"{url}/mcp{path}", rpc("tools/list")))
        assert tool in {each["name"] for each in listed["tools"]}
    nowhere = await ask(f"{url}/mcp/nobody", rpc("tools/list"))
    assert nowhere.status == 404 and "/mcp/profiles, /mcp/hello, /mcp/kinds" in nowhere.json["error"]


@pytest.mark.process
async def test_get_explains_itself(ask: Ask, url: str) -> None:
    for accept in ("*/*", "text/event-stream"):
        answer = await ask(f"{url}/mcp/profiles", headers={"Accept": accept})
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert "JSON-RPC" in answer.json["error"] and "POST" in answer.json["error"]
    front = await ask(f"{url}/", headers={})
    assert front.status == 200


@pytest.mark.process
async def test_revisions_of_both_eras_are_served_at_one_address(ask: Ask, url: str) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = JSON | {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
    }
    modern = await ask(f"{url}/mcp/profiles", rpc("tools/list", {"_meta": meta}), headers)
    assert modern.json["result"]["resultType"] == "complete"
    dotted = headers | {"Mcp-Method": "tools.list"}
    refused = await ask(f"{url}/mcp/profiles", rpc("tools.list", {"_meta": meta}), dotted)
    assert refused.json["error"]["code"] == -32601
