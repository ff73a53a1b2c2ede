"""Pages of listed origins can read answers in their browser; other pages cannot."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

import pytest
from aiohttp.test_utils import make_mocked_request

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import request_guard
from mcpdesk.transports.http.request_guard import RefusalLog
from mcpdesk.transports.http.request_head import HEAD, RequestHead
from mcpdesk.transports.http.responses import plain_error
from tests.support.callers import call, checking, guarding
from tests.support.features import having
from tests.support.patience import until, within
from tests.support.site import Served, serving
from tests.support.tokens import token

APP = "https://app.example"
LISTED = Rules(allowed_origins=(APP, "http://localhost:5173"))
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "x"}},
}


def permission(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-")}


async def asked_first(
    served: Served, origin: str, path: str = "/mcp/sample", **more: str
) -> tuple[int, dict[str, str]]:
    """Response to a browser's preflight request before it POSTs."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"} | more
    async with served.client.options(served.url + path, headers=headers) as answer:
        return answer.status, permission(answer.headers)


@pytest.mark.parametrize("origin", LISTED.allowed_origins)
async def test_a_browser_that_asks_first_is_permitted_without_key_or_token(origin: str) -> None:
    rules = Rules(allowed_origins=LISTED.allowed_origins, api_key="secret")
    wanted = {"Access-Control-Request-Headers": "content-type,x-api-key,mcp-session-id"}
    async with serving(rules) as served:
        status, told = await asked_first(served, origin, **wanted)
        assert (status, told["Access-Control-Allow-Origin"]) == (204, origin)
        assert told["Access-Control-Allow-Headers"] == "content-type,x-api-key,mcp-session-id"
        assert "POST" in told["Access-Control-Allow-Methods"]
        assert "Access-Control-Allow-Private-Network" not in told
        private = {"Access-Control-Request-Private-Network": "true"}
        assert (await asked_first(served, origin, **private))[1][
            "Access-Control-Allow-Private-Network"
        ] == "true"
        for path in having("gateway", "/v1/mcp"):
            assert (await asked_first(served, origin, path))[0] == 204


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("POST", "/mcp/sample", "application/json", 200),
        ("POST", "/mcp/sample?stream=1", "*/*", 200),
        ("GET", "/mcp/sample", "*/*", 405),
        ("GET", "/status", "*/*", 200),
        ("GET", "/jobs/none", "*/*", 404),
        *having("gateway", ("OPTIONS", "/v1/mcp", "*/*", 200)),
    ],
)
async def test_answers_of_every_kind_may_be_read(method: str, path: str, accept: str, status: int) -> None:
    async with serving(LISTED) as served:
        for _ in range(2):  # the second time over the kept connection, whose head is known
            headers = {"Origin": APP, "Accept": accept}
            body = CALL if method == "POST" else None
            async with served.client.request(method, served.url + path, json=body, headers=headers) as answer:
                assert answer.status == status
                told = permission(answer.headers)
                assert answer.headers["Vary"] == "Origin"
                await answer.read()
            assert told["Access-Control-Allow-Origin"] == APP
            assert told["Access-Control-Allow-Credentials"] == "true"
            assert "Mcp-Session-Id" in told["Access-Control-Expose-Headers"]


async def test_a_refusal_may_be_read_too() -> None:
    async with serving(Rules(allowed_origins=(APP,), api_key="secret")) as served:
        answer = await served.post(CALL, Origin=APP)
        assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (403, APP)


@pytest.mark.parametrize(
    "origin", ["", "http://localhost:3000", "http://127.0.0.1:5173", "http://app.example", "own"]
)
async def test_who_is_not_listed_is_told_nothing(origin: str) -> None:
    async with serving(LISTED) as served:
        origin = served.url if origin == "own" else origin
        answer = await served.post(CALL, **({"Origin": origin} if origin else {}))
        assert answer.status == (200 if origin in ("", served.url) else 403)
        assert permission(answer.headers) == {}
        if origin:
            assert (await asked_first(served, origin))[1] == {}


async def test_foreign_pages_and_foreign_names_are_refused_as_ever() -> None:
    async with serving(LISTED) as served:
        assert (await asked_first(served, "https://evil.example"))[0] == 403
        assert (await asked_first(served, APP, Host="evil.example"))[0] == 403


@pytest.mark.parametrize(
    ("path", "host", "status"),
    [
        ("/ready", "", 200),
        ("/health", "", 200),
        ("/status", "", 403),
        ("/ready", "Host: evil.example\r\n", 403),
    ],
)
async def test_a_balancer_may_ask_how_we_are_without_naming_a_host(path: str, host: str, status: int) -> None:
    async with serving() as served, within():
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        writer.write(f"GET {path} HTTP/1.0\r\n{host}\r\n".encode())
        assert int((await reader.read()).split()[1]) == status
        writer.close()


async def test_the_dashboard_is_for_no_other_page() -> None:
    async with serving(LISTED) as served:
        async with served.client.get(f"{served.url}/", headers={"Origin": APP}) as answer:
            assert permission(answer.headers) == {}
        assert (await asked_first(served, APP, "/"))[1] == {}


async def test_without_a_list_nobody_is_told_anything() -> None:
    async with serving() as served:
        answer = await served.post(CALL, Origin=served.url)
        assert answer.status == 200 and permission(answer.headers) == {}


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "mcpdesk.auth"]


async def test_who_was_refused_and_why_is_told_without_the_key(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Rules(api_key="right")) as served:
        await served.post(PING, X_API_Key="nearly-right", User_Agent="checker/2.0")
        await served.post(PING, Origin="http://evil.example")
        await served.post(PING, X_API_Key="right")
    wrong, foreign = told(caplog)
    assert wrong == (
        "refused POST /mcp/sample from checker 2.0: 403 Forbidden: wrong key in the header X-API-Key"
    )
    assert "403 Origin 'http://evil.example' is not allowed" in foreign
    assert "right" not in wrong


