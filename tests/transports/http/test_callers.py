"""Tokens in messages: found, taken out, and not recorded. What a request with one is answered: tests/auth."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import orjson
import pytest
from msgspec.structs import replace

from mcpdesk.auth.access import OPEN_ACCESS
from mcpdesk.auth.keys import KeySet, KeySource, RefreshPace
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.protocol.task_shapes import EXTENSION
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.callers import masked_data
from mcpdesk.transports.http.connections import MAX_IDLE_DIALOGUES
from tests.support.callers import call, checking, good_headers, guarding, modern, public_keys, routing
from tests.support.features import having, needs_feature
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S
from tests.support.site import Served
from tests.support.tokens import token

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_what_looks_like_a_token_is_not_kept_of_what_is_no_message() -> None:
    text = token("HS256").encode()
    assert masked_data(b'{"jwt": "' + text + b'", ') == b'{"jwt": "***", '
    assert masked_data(b'{"jwt": "' + text.rpartition(b".")[0]) == b'{"jwt": "***'
    assert masked_data(b"\xff eyes.only") == b"\xff eyes.only"


def test_what_only_begins_like_tokens_is_read_over_once() -> None:
    began = time.process_time()
    for text in (b"eyJ" * 100_000, b"eyJ-" * 100_000):
        assert masked_data(text) == text
    assert b"eyJ" not in masked_data(b"eyJa." * 300_000)
    assert time.process_time() - began < WITHIN_S


ADA = good_headers()


def of(subject: str = "ada", **changes: Any) -> dict[str, str]:
    """The header of a token that counts."""
    return {
        "Authorization": f"Bearer {token('RS256', header={'kid': 'RS256-first'}, sub=subject, **changes)}"
    }


async def told(answer: aiohttp.ClientResponse) -> Any:
    """The JSON of an answer, in a stream or not."""
    text = await answer.text()
    return orjson.loads(text.partition("data: ")[2] or text)


# A token that only some tools ask for


@pytest.mark.requirement("11.1")
async def test_a_tool_asks_for_a_token_where_nobody_else_does() -> None:
    async with guarding(checking(requires_token=False)) as served:
        for message, headers in ((call("guarded"), {}), (modern("guarded"), routing("guarded"))):
            refused = await served.post(message, **headers)
            assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="mcpdesk"')
            assert (await refused.json())["error"] == {"code": -32001, "message": "Unauthorized: missing JWT"}
            served_ = await served.post(message, **headers, **ADA)
            assert (await told(served_))["result"]["content"][0]["text"] == "ada"
        assert (await told(await served.post(call("whoami"))))["result"]["structuredContent"]["sub"] == ""


async def test_a_token_is_checked_even_where_none_is_asked_for_but_a_cookie_is_not() -> None:
    async with guarding(checking(requires_token=False)) as served:
        wrong = await served.post(call(), Authorization="Bearer wrong")
        assert (wrong.status, await wrong.json()) == (401, {"error": "Unauthorized: invalid JWT"})
        cookie = await served.post(call(), Cookie="jwt=wrong", Origin=served.url)
        assert (await told(cookie))["result"]["structuredContent"]["sub"] == ""


async def test_tokens_are_not_looked_at_where_nothing_is_said_of_them() -> None:
    async with guarding(checking(requires_token=False, verifier=None)) as served:
        answer = await served.post(call() | {"jwt": "anything"}, Authorization="Bearer anything")
        assert (await told(answer))["result"]["structuredContent"]["sub"] == ""
        assert b"anything" not in b"".join(data for _, data in served.recorder.seen)
        assert (await served.post(call("guarded"))).status == 401


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_tools_own_check_ends_no_session_of_a_client_that_cannot_get_another_token(
    revision: str,
) -> None:
    async with guarding(checking(requires_token=False)) as served:
        headers = await session(served, {}, revision)
        missing = await served.post(call("guarded"), **headers)
        assert missing.status == 200 and "WWW-Authenticate" not in missing.headers
        assert (await told(missing))["error"] == {"code": -32001, "message": "Unauthorized: missing JWT"}
        headers = await session(served, ADA, revision)
        lacking = await served.post(call("scoped"), **headers, **of(scope="other"))
        assert (lacking.status, (await told(lacking))["error"]["code"]) == (200, -32003)
        assert (await served.post(call(), **headers, **ADA)).status == 200


async def test_a_tools_own_check_starts_the_sign_in_of_a_client_that_can_get_another_token() -> None:
    servers = ("https://issuer.example",)
    async with guarding(checking(requires_token=False, authorization_servers=servers)) as served:
        headers = await session(served, ADA)
        refused = await served.post(call("scoped"), **headers, **of(scope="other"))
        assert refused.status == 403 and "resource_metadata" in refused.headers["WWW-Authenticate"]
        assert (await told(refused))["error"]["code"] == -32003


# Scopes


@pytest.mark.requirement("11.1")
async def test_a_token_without_the_scope_of_the_server_is_forbidden_and_told_which() -> None:
    servers = ("https://issuer.example",)
    access = checking(scopes=frozenset({"wallet:read"}), authorization_servers=servers)
    async with guarding(access) as served:
        where = f'resource_metadata="{served.url}/.well-known/oauth-protected-resource/mcp/sample"'
        missing = await served.post(call())
        assert missing.headers["WWW-Authenticate"] == f'Bearer scope="wallet:read", {where}'
        narrow = await served.post(call(), **of(scope="other"))
        reason = "Forbidden: the token lacks the scope wallet:read"
        assert (narrow.status, await narrow.json()) == (403, {"error": reason})
        said = f'error="insufficient_scope", error_description="{reason}", scope="wallet:read", {where}'
        assert narrow.headers["WWW-Authenticate"] == f"Bearer {said}"
        assert (await served.post(call(), **of(scope="other wallet:read"))).status == 200


@pytest.mark.requirement("11.1")
async def test_a_tool_names_all_the_scopes_it_needs_in_one_challenge() -> None:
    async with guarding(checking(scopes=frozenset({"wallet:read"}))) as served:
        for message, headers in ((call("scoped"), {}), (modern("scoped"), routing("scoped"))):
            refused = await served.post(message, **headers, **of(scope="wallet:read"))
            assert refused.status == 403
            said = refused.headers["WWW-Authenticate"]
            assert 'error="insufficient_scope"' in said and 'scope="wallet:read wallet:send"' in said
            error = (await refused.json())["error"]
            assert (error["code"], error["data"]) == (-32003, {"scope": "wallet:send"})
            passed = await served.post(message, **headers, **of(scope="wallet:read wallet:send"))
            assert (await told(passed))["result"]["content"][0]["text"] == "ada"


# Unknown places


@pytest.mark.requirement("11.12")
@pytest.mark.parametrize("path", ["/mcp/sample", *having("gateway", "/v1/mcp"), "/mcp/sample/ws", "/jobs/x"])
async def test_a_token_in_the_address_is_a_broken_request(path: str) -> None:
    async with guarding(checking()) as served:
        text = ADA["Authorization"].partition(" ")[2]
        for headers in ({}, ADA):
            answer = await served.client.get(f"{served.url}{path}?access_token={text}", headers=headers)
            assert answer.status == 400
            assert 'error="invalid_request"' in answer.headers["WWW-Authenticate"]
            assert text not in await answer.text()


@pytest.mark.requirement("11.12")
async def test_every_request_of_a_session_brings_its_token() -> None:
    async with guarding(checking()) as served:
        headers = await session(served, ADA)
        assert (await served.post(call(), **headers)).status == 401
        assert (await served.post(call(), **headers, **ADA)).status == 200


async def test_a_batch_brings_its_token_in_a_message_and_none_of_it_is_recorded() -> None:
    async with guarding(checking()) as served:
        headers = await session(served, ADA, "2025-03-26")
        text = ADA["Authorization"].partition(" ")[2]
        first, second = call(), call() | {"id": 2}
        for batch in ([first | {"jwt": text}, second], [first, second | {"data": {"jwt": text}}]):
            answers = orjson.loads(await (await served.post(batch, **headers)).read())
            assert ['"sub":"ada"' in each["result"]["content"][0]["text"] for each in answers] == [True, True]
        outside = await served.post([call() | {"jwt": text}])
        assert [each["id"] for each in await outside.json()] == [1]
        assert (await served.post([first, second], **headers)).status == 401
        assert text.encode() not in b"".join(data for _, data in served.recorder.seen)


@pytest.mark.parametrize("known", [{}, ADA], ids=["nobody", "ada"])
async def test_claims_of_a_clients_own_are_dropped_before_anything_looks_at_them(
    known: dict[str, str],
) -> None:
    own = {"__jwt": {"sub": "eve"}, "x": 1}
    async with guarding(checking(requires_token=False)) as served:
        in_session = await session(served, known)
        for message, headers in (
            (call("whoami", **own), {}),
            (modern("whoami", **own), routing()),
            (call("whoami", **own), in_session),
        ):
            answer = await told(await served.post(message, **headers, **known))
            found = answer["result"]["structuredContent"]
            assert (found["sub"], found["own"]) == ("ada" if known else "", ["x"])


# Keys that change, and that cannot be had


class Keys:
    """A place with keys."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: KeySet | Exception = public_keys("first")
        self.source = KeySource(self.load, RefreshPace(fresh_s=600, pause_s=0))

    async def load(self) -> KeySet:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_a_rotated_key_is_looked_for_once_and_the_old_one_counts_no_more() -> None:
    keys = Keys()
    async with guarding(checking(source=keys.source)) as served:
        second = {"Authorization": f"Bearer {token('RS256', 'second', header={'kid': 'RS256-second'})}"}
        assert (await served.post(call(), **ADA)).status == 200
        assert (await served.post(call(), **second)).status == 401 and keys.asked == 2
        keys.answer = public_keys("second")
        assert (await served.post(call(), **second)).status == 200 and keys.asked == 3
        assert (await served.post(call(), **ADA)).status == 401


