"""The guarded server and the chat bridge as they were promised: every request, body, refusal and failure."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema
import pytest

from mcpdesk.bridge import (
    Client,
    HttpError,
    InvalidAnswer,
    RpcError,
    call_tool,
    client_tools,
    format_result,
    tool_schemas,
)
from tests.cli.conftest import Service, started_services
from tests.support import tokens
from tests.support.curl import JSON, FetchResult, fetch
from tests.support.folders import write
from tests.support.plainly import plainly
from tests.support.scripted import http, scripted

Ask: TypeAlias = Callable[..., Awaitable[FetchResult]]
SAMPLES = Path(__file__).parents[2] / "sample_servers"
MISSING = {"error": "Unauthorized: missing JWT"}
INVALID = {"error": "Unauthorized: invalid JWT"}
TOOLS = '''
    """Tools of a wallet: open ones, guarded ones, and one that needs a key of its own."""

    from typing import Any

    from mcpdesk import Context, fail, tool


    @tool
    async def rhyme(word: str) -> str:
        """Find a rhyme for a word."""
        if word == "orange":
            fail("Nothing rhymes with orange.", word=word)
        return f"{word} ... bird"


    @tool(requires_jwt=True)
    async def balance(ctx: Context) -> dict[str, Any]:
        """What the caller owns."""
        claims = ctx.claims or {}
        return {"address": claims["address"], "sub": claims["sub"], "amount": 42}


    @tool(name="send-crypto", requires_env="SEED_PRIVATE_KEY")
    async def send_crypto(to: str, amount: float) -> str:
        """Send something."""
        return f"sent {amount} to {to}"


    @tool
    async def crash() -> str:
        """Raise something nobody expects."""
        raise ValueError("inside")
    '''
CLAIMS = '''
    """What a handler of the older kind gets: the claims are in its arguments."""

    from typing import Any

    INPUT_SCHEMA = {
        "type": "object",
        "properties": {"memo": {"type": "string"}},
        "additionalProperties": False,
    }
    DESCRIPTION = "Show the claims of the caller."
    REQUIRES_JWT = True


    async def handler(args: dict[str, Any], context: Any) -> dict[str, Any]:
        """Once per call."""
        claims = args["__jwt"]
        shown = {name: claims[name] for name in ("sub", "address", "addr", "tokenId")}
        assert all(isinstance(each, str) for each in shown.values())
        return shown | {"memo": args.get("memo")}
    '''
MODES = {
    "rap-battle": {"tools": ["rhyme"], "description": "Words only."},
    "freestyle": {"tools": ["rhyme", "balance", "show-claims"]},
}


def manifest(requires_jwt: bool) -> str:
    jwt = {"algorithms": ["HS256"], "secret_env": "SEED_JWT_SECRET", "issuer": tokens.ISSUER}
    auth = {"requires_jwt": requires_jwt, "jwt": jwt | {"audience": tokens.AUDIENCE}}
    return json.dumps({"name": "wallet", "version": "1.0", "auth": auth, "modes": MODES})


@pytest.fixture(params=[fetch, plainly], ids=["curl", "plain"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """One HTTP request, by two programs."""
    asked: Ask = request.param
    return asked


class Wallet:
    """A served folder."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.folder = folder
        self.url = service.says("serving wallet at").rpartition(" ")[2]
        self.root = self.url.rpartition("/mcp/")[0]


Start: TypeAlias = Callable[[bool], Wallet]


