"""One POST and its answer: status and headers, streams, and all errors of both."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.client.http_transports import HttpRequests, checked_url
from mcpdesk.client.transport import Incoming, ServerReply
from mcpdesk.errors import CallError, DeskUserError, HttpError, InvalidAnswer, RpcError
from tests.support.patience import within
from tests.support.scripted import Scripted, Seen, event, http, json, result, scripted, stream

PING = {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {}}


async def ask(server: Scripted, asked: Any = None, **more: Any) -> ServerReply:
    requests = HttpRequests(server.url, more.pop("headers", {}), **more)
    try:
        async with within():
            return await requests.post(PING, {}, asked)
    finally:
        await requests.close()


async def outcome(answer: bytes, **more: Any) -> Any:
    async with scripted(lambda seen: answer) as server:
        return (await ask(server, **more)).response(7).value()


async def test_json_answer_is_read() -> None:
    async with scripted(lambda seen: json(result(seen, {"a": 1}), X_Note="n")) as server:
        reply = await ask(server, headers={"X-Own": "1"})
    assert reply.response(7).value() == {"a": 1}
    assert reply.headers["x-note"] == "n"
    (seen,) = server.seen
    assert seen.headers["accept"] == "application/json, text/event-stream"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-own"] == "1"


async def test_nothing_is_asked_once_it_is_closed() -> None:
    async with scripted(lambda seen: json(result(seen, {}))) as server:
        requests = HttpRequests(server.url, {})
        await requests.post(PING, {})
        await requests.close()
        with pytest.raises(CallError, match="closed while the call was running"):
            await requests.post(PING, {})
    assert len(server.seen) == 1


async def test_answer_among_events_is_found_and_the_rest_handed_on() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
    came: list[Incoming] = []

    def answer(seen: Seen) -> bytes:
        other = result(seen, {}) | {"id": 8}
        return stream(": hello", "", event(note), event(other), event(result(seen, {"b": 2})), event(note))

    async with scripted(answer) as server:
        reply = await ask(server, came.append)
    assert reply.response(7).value() == {"b": 2}
    assert [each.message for each in came] == [note, {"jsonrpc": "2.0", "id": 8, "result": {}}]


async def test_stream_the_server_let_go_of_is_taken_up_after_its_delay() -> None:
    def answer(seen: Seen) -> bytes:
        if seen.method == "POST":
            return stream("retry: 1", "id: a:1", "data:", "", "")
        return stream("id: a:2", event({"jsonrpc": "2.0", "id": 7, "result": {"late": True}}))

    async with scripted(answer) as server:
        reply = await ask(server)
    assert reply.response(7).value() == {"late": True}
    assert server.seen[1].method == "GET"
    assert server.seen[1].headers["last-event-id"] == "a:1"


async def test_stream_that_brings_nothing_new_is_taken_up_once() -> None:
    async with scripted(lambda seen: stream("retry: 1", "id: a:1", "data:", "", "")) as server:
        with pytest.raises(InvalidAnswer, match="stream that ended without the answer"):
            (await ask(server)).response(7).value()
    assert [seen.method for seen in server.seen] == ["POST", "GET"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (http(200, "<h1>Hello</h1>", "text/html"), "no JSON-RPC answer, but text/html"),
        (http(200, "{", "application/json"), "not JSON"),
        (http(200, '{"jsonrpc": "2.0", "method": "x"}'), "no JSON-RPC answer"),
        (http(202), "empty answer"),
        (json([]), "no JSON-RPC answer"),
        (json({"jsonrpc": "2.0", "id": 8, "result": {}}), "to request 8, not to 7"),
        (stream("data: {", "", ""), "an event is not JSON"),
        (http(200, b"x" * 70_000, "application/json"), "more than 5000 bytes"),
        (stream("data: " + "x" * 6_000, "", ""), "more than 5000 bytes"),
    ],
)
async def test_what_is_no_answer_is_an_invalid_one(answer: bytes, reason: str) -> None:
    with pytest.raises(InvalidAnswer, match=reason):
        await outcome(answer, max_bytes=5_000)


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (json({"error": "Unauthorized: missing JWT"}, 401), 401, "HTTP 401: Unauthorized: missing JWT"),
        (json({"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "no"}}, 403), 403, "HTTP 403: no"),
        (http(404, "not here", "text/plain"), 404, "HTTP 404: not here"),
        (http(500), 500, "HTTP 500"),
        (json({"jsonrpc": "2.0", "id": 7, "result": {}}, 500), 500, "HTTP 500"),
        (http(502, "{", "application/json"), 502, "HTTP 502: {"),
    ],
)
async def test_status_that_tells_all_is_an_http_error(answer: bytes, status: int, told: str) -> None:
    with pytest.raises(HttpError) as caught:
        await outcome(answer)
    assert caught.value.status == status
    assert str(caught.value).startswith(told)


async def test_refusal_says_what_a_token_needs() -> None:
    with pytest.raises(HttpError) as caught:
        await outcome(json({}, 401, WWW_Authenticate='Bearer error="invalid_token"'))
    assert caught.value.challenge == 'Bearer error="invalid_token"'


async def test_error_of_the_server_counts_whatever_the_status() -> None:
    message = {"jsonrpc": "2.0", "id": 7, "error": {"code": -32602, "message": "bad", "data": [1]}}
    with pytest.raises(RpcError) as caught:
        await outcome(json(message, 400))
    assert (caught.value.code, caught.value.data) == (-32602, [1])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_told_and_not_followed(status: int) -> None:
    async with scripted(lambda seen: http(200)) as elsewhere:
        answer = http(status, Location=f"{elsewhere.url}?token=s3cret")
        with pytest.raises(HttpError, match="redirects are not followed") as caught:
            await outcome(answer, headers={"Authorization": "Bearer s3cret"})
        assert elsewhere.seen == []
    assert caught.value.status == status
    assert elsewhere.url in str(caught.value) and "s3cret" not in str(caught.value)


async def test_nobody_there_is_an_http_error_without_a_status() -> None:
    async with scripted(lambda seen: None) as server:
        pass
    with pytest.raises(HttpError, match="cannot be reached") as caught:
        await ask(server)
    assert caught.value.status == 0


@pytest.mark.parametrize(
    "answer",
    [
        http(200, "{").replace(b"Length: 1", b"Length: 99").replace(b" Said", b" OK\r\nConnection: close"),
        b"",
    ],
)
async def test_broken_connection_is_an_http_error(answer: bytes) -> None:
    with pytest.raises(HttpError, match="broke before the answer was complete"):
        await outcome(answer)


async def test_cookies_are_not_kept() -> None:
    async with scripted(lambda seen: json(result(seen, {}), Set_Cookie="a=b")) as server:
        requests = HttpRequests(server.url, {})
        for _ in range(2):
            await requests.post(PING, {})
        await requests.close()
    assert all("cookie" not in seen.headers for seen in server.seen)


async def test_mode_is_part_of_the_url_and_secrets_of_it_are_not_shown() -> None:
    requests = HttpRequests("http://localhost:1/mcp/x?key=s3cret&mode=old&empty=", {}, "re view")
    assert requests.url == "http://localhost:1/mcp/x?key=s3cret&empty=&mode=re+view"
    assert requests.target == "http://localhost:1/mcp/x"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x/y",
        "http://",
        "x",
        "http://a:b@c/",
        "http://a b/",
        "http://a:99999/",
        "http://[::1",
        "http://a/\n",
    ],
)
def test_url_that_cannot_be_called_is_told(url: str) -> None:
    with pytest.raises(DeskUserError) as caught:
        checked_url(url)
    assert caught.value.hint
