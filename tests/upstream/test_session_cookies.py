"""Clients that are forwarded to a load balancer reach the node of their session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from mcpdesk.client.answers.connection_pool import MAX_COOKIE_CHARS, MAX_COOKIES
from mcpdesk.client.targets import UrlTarget
from mcpdesk.upstream.pass_through import UrlPassThrough, UrlRequests
from mcpdesk.upstream.session_cookies import MAX_SESSIONS, SessionCookies
from mcpdesk.upstream.target_transport import ClientPlace, Reach
from tests.support.patience import within
from tests.support.scripted import Seen, http, json, result, scripted

URL = "http://127.0.0.1:1/mcp"


def balanced(seen: Seen) -> bytes:
    """A load balancer with one node for each session."""
    if seen.method == "DELETE":
        return http(204)
    if seen.message["method"] == "initialize":
        number = seen.message["id"]
        node = f"NODE=n{number}; Path=/; HttpOnly"
        return json(result(seen, {}), Set_Cookie=node, Mcp_Session_Id=f"s{number}")
    session = seen.headers.get("mcp-session-id", "")
    is_right = seen.headers.get("cookie") == f"NODE={session.replace('s', 'n')}"
    return json(result(seen, {"content": []})) if is_right else json({"error": "unknown session"}, 404)


async def answer(way: UrlPassThrough, method: str, message: Any, headers: Mapping[str, str]) -> int:
    """The status of a forwarded request."""
    body = orjson.dumps(message) if message else b""
    async with within(), way.ask(method, {"Content-Type": "application/json", **headers}, body) as passed:
        async for _ in passed.chunks():
            pass
        return passed.status


async def test_each_session_has_its_own_cookies(tmp_path: Path) -> None:
    async with scripted(balanced) as server:
        requests = UrlRequests(
            UrlTarget(server.url), Reach(), ClientPlace(tmp_path, "X-API-Key"), has_login=False
        )
        way = UrlPassThrough("x", requests, lambda: 1, dict)
        for number in (1, 2):
            start: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "initialize", "params": {}}
            assert await answer(way, "POST", start, {}) == 200
        call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "t"}}
        for session in ("s1", "s2", "s1"):
            assert await answer(way, "POST", call, {"Mcp-Session-Id": session}) == 200
        assert await answer(way, "POST", call, {"Mcp-Session-Id": "s3"}) == 404
        await answer(way, "DELETE", None, {"Mcp-Session-Id": "s1"})
        assert await answer(way, "POST", call, {"Mcp-Session-Id": "s1"}) == 404
        await way.close()


async def test_cookies_of_refused_sessions_are_not_stored(tmp_path: Path) -> None:
    cookie = "a=b"
    async with scripted(lambda seen: json({"error": "unknown session"}, 404, Set_Cookie=cookie)) as server:
        requests = UrlRequests(
            UrlTarget(server.url), Reach(), ClientPlace(tmp_path, "X-API-Key"), has_login=False
        )
        way = UrlPassThrough("x", requests, lambda: 1, dict)
        for _ in range(2):
            await answer(way, "POST", {"id": 1, "method": "ping"}, {"Mcp-Session-Id": "invented"})
        await way.close()
    assert ["cookie" in each.headers for each in server.seen] == [False, False]


async def test_cookies_that_no_request_can_contain_are_ignored() -> None:
    cookies = SessionCookies(URL)
    cookies.store("s", ["a=x\x01y", "b=\udcff", "c=fine"])
    assert cookies.header("s") == {"Cookie": "c=fine"}


async def test_cookies_are_deleted_and_sent_as_they_came() -> None:
    cookies = SessionCookies(URL)
    cookies.store("s", ['GCLB="CKz=/x"; Path=/', "a=1; Path=/", "b=2; Path=/", "c=3; Secure"])
    cookies.store("s", ["a=; Max-Age=0; Path=/"])
    assert cookies.header("s") == {"Cookie": 'GCLB="CKz=/x"; b=2'}
    cookies.store("s", [f"{name}=; Max-Age=0; Path=/" for name in ("GCLB", "b")])
    assert cookies.header("s") == {}


async def test_cookies_have_limits() -> None:
    cookies = SessionCookies(URL)
    cookies.store(
        "s", ["long=" + "x" * MAX_COOKIE_CHARS, "no value", *(f"c{n}=x" for n in range(MAX_COOKIES + 5))]
    )
    assert cookies.header("s")["Cookie"].count(";") == MAX_COOKIES - 1
    for number in range(MAX_SESSIONS):
        cookies.store(f"t{number}", ["a=b"])
    assert cookies.header("s") == {}
    assert cookies.header("t0") == {"Cookie": "a=b"}
