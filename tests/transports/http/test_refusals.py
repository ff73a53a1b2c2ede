"""Whoever connects a client sees in the log why it does not get in; nobody fills the log by trying."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import refusals
from tests.support.callers import call, checking, guarding
from tests.support.patience import WITHIN_S
from tests.support.site import serving
from tests.support.tokens import token

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
    assert "403 Origin 'http://evil.example' may not call" in foreign
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
        async with asyncio.timeout(WITHIN_S):
            assert b" 415 " in await reader.readline()
        writer.close()
    (line,) = [record.getMessage() for record in caplog.records if record.name == "mcpdesk.http"]
    assert line.startswith("refused POST /mcp/sample from x?: 415 ")


async def test_many_refusals_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr(refusals, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    async with serving(Rules(api_key="right")) as served:
        for _ in range(refusals.MOST_A_SECOND + 3):
            await served.post(PING)
        now[0] += 1
        await served.post(PING)
    lines = told(caplog)
    assert len(lines) == refusals.MOST_A_SECOND + 2
    assert lines[-2] == "refused 3 more requests"


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