async def test_what_belongs_to_no_conversation_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Rules()) as served:
        await served.post(PING, Mcp_Session_Id="gone", MCP_Protocol_Version="2025-11-25")
        await served.post(PING, MCP_Protocol_Version="2023-01-01")
        await served.post(PING, Content_Type="text/plain")
        await served.post(PING)
    said = [record.getMessage() for record in caplog.records if record.name == "mcpdesk.http"]
    assert [line.partition(": ")[2] for line in said] == [
        "404 No such session: initialize again",
        "400 Unsupported protocol version: 2023-01-01",
        "415 Content-Type must be application/json, not 'text/plain'",
    ]


async def test_bytes_of_a_head_that_are_no_text_are_shown_as_question_marks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Rules()) as served:
        host, port = served.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /mcp/sample HTTP/1.1\r\nHost: %b\r\nUser-Agent: x\xff\r\n" % host.encode())
        writer.write(b"Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        async with within():
            assert b" 415 " in await reader.readline()
        writer.close()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "mcpdesk.http"]
    assert line.startswith("refused POST /mcp/sample from x?: 415 ")


async def test_many_refusals_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_guard, "SECOND_S", 3600.0)
    async with serving(Rules(api_key="right")) as served:
        for _ in range(4):
            await served.post(PING)
        for number in range(request_guard.MAX_A_SECOND + 1):
            await served.post(PING, X_API_Key="wrong", User_Agent=f"guess/{number}")
        lines = told(caplog)
        assert len(lines) == request_guard.MAX_A_SECOND
    *_, same, others = told(caplog)[len(lines) :]
    assert re.fullmatch(r"refused 3 more requests: 40[13] \w+: missing key .*", same)
    assert others == "refused 2 more requests for other reasons"


async def test_refusals_of_a_second_are_counted_when_it_ends_without_another_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_guard, "SECOND_S", 0.0)  # it ends in the next turn of the loop
    request = make_mocked_request("GET", "/mcp")
    request[HEAD] = RequestHead(request)
    refusals = RefusalLog()
    lines: list[str] = []
    for _ in range(2):
        caplog.clear()
        for _ in range(3):
            refusals.log(request, plain_error(401, "missing key"))
        await until(lambda: len(told(caplog)) == 2)
        lines += told(caplog)
    assert lines == 2 * [
        "refused GET /mcp from unix: 401 missing key",
        "refused 2 more requests: 401 missing key",
    ]


async def test_the_log_says_what_is_wrong_with_a_token_and_the_caller_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "mcpdesk.auth")
    async with guarding(checking()) as served:
        text = token("RS256", header={"kid": "RS256-first"}, exp=1)
        answer = await served.post(call(), Authorization=f"Bearer {text}")
        assert await answer.json() == {"error": "Unauthorized: invalid JWT"}
    assert "401 Unauthorized: invalid JWT (it has expired)" in caplog.text
    assert text not in caplog.text


NAVIGATIONS = [
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "embed", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "style", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Mode": "same-origin", "Sec-Fetch-Dest": "serviceworker", "Sec-Fetch-Site": "same-origin"},
]
PROTOCOL_PATHS = [
    "/mcp", "/mcp/sample", "/sample/mcp", "/mcp/sample/sse", "/mcp/sample/ws", "/mcp/sample/server-card",
    *having("gateway", "/v1/mcp", "/v1/ws/mcp"),
    "/v1/mcp/progress/x", "/mcp/progress/x", "/jobs", "/jobs/x", "/jobs/x/manifest",
    "/ws/jobs/x",
]  # fmt: skip
SANDBOX_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("path", PROTOCOL_PATHS)
async def test_a_browser_neither_opens_nor_embeds_what_is_for_clients(path: str) -> None:
    async with serving() as served:
        for headers in NAVIGATIONS:
            async with served.client.get(served.url + path, headers=headers) as answer:
                assert answer.status == 403, headers
                assert "cannot open or embed it" in (await answer.json())["error"]
                assert SANDBOX_HEADERS.items() <= answer.headers.items()


async def test_scripts_may_fetch_and_people_may_open_the_facts() -> None:
    async with serving() as served:
        for dest in ("empty", "websocket"):
            headers = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": dest, "Sec-Fetch-Site": "same-origin"}
            async with await served.modern("tools/list", None, 1, **headers) as answer:
                assert answer.status == 200
        for path in ("/", "/health", "/status", "/metrics"):
            async with served.client.get(served.url + path, headers=NAVIGATIONS[0]) as answer:
                assert answer.status == 200
                assert SANDBOX_HEADERS.items() <= answer.headers.items()
        # A link to a job's files is followed, as they are saved; they are not embedded.
        for headers, status in ((NAVIGATIONS[0], 404), (NAVIGATIONS[1], 403)):
            async with served.client.get(f"{served.url}/jobs/x/download", headers=headers) as answer:
                assert answer.status == status


async def test_every_answer_confines_a_browser() -> None:
    async with serving() as served:
        for method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "PUT"):
            for path in (*PROTOCOL_PATHS, "/jobs/x/download", "/nothing", "/.well-known/mcp/catalog.json"):
                # The stream of 2024-11-05 stays open: its headers are enough.
                async with served.client.request(method, served.url + path) as answer:
                    assert SANDBOX_HEADERS.items() <= answer.headers.items(), (method, path)
        async with await served.modern("tools/call", {"name": "echo", "arguments": {"text": "x"}}) as answer:
            assert answer.status == 200 and SANDBOX_HEADERS.items() <= answer.headers.items()