async def test_tokens_that_cannot_be_checked_now_may_be_sent_again_later() -> None:
    keys = Keys()
    keys.answer = OSError("unreachable")
    async with guarding(checking(source=keys.source)) as served:
        answer = await served.post(call(), **ADA)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "30")
        assert await answer.json() == {"error": "Tokens cannot be checked now"}
        keys.answer = public_keys("first")
        assert (await served.post(call(), **ADA)).status == 200


async def test_looking_for_keys_holds_nobody_else_up() -> None:
    waits, keys = asyncio.Event(), Keys()

    async def load() -> KeySet:
        await waits.wait()
        return public_keys("first")

    keys.source = KeySource(load, RefreshPace(fresh_s=600, pause_s=0))
    async with guarding(checking(source=keys.source, requires_token=False)) as served:
        waiting = asyncio.create_task(served.post(call(), **ADA))
        assert (await served.post(call())).status == 200
        waits.set()
        assert (await waiting).status == 200


# Whose is what


async def session(served: Served, headers: dict[str, str], revision: str = "2025-11-25") -> dict[str, str]:
    """A session opened with these headers; returns those that name it."""
    params = {
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = await served.post(message, **headers)
    assert answer.status == 200
    return {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}


@pytest.mark.requirement("12.3")
async def test_a_session_is_used_by_whoever_opened_it_alone() -> None:
    async with guarding(checking(requires_token=False)) as served:
        headers = await session(served, ADA)
        for stranger in (of("bob"), {}):
            assert (await served.post(call(), **headers, **stranger)).status == 404
            for method in ("GET", "DELETE"):
                asked = {"Accept": "text/event-stream", **headers, **stranger}
                answer = await served.client.request(method, f"{served.url}/mcp/sample", headers=asked)
                assert answer.status == 404
        assert (await served.post(call(), **headers, **of("ada", jti="renewed"))).status == 200


async def test_a_session_without_an_owner_belongs_to_the_first_token_that_uses_it() -> None:
    async with guarding(checking(requires_token=False)) as served:
        headers = await session(served, {})
        assert (await served.post(call(), **headers)).status == 200
        assert (await served.post(call("guarded"), **headers, **ADA)).status == 200
        assert (await served.post(call(), **headers)).status == 404
        assert (await served.post(call(), **headers, **of("bob"))).status == 404
        names = [each.principal for each in served.recorder.connections.values()]
        assert names == ["ada"]


async def test_callers_who_share_a_connection_share_nothing_else() -> None:
    async with guarding(checking()) as served:
        found = set()
        for number in range(MAX_IDLE_DIALOGUES + 10):
            answer = await told(await served.post(call(), **of(f"user {number}")))
            found.add(answer["result"]["structuredContent"]["caller"])
        assert len(found) == MAX_IDLE_DIALOGUES + 10
        assert len(served.hosted.dialogues) <= MAX_IDLE_DIALOGUES


async def test_the_key_and_the_token_are_asked_for_side_by_side() -> None:
    async with guarding(checking(), Rules(api_key="the key of the desk")) as served:
        assert "key in the header" in (await told(await served.post(call(), **ADA)))["error"]
        key = {"X-API-Key": "the key of the desk"}
        assert (await told(await served.post(call(), **key)))["error"] == "Unauthorized: missing JWT"
        assert (await served.post(call(), **key, **ADA)).status == 200
        kept = repr(served.recorder.notes)
        assert "the key of the desk" not in kept and ADA["Authorization"] not in kept
        assert "'Authorization', 'Bearer ••••'" in kept


async def test_a_key_header_of_another_name_is_not_recorded_either() -> None:
    rules = Rules(api_key="the key of the desk", api_key_header="X-Team")
    async with guarding(checking(requires_token=False), rules) as served:
        headers = await session(served, {"X-Team": "the key of the desk"})
        for _ in range(3):
            answer = await served.post(call(), **headers, **{"X-Team": "the key of the desk"})
            assert answer.status == 200
        assert "the key of the desk" not in repr(served.recorder.notes)
        assert {each.principal for each in served.recorder.connections.values()} == {"key"}


async def _asking(arguments: dict[str, Any], context: Any) -> Any:
    answer = await context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return answer.content["name"]


async def _lasting(arguments: dict[str, Any], context: Any) -> Any:
    await asyncio.Event().wait()


def add(served: Served, tool: Tool) -> None:
    tools = served.peer.server.tools
    tools.replace([*tools, tool])


def asked(method: str, params: dict[str, Any], *capabilities: str) -> dict[str, Any]:
    """A request of a client of the stateless era that has these capabilities."""
    known: dict[str, Any] = {name: {} for name in capabilities if name != EXTENSION}
    known |= {"extensions": {EXTENSION: {}}} if EXTENSION in capabilities else {}
    meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"}) | {CAPABILITIES_KEY: known}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}


@pytest.mark.requirement("12.6")
async def test_the_state_of_a_question_is_of_use_to_whoever_was_asked_alone() -> None:
    async with guarding(checking()) as served:
        add(served, Tool("asking", _asking, {"type": "object"}))
        params = {"name": "asking", "arguments": {}}
        first = asked("tools/call", params, "elicitation")
        answer = (await told(await served.post(first, **routing("asking"), **ADA)))["result"]
        assert answer["resultType"] == "input_required"
        (key,) = answer["inputRequests"]
        given = {key: {"action": "accept", "content": {"name": "Grace"}}}
        more = {"requestState": answer["requestState"], "inputResponses": given}
        second = asked("tools/call", params | more, "elicitation")
        stranger = await told(await served.post(second, **routing("asking"), **of("bob")))
        assert stranger["error"]["code"] == -32602
        known = await told(await served.post(second, **routing("asking"), **of("ada", jti="renewed")))
        assert known["result"]["content"][0]["text"] == "Grace"


async def test_a_task_is_seen_by_whoever_began_it_whatever_connection_it_comes_by() -> None:
    async with guarding(checking()) as served:
        add(served, Tool("lasting", _lasting, {"type": "object"}, task="required"))
        begin = asked("tools/call", {"name": "lasting", "arguments": {}}, EXTENSION)
        task = (await told(await served.post(begin, **routing("lasting"), **ADA)))["result"]["taskId"]
        look = asked("tasks/get", {"taskId": task}, EXTENSION)
        headers = {"MCP-Protocol-Version": V2026_07_28.name, "Mcp-Method": "tasks/get", "Mcp-Name": task}
        for known, is_seen in ((ADA, True), (of("ada", jti="renewed"), True), (of("bob"), False)):
            async with http_client() as other:
                answer = await other.post(f"{served.url}/mcp/sample", json=look, headers={**headers, **known})
                assert ("result" in await told(answer)) is is_seen


@needs_feature("gateway")
async def test_a_job_of_the_dialect_is_seen_by_whoever_began_it() -> None:
    async with guarding(checking()) as served:
        begin = call("forever") | {"params": {"name": "forever", "arguments": {}, "mode": "async"}}
        answer = await served.client.post(f"{served.url}/v1/mcp", json=begin, headers=ADA)
        job = (await told(answer))["result"]["job_id"]
        for known, status in ((of("bob"), 404), ({}, 401), (ADA, 200)):
            assert (await served.client.get(f"{served.url}/jobs/{job}", headers=known)).status == status
        for known, status in ((of("bob"), 404), (ADA, 200)):
            assert (await served.client.delete(f"{served.url}/jobs/{job}", headers=known)).status == status


@pytest.mark.requirement("11.2")
async def test_hosted_code_is_told_the_claims_and_not_the_token() -> None:
    seen: list[Any] = []

    async def look(arguments: dict[str, Any], context: Any) -> str:
        seen.append((dict(context.request.headers), context.request.claims))
        return "seen"

    more = {"Cookie": "jwt=x", "X-Request-Id": "r-1"}
    for access, is_told in ((checking(), False), (OPEN_ACCESS, True)):
        async with guarding(access) as served:
            add(served, Tool("look", look, {"type": "object"}))
            assert (await served.post(call("look"), **ADA, **more)).status == 200
            headers, claims = seen.pop()
            assert headers["x-request-id"] == "r-1"
            assert ("authorization" in headers, "cookie" in headers, claims is None) == (is_told,) * 3


# Sockets


async def ask(socket: Any, **more: Any) -> Any:
    await socket.send_str(orjson.dumps(modern() | more).decode())
    answer = orjson.loads(await socket.receive_str(timeout=WITHIN_S))
    return answer.get("result", {}).get("structuredContent") or answer["error"]


async def test_nothing_is_answered_on_a_socket_whose_token_has_expired() -> None:
    async with (
        guarding(checking()) as served,
        served.client.ws_connect(f"{served.url}/mcp/sample/ws", headers=ADA) as socket,
    ):
        assert (await ask(socket))["sub"] == "ada"
        (dialogue,) = served.hosted.dialogues.values()
        known = dialogue.conversation.principal
        dialogue.conversation.principal = replace(known, expires=time.time() - 1)
        for method in ("tools/call", "tools/list"):
            assert await ask(socket, method=method) == {
                "code": -32001,
                "message": "Unauthorized: invalid JWT",
            }


async def test_a_message_on_a_socket_may_bring_its_own_token() -> None:
    async with guarding(checking(requires_token=False)) as served:
        async with served.client.ws_connect(f"{served.url}/mcp/sample/ws") as socket:
            text = ADA["Authorization"].partition(" ")[2]
            assert (await ask(socket))["sub"] == ""
            assert (await ask(socket, jwt=text))["sub"] == "ada"
            assert (await ask(socket, data={"jwt": text}))["sub"] == "ada"
            assert await ask(socket, jwt="wrong") == {"code": -32001, "message": "Unauthorized: invalid JWT"}
            assert (await ask(socket))["sub"] == ""
        assert text.encode() not in b"".join(data for _, data in served.recorder.seen)


async def test_a_guarded_tool_on_a_socket_is_refused_as_a_message() -> None:
    async with (
        guarding(checking(requires_token=False)) as served,
        served.client.ws_connect(f"{served.url}/mcp/sample/ws") as socket,
    ):
        error = await ask(socket, **modern("guarded"))
        assert error == {"code": -32001, "message": "Unauthorized: missing JWT"}
