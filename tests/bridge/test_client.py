"""The client, of folders, of servers over real sockets, and of servers that lie."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.bridge.client import Client
from mcpdesk.errors import (
    CallError,
    CallTimeout,
    DeskUserError,
    HttpError,
    InvalidAnswer,
    RpcError,
)
from tests.bridge.conftest import TOOLS
from tests.support import tokens
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import WITHIN_S, in_time
from tests.support.scripted import DISCOVERED, Seen, http, json, modern, result, scripted, stream
from tests.support.served import make_server

OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": OUTPUT}


async def test_server_says_what_it_is(client: Client) -> None:
    told = await client.connect()
    assert (told["name"], told["version"], told["instructions"]) == ("kinds", "1.0", "Be brief.")
    assert told["revision"] in ("2026-07-28", "2025-11-25")


async def test_tools_of_all_pages_are_listed(client: Client) -> None:
    assert sorted(tool["name"] for tool in await client.list_tools()) == TOOLS


async def test_tools_are_called(client: Client) -> None:
    assert (await client.call_tool("greet", {"name": "Ada"}))["content"][0]["text"] == "Hello, Ada!"
    await client.list_tools()
    assert (await client.call_tool("count.words", {"text": "a b"}))["structuredContent"] == {"words": 2}


async def test_failure_of_a_tool_is_a_result(client: Client) -> None:
    failed = await client.call_tool("refuse")
    assert failed["isError"] and failed["content"][0]["text"] == "not today"
    assert (await client.call_tool("greet", {"nome": 1}))["isError"]


async def test_unknown_tool_is_an_error_of_the_server(client: Client) -> None:
    with pytest.raises(RpcError) as caught:
        await client.call_tool("nobody")
    assert caught.value.code == -32602


async def test_call_that_takes_too_long_ends_on_both_sides(client: Client) -> None:
    await client.connect()
    with pytest.raises(CallTimeout, match=r"wait: no answer within 0\.3 s") as caught:
        await client.call_tool("wait", timeout_s=0.3)
    assert isinstance(caught.value, TimeoutError) and isinstance(caught.value, CallError)
    assert (await client.call_tool("greet", {"name": "still"}))["content"][0]["text"] == "Hello, still!"


@pytest.mark.sampled(1)
async def test_calls_at_the_same_time_do_not_mix(client: Client) -> None:
    calls = (client.call_tool("greet", {"name": str(n)}) for n in range(50))
    texts = [answer["content"][0]["text"] for answer in await asyncio.gather(*calls)]
    assert texts == [f"Hello, {n}!" for n in range(50)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("let_go", [False, True])
async def test_answer_comes_after_reports_and_over_a_new_connection(client: Client, let_go: bool) -> None:
    result = await client.call_tool("steps", {"let_go": let_go})
    assert result["content"][0]["text"] == "done"


async def test_argument_that_a_header_repeats_is_sent_in_both(client: Client) -> None:
    await client.list_tools()
    assert (await client.call_tool("route", {"region": "größe ", "at": 2}))["content"][0][
        "text"
    ] == "größe  2"


async def test_any_other_request_goes_through(client: Client) -> None:
    assert (await client.request("resources/list"))["resources"] == []
    with pytest.raises(RpcError):
        await client.request("prompts/get", {"name": "nothing"})


async def test_header_that_is_due_is_learnt_when_the_server_asks_for_it(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk, Client(desk.view().servers[0].url) as client:
        assert (await client.call_tool("route", {"region": "eu"}))["content"][0]["text"] == "eu 1"


async def test_mode_is_the_same_everywhere(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk:
        for target in (folder, desk.view().servers[0].url):
            async with Client(target, mode="calm") as client:
                assert sorted(tool["name"] for tool in await client.list_tools()) == ["count.words", "greet"]
                with pytest.raises(RpcError, match="picture"):
                    await client.call_tool("picture")


async def test_mode_that_is_not_there_is_told_with_those_that_are(folder: Path) -> None:
    async with running_desk(folder, http=True) as desk:
        for target in (folder, desk.view().servers[0].url):
            with pytest.raises((DeskUserError, CallError), match="calm"):
                async with Client(target, mode="wild") as client:
                    await client.connect()


async def test_server_made_in_code_is_a_target() -> None:
    async with Client(make_server()) as client:
        assert (await client.connect())["name"] == "sample"
        assert (await client.call_tool("echo", {"text": "x"}))["content"][0]["text"] == "x"


async def test_key_is_sent_and_its_lack_is_an_http_error(folder: Path) -> None:
    async with running_desk(folder, http=True, api_key="k" * 32) as desk:
        url = desk.view().servers[0].url
        with pytest.raises(HttpError) as caught:
            async with Client(url) as client:
                await client.list_tools()
        assert caught.value.status == 403
        async with Client(url, api_key="k" * 32) as client:
            assert len(await client.list_tools()) == 7


@pytest.mark.parametrize("secret", ["a b", "a\r\nX: y", "é", " a", "\x00"])
def test_secret_no_header_can_carry_is_refused_and_not_repeated(secret: str) -> None:
    for more in ({"token": secret}, {"api_key": secret}):
        with pytest.raises(DeskUserError) as caught:
            Client("http://x", **more)  # type: ignore[arg-type]
        assert secret not in str(caught.value)


async def test_token_and_headers_go_with_every_request() -> None:
    async with (
        scripted(modern(lambda seen: json(result(seen, {"content": []})))) as server,
        Client(server.url, token="t0k", headers={"X-Request-Id": "7"}) as client,
    ):
        await client.call_tool("x")
    for seen in server.seen:
        assert seen.headers["authorization"] == "Bearer t0k" and seen.headers["x-request-id"] == "7"


def lying(**answers: Any) -> Any:
    """A server with fixed results: `tools`, `pages` and `call`."""

    def answer(seen: Seen) -> bytes:
        if seen.message["method"] == "tools/list":
            return json(result(seen, answers.get("listed", {"tools": [TOOL]})))
        return json(result(seen, answers["called"]))

    return modern(answer)


@pytest.mark.parametrize(
    ("called", "reason"),
    [
        ({}, "no list called content"),
        ({"content": []}, "t: the result has no structured content, but the tool declares an output schema"),
        (
            {"content": [], "structuredContent": {"n": "1"}},
            "t: the structured content violates the output schema: n ",
        ),
        ({"content": [], "structuredContent": None}, "violates the output schema"),
    ],
)
async def test_result_that_breaks_its_promise_is_no_answer(called: Any, reason: str) -> None:
    async with scripted(lying(called=called)) as server, Client(server.url) as client:
        await client.list_tools()
        with pytest.raises(InvalidAnswer, match=reason):
            await client.call_tool("t")


@pytest.mark.parametrize(
    "called",
    [{"content": [], "isError": True}, {"content": [], "structuredContent": {"n": 1, "more": 2}}],
)
async def test_result_that_keeps_it_is_handed_on(called: Any) -> None:
    async with scripted(lying(called=called)) as server, Client(server.url) as client:
        await client.list_tools()
        assert await client.call_tool("t") == called


async def test_output_schema_that_is_none_is_held_against_nobody() -> None:
    listed = {"tools": [TOOL | {"outputSchema": {"type": 7}}]}
    answers = lying(listed=listed, called={"content": [], "structuredContent": 5})
    async with scripted(answers) as server, Client(server.url) as client:
        await client.list_tools()
        assert (await client.call_tool("t"))["structuredContent"] == 5


async def test_a_repeated_cursor_ends_the_list() -> None:
    listed = {"tools": [TOOL], "nextCursor": "again"}
    async with scripted(lying(listed=listed)) as server, Client(server.url) as client:
        assert len(await client.list_tools()) == 1


async def test_tool_with_a_wrong_mark_is_left_out_and_the_rest_stays() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    listed = {"tools": [{"name": "wrong", "inputSchema": schema}, TOOL]}
    async with scripted(lying(listed=listed)) as server, Client(server.url) as client:
        assert await client.list_tools() == [TOOL]


async def test_waiting_for_a_server_that_says_nothing_ends() -> None:
    async with scripted(lambda seen: None) as server, Client(server.url, timeout_s=0.2) as client:
        with pytest.raises(CallTimeout, match="connecting: no answer"):
            await in_time(client.connect())


async def test_client_that_was_closed_opens_again(folder: Path) -> None:
    client = Client(folder)
    for _ in range(2):
        assert len(await client.list_tools()) == 7
        await client.close()
    await client.close()


async def test_call_under_way_fails_when_its_client_is_closed(client: Client) -> None:
    await client.connect()
    work = asyncio.create_task(client.call_tool("wait"))
    await client.call_tool("steps")  # by then the other one has begun
    await in_time(client.close())
    with pytest.raises(CallError):
        await in_time(work)


async def test_folder_that_cannot_be_hosted_is_told(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="does not exist"):
        async with Client(tmp_path / "nowhere") as client:
            await client.connect()


async def test_first_failure_does_not_spoil_the_next_request() -> None:
    answers = iter([http(503), None])

    def answer(seen: Seen) -> bytes | None:
        return next(answers, None) or modern(lambda seen: json(result(seen, {"content": []})))(seen)

    async with scripted(answer) as server, Client(server.url) as client:
        with pytest.raises(HttpError):
            await client.call_tool("x")
        assert await client.call_tool("x") == {"content": []}


GUARDED = {
    "mcp.json": '{"name": "safe", "auth": {"requires_jwt": false, "jwt": {"algorithms": ["HS256"], '
    '"secret_env": "BRIDGE_SECRET"}}}',
    "tools/who.py": '''
        from typing import Any

        from mcpdesk import Context, tool

        @tool(requires_jwt=True)
        async def who(ctx: Context) -> str:
            """Say who asks."""
            assert ctx.claims is not None
            return str(ctx.claims["sub"])

        @tool
        async def anyone() -> str:
            """Needs nobody."""
            return "anyone"
        ''',
}


@pytest.fixture(params=["folder", "http"])
async def guarded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Path | str]:
    """The same guarded folder as a target in this process and over HTTP."""
    monkeypatch.setenv("BRIDGE_SECRET", tokens.SECRET)
    folder = write(tmp_path / "safe", GUARDED)
    if request.param == "folder":
        yield folder
        return
    async with running_desk(folder, http=True) as desk:
        yield desk.view().servers[0].url


async def test_token_reaches_the_handler_as_claims(guarded: Path | str) -> None:
    async with Client(guarded, token=tokens.token("HS256", sub="ada")) as client:
        assert len(await client.list_tools()) == 2
        assert (await client.call_tool("who"))["content"][0]["text"] == "ada"


async def test_tool_without_its_token_is_refused_and_the_others_serve(guarded: Path | str) -> None:
    async with Client(guarded) as client:
        assert (await client.call_tool("anyone"))["content"][0]["text"] == "anyone"
        with pytest.raises((HttpError, RpcError), match="Unauthorized: missing JWT"):
            await client.call_tool("who")


BAD_TOKENS: dict[str, Callable[[], str]] = {
    "expired": lambda: tokens.token("HS256", exp=1),
    "forged": lambda: tokens.token("HS256")[:-6] + "abcdef",
    "no token": lambda: "no-token-at-all",
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
async def test_token_that_does_not_count_is_refused_and_not_repeated(guarded: Path | str, kind: str) -> None:
    given = BAD_TOKENS[kind]()
    async with Client(guarded, token=given) as client:
        with pytest.raises((HttpError, RpcError), match="Unauthorized: invalid JWT") as caught:
            await client.call_tool("who")
    assert given not in str(caught.value) and given not in repr(vars(caught.value))


def rough(dice: random.Random, depth: int = 0) -> Any:
    """A random value that resembles parts of answers."""
    kinds = ["text", "number", "none", "bool"] + (["list", "object", "object"] if depth < 3 else [])
    match dice.choice(kinds):
        case "list":
            return [rough(dice, depth + 1) for _ in range(dice.randrange(3))]
        case "object":
            return {dice.choice(WORDS): rough(dice, depth + 1) for _ in range(dice.randrange(5))}
        case "number":
            return dice.choice([0, 1, 2, 3, -32020, -32022, -32601, 1e300])
        case "bool":
            return dice.random() < 0.5
        case "none":
            return None
    return dice.choice(["", "2.0", "2026-07-28", "2025-11-25", "text", "complete", "\x00\x1b[2J", "object"])


WORDS = ["jsonrpc", "id", "result", "error", "code", "message", "tools", "content", "type", "text", "name",
         "data", "inputSchema", "supportedVersions", "protocolVersion", "resultType", "nextCursor",
         "method"]  # fmt: skip


@pytest.mark.slow
async def test_whatever_a_server_answers_it_is_a_result_or_a_call_error() -> None:
    dice = random.Random(1)
    answered = 0

    def answer(seen: Seen) -> bytes:
        if seen.body and seen.message.get("method") == "server/discover" and dice.random() < 0.6:
            return json(result(seen, DISCOVERED))
        given = seen.message.get("id") if seen.body else 1
        body: Any = rough(dice)
        if dice.random() < 0.7:
            body = {"jsonrpc": "2.0", "id": given, dice.choice(["result", "error"]): body}
        data = orjson.dumps(body) if dice.random() < 0.9 else dice.randbytes(dice.randrange(60))
        if dice.random() < 0.3:
            return stream("retry: 1", "id: a", f"data: {data.decode('latin-1')}", "")
        status = dice.choice([200, 200, 200, 202, 400, 404, 405, 406, 500])
        return http(status, data, dice.choice(["application/json", "application/json", "text/html", ""]))

    async with scripted(answer) as server:
        for _ in range(250):
            async with Client(server.url, timeout_s=WITHIN_S) as client:
                for ask in (
                    client.list_tools,
                    lambda: client.call_tool("t"),
                    lambda: client.request("prompts/list"),
                ):
                    try:
                        await ask()
                    except CallError as error:
                        assert "\x1b" not in str(error)
                    answered += 1
    assert answered == 750
