"""Cookies of load balancers: they are sent back to the server that set them, within limits."""

from __future__ import annotations

from http.cookies import SimpleCookie

from yarl import URL

from mcpdesk.client.answers.connection_pool import MAX_COOKIE_CHARS, MAX_COOKIES, ServerCookies
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import HttpRequests, StreamableHttp
from mcpdesk.client.transport import ClientTransport
from mcpdesk.protocol.revisions import V2025_06_18
from tests.support.patience import within
from tests.support.scripted import Seen, http, json, result, scripted

ABOUT = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
STICKY = "AWSALB=node+1/x==; Expires=Tue, 12 Mar 2047 02:53:18 GMT; Path=/"
PAGE = URL("http://127.0.0.1:1/mcp")


def balanced(seen: Seen) -> bytes:
    """A load balancer that finds a session only by its cookie."""
    if not seen.body:
        return http(405)
    if seen.message.get("method") == "initialize":
        return json(result(seen, ABOUT), Set_Cookie=STICKY, Mcp_Session_Id="s1")
    if "AWSALB=node+1/x==" not in seen.headers.get("cookie", ""):
        return json({"error": "no such session"}, 400)
    return json(result(seen, {"content": []})) if "id" in seen.message else http(202)


async def call(transport: ClientTransport) -> object:
    """The result of a call over the transport."""
    connection = ServerConnection(transport, {"name": "t", "version": "1"}, revision=V2025_06_18)
    try:
        async with within():
            return await connection.result("tools/call", {"name": "t", "arguments": {}})
    finally:
        await connection.close()


async def test_requests_of_a_session_reach_the_same_node() -> None:
    async with scripted(balanced) as server:
        assert await call(StreamableHttp(server.url, {})) == {"content": []}


async def test_another_connection_has_no_cookies_of_the_first() -> None:
    async with scripted(balanced) as server:
        await call(StreamableHttp(server.url, {}))
        first = len(server.seen)
        await call(StreamableHttp(server.url, {}))
    assert "cookie" not in server.seen[first].headers


async def test_requests_for_several_people_keep_no_cookies() -> None:
    async with scripted(balanced) as server:
        requests = HttpRequests(server.url, {})
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        for _ in range(2):
            async with within():
                await requests.post(message, {})
        await requests.close()
    assert ["cookie" in each.headers for each in server.seen] == [False, False]


async def test_quotes_are_part_of_a_value() -> None:
    cookies = ServerCookies()
    cookies.update_cookies_from_headers(['GCLB="CKz=/x"; Path=/'], PAGE)
    assert cookies.filter_cookies(PAGE)["GCLB"].coded_value == '"CKz=/x"'


async def test_cookies_have_limits() -> None:
    cookies = ServerCookies()
    cookies.update_cookies({"long": "x" * MAX_COOKIE_CHARS}, PAGE)
    assert len(cookies) == 0
    cookies.update_cookies({f"c{number}": "x" for number in range(MAX_COOKIES + 5)}, PAGE)
    assert len(cookies) == MAX_COOKIES
    cookies.update_cookies({"c0": "new", "other": "x"}, PAGE)
    sent = cookies.filter_cookies(PAGE)
    assert sent["c0"].value == "new"
    assert "other" not in sent


async def test_cookies_of_an_answer_have_the_same_limits() -> None:
    cookies = ServerCookies()
    long = f"long={'x' * MAX_COOKIE_CHARS}"
    cookies.update_cookies_from_headers([long, *(f"c{n}=x; Path=/" for n in range(MAX_COOKIES + 5))], PAGE)
    assert len(cookies) == MAX_COOKIES and "long" not in cookies.filter_cookies(PAGE)


async def test_paths_and_unsendable_values_are_no_way_around_the_limits() -> None:
    cookies = ServerCookies()
    for number in range(3 * MAX_COOKIES):
        cookies.update_cookies(SimpleCookie(f"a=x; Path=/p{number}/"), PAGE)
        assert len(cookies) <= MAX_COOKIES
    cookies.clear()
    cookies.update_cookies({"a": "x\x01y", "b": "\udcff", "c": "x"}, PAGE)
    assert [each.key for each in cookies] == ["c"]