@pytest.fixture(scope="module")
def begin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Serves a new wallet, with or without the flag that requires a token of every caller."""

    def serve_one(requires_jwt: bool) -> Wallet:
        files = {
            "mcp.json": manifest(requires_jwt),
            "tools/wallet.py": TOOLS,
            "tools/show_claims.py": CLAIMS,
        }
        folder = write(tmp_path_factory.mktemp("seed") / "wallet", files)
        patch.setenv("SEED_JWT_SECRET", tokens.SECRET)  # a folder that was used here took it
        return Wallet(serve(str(folder), "--port", "0"), folder)

    with pytest.MonkeyPatch.context() as patch, started_services() as serve:
        yield serve_one


@pytest.fixture(scope="module")
def start(begin: Start) -> Start:
    """Serves the wallet of each kind only once."""
    return cache(begin)


def call(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    """A request as the chat bridge sends it."""
    params = {"name": name, "arguments": arguments or {}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params} | more)


def bearer(text: str) -> dict[str, str]:
    return JSON | {"Authorization": f"Bearer {text}"}


def good(**changes: Any) -> str:
    return tokens.token("HS256", **changes)


@pytest.mark.process
async def test_missing_token_is_refused_in_the_promised_words(start: Start, ask: Ask) -> None:
    wallet = start(True)
    for body in (call("rhyme", {"word": "word"}), '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'):
        answer = await ask(wallet.url, body)
        assert (answer.status, answer.json) == (401, MISSING)
        assert answer.headers["content-type"].startswith("application/json")
        assert answer.headers["www-authenticate"].startswith("Bearer")


BAD: dict[str, Callable[[], str]] = {
    "nonsense": lambda: "nonsense",
    "expired": lambda: good(exp=1),
    "not yet valid": lambda: good(nbf=4_000_000_000),
    "wrong audience": lambda: good(aud="https://elsewhere.example"),
    "wrong issuer": lambda: good(iss="https://elsewhere.example"),
    "wrong algorithm": lambda: tokens.token("HS384"),
    "unsigned": tokens.unsigned,
    "forged": lambda: good()[:-6] + "abcdef",
}


@pytest.mark.process
async def test_token_that_does_not_count_is_refused_in_the_promised_words(start: Start, ask: Ask) -> None:
    wallet = start(True)
    for kind, made in BAD.items():
        answer = await ask(wallet.url, call("rhyme", {"word": "x"}), bearer(made()))
        assert (answer.status, answer.json) == (401, INVALID), kind
        assert answer.headers["www-authenticate"].startswith("Bearer"), kind


@pytest.mark.process
async def test_token_counts_wherever_it_is_sent_in_the_promised_order(start: Start, ask: Ask) -> None:
    wallet, body = start(True), {"word": "word"}
    local = {"Origin": wallet.root}
    places: list[tuple[str, dict[str, str]]] = [
        (call("rhyme", body), bearer(good())),
        (call("rhyme", body, jwt=good()), JSON),
        (call("rhyme", body, data={"jwt": good()}), JSON),
        (call("rhyme", body), JSON | local | {"Cookie": f"access_token={good()}"}),
        (call("rhyme", body), JSON | local | {"Cookie": f"jwt={good()}"}),
        (call("rhyme", body, jwt="nonsense"), bearer(good())),
        (call("rhyme", body, jwt=good(), data={"jwt": "nonsense"}), JSON),
        (call("rhyme", body, data={"jwt": good()}), JSON | local | {"Cookie": "access_token=nonsense"}),
    ]
    for sent, headers in places:
        answer = await ask(wallet.url, sent, headers)
        assert answer.status == 200, (sent, answer.text)
        result = answer.json["result"]
        assert result["content"] == [{"type": "text", "text": "word ... bird"}]
        assert result.get("isError", False) is False


@pytest.mark.process
async def test_body_that_is_no_json_is_a_parse_error(start: Start, ask: Ask) -> None:
    wallet = start(False)
    answer = await ask(wallet.url, "{ this is no JSON")
    assert answer.status == 400
    assert answer.json["error"]["code"] == -32700


@pytest.mark.process
async def test_malformed_request_reaches_no_tool(start: Start, ask: Ask) -> None:
    wallet = start(False)
    for body in (
        "[]",
        "5",
        '{"method": "tools/list", "id": 1}',
        '{"jsonrpc": "2.0", "id": {}, "method": "x"}',
    ):
        answer = await ask(wallet.url, body)
        assert (answer.status, answer.json["error"]["code"]) == (400, -32600), body


@pytest.mark.process
async def test_get_is_405_and_explains_itself(start: Start, ask: Ask) -> None:
    for requires_jwt, headers in ((False, {}), (True, {"Authorization": f"Bearer {good()}"})):
        answer = await ask(start(requires_jwt).url, None, headers)
        assert answer.status == 405
        assert "POST" in answer.headers["allow"]
        told = json.dumps(answer.json)
        assert "JSON-RPC" in told and "POST" in told


@pytest.mark.process
async def test_status_tells_whether_a_token_is_required(start: Start, ask: Ask) -> None:
    for requires_jwt in (False, True):
        wallet = start(requires_jwt)
        answer = await ask(f"{wallet.root}/status", None, {"Authorization": f"Bearer {good()}"})
        (server,) = answer.json["servers"]
        assert server["token_required"] is requires_jwt


@pytest.mark.process
async def test_guarded_tool_asks_for_a_token_although_the_flag_is_off(start: Start, ask: Ask) -> None:
    wallet = start(False)
    assert (await ask(wallet.url, call("rhyme", {"word": "a"}))).json["result"]["content"]
    refused = await ask(wallet.url, call("balance"))
    assert refused.status == 401
    assert refused.json["error"] == {"code": -32001, "message": "Unauthorized: missing JWT"}
    invalid = await ask(wallet.url, call("balance"), bearer("nonsense"))
    assert (invalid.status, invalid.json) == (401, INVALID)
    answer = await ask(wallet.url, call("balance"), bearer(good(address="0xabc")))
    assert answer.json["result"]["structuredContent"] == {"address": "0xabc", "sub": "ada", "amount": 42}


@pytest.mark.process
async def test_claims_are_injected_and_those_a_client_sends_are_dropped(start: Start, ask: Ask) -> None:
    wallet = start(False)
    forged = {"memo": "m", "__jwt": {"sub": "eve", "address": "0xbad"}}
    answer = await ask(
        wallet.url, call("show-claims", forged), bearer(good(sub=None, addr="0xabc", jti="t-9"))
    )
    shown = answer.json["result"]["structuredContent"]
    assert shown == {"sub": "0xabc", "address": "0xabc", "addr": "0xabc", "tokenId": "t-9", "memo": "m"}
    listed = await ask(wallet.url, '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')
    assert "__jwt" not in listed.text and "requires_jwt" not in listed.text


@pytest.mark.process
async def test_tool_is_registered_only_with_what_it_needs(
    start: Start, begin: Start, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    without = await ask(start(False).url, asked)
    assert "send-crypto" not in [tool["name"] for tool in without.json["result"]["tools"]]
    monkeypatch.setenv("SEED_PRIVATE_KEY", "k")
    with_it = await ask(begin(False).url, asked)
    assert "send-crypto" in [tool["name"] for tool in with_it.json["result"]["tools"]]


@pytest.mark.process
async def test_failures_of_tools_come_in_band(start: Start, ask: Ask) -> None:
    wallet = start(False)
    failed = (await ask(wallet.url, call("rhyme", {"word": "orange"}))).json["result"]
    assert failed["isError"] is True
    assert failed["content"] == [{"type": "text", "text": "Nothing rhymes with orange."}]
    crashed = (await ask(wallet.url, call("crash"))).json["result"]
    assert crashed["isError"] is True and "Traceback" not in json.dumps(crashed)
    wrong = (await ask(wallet.url, call("rhyme", {"wort": 1}))).json["result"]
    assert wrong["isError"] is True and "word" in wrong["content"][0]["text"]


@pytest.mark.process
async def test_schemas_of_a_mode_are_its_whitelist(start: Start) -> None:
    wallet = start(False)
    for target in (wallet.folder, wallet.url):
        for mode, names in (("rap-battle", {"rhyme"}), ("freestyle", {"rhyme", "balance", "show-claims"})):
            schemas = await tool_schemas(target, mode, "openai")
            assert {each["function"]["name"] for each in schemas} == names
            for each in schemas:
                jsonschema.Draft202012Validator.check_schema(each["function"]["parameters"])
                assert "jwt" not in json.dumps(each["function"]["parameters"])
    with pytest.raises(RpcError, match="balance"):
        await call_tool(wallet.url, "balance", {}, good(), mode="rap-battle")


@pytest.mark.process
async def test_bridge_forwards_the_token_and_formats_what_comes(start: Start) -> None:
    wallet = start(True)
    for target in (wallet.url, wallet.folder):
        assert format_result(await call_tool(target, "rhyme", {"word": "word"}, good())) == "word ... bird"
        failed = await call_tool(target, "rhyme", {"word": "orange"}, good())
        assert format_result(failed) == "Error: Nothing rhymes with orange."
        owned = await call_tool(target, "balance", {}, good(address="0x1"))
        assert json.loads(format_result(owned)) == {"address": "0x1", "sub": "ada", "amount": 42}


@pytest.mark.process
async def test_three_failures_are_three_exceptions(start: Start) -> None:
    wallet = start(True)
    with pytest.raises(HttpError, match="HTTP 401: Unauthorized: missing JWT") as refused:
        await call_tool(wallet.url, "rhyme", {"word": "a"})
    assert refused.value.status == 401 and refused.value.challenge.startswith("Bearer")
    with pytest.raises(HttpError, match="HTTP 401: Unauthorized: invalid JWT") as expired:
        await call_tool(wallet.url, "rhyme", {"word": "a"}, good(exp=1))
    assert good(exp=1)[-20:] not in str(expired.value)
    with pytest.raises(RpcError) as unknown:
        await call_tool(wallet.url, "nobody", {}, good())
    assert unknown.value.code == -32602
    async with scripted(lambda seen: http(200, "<html>welcome</html>", "text/html")) as page:
        with pytest.raises(InvalidAnswer, match="text/html") as strange:
            await call_tool(page.url, "rhyme", {})
    assert "welcome" in strange.value.excerpt
    kinds = [HttpError, InvalidAnswer, RpcError]
    assert not any(issubclass(one, other) for one in kinds for other in kinds if one is not other)


async def test_client_gives_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        with pytest.raises(TimeoutError):
            await call_tool(url, "rhyme", {}, timeout_s=0.3)


@pytest.mark.process
async def test_tools_of_a_client_are_functions_for_a_model(start: Start) -> None:
    wallet = start(True)
    async with Client(wallet.url, token=good(), mode="freestyle") as client:
        tools = await client_tools(client, "anthropic")
        assert {each["name"] for each in tools.schemas} == {"rhyme", "balance", "show-claims"}
        assert await tools["rhyme"](word="word") == "word ... bird"
        use = {"type": "tool_use", "id": "t1", "name": "rhyme", "input": {"word": "orange"}}
        (answer,) = await tools.answer({"role": "assistant", "content": [use]})
    assert answer["content"][0]["is_error"] is True


@pytest.fixture(scope="module")
def sample() -> Iterator[str]:
    """The URL of the sample wallet; its tokens are signed with `SECRET`."""
    with pytest.MonkeyPatch.context() as patch, started_services() as serve:
        patch.setenv("WALLET_SECRET", tokens.SECRET)
        service = serve(str(SAMPLES / "wallet"), "--port", "0")
        yield service.says("serving wallet at").rpartition(" ")[2]


def issued(*subject_and_scopes: str) -> str:
    """A token of the sample's own program."""
    command = [sys.executable, str(SAMPLES / "wallet" / "issue_token.py"), *subject_and_scopes]
    environ = {**os.environ, "WALLET_SECRET": tokens.SECRET}
    finished = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=120)
    return finished.stdout.strip()


@pytest.mark.process
async def test_sample_wallet_pays_for_whoever_may(sample: str) -> None:
    poor, rich = issued("ada"), issued("ada", "wallet:send")
    assert set((await tool_schemas(sample, "pay", "anthropic")).names) == {"balance", "send"}
    assert "send" not in (await tool_schemas(sample, "look")).names
    assert "mint" not in (await tool_schemas(sample)).names
    payment = {"to": "grace", "cents": 5}
    with pytest.raises(HttpError, match="HTTP 401: Unauthorized: missing JWT"):
        await call_tool(sample, "send", payment)
    with pytest.raises(HttpError, match="wallet:send") as lacking:
        await call_tool(sample, "send", payment, poor)
    assert lacking.value.status == 403 and 'scope="wallet:send"' in lacking.value.challenge
    assert format_result(await call_tool(sample, "send", payment, rich)).startswith(
        "ada sent 0.05 EUR to grace"
    )
    with pytest.raises(RpcError, match="send"):
        await call_tool(sample, "send", payment, rich, mode="look")
