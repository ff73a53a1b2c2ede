"""Messages to servers that are not ours wait for a person like those of a folder."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.link.values import HeldMessage, Verdict
from tests.support.desk import RunningDesk, running_desk, until
from tests.upstream.test_pass_through import ASKED, JSON, Elsewhere, through
from tests.upstream.test_upstream import names, odd


async def held(desk: RunningDesk, *, is_answer: bool = False) -> HeldMessage:
    await until(lambda: [one.is_answer for one in desk.held().messages] == [is_answer])
    return desk.held().messages[0]


async def let_go(desk: RunningDesk, one: HeldMessage, how: Verdict, text: str = "") -> None:
    assert await asyncio.wrap_future(desk.let_go(one.number, how, text))


@pytest.mark.parametrize("way", ["200", "stream"])
async def test_requests_of_clients_and_their_answers_are_changed_on_their_way(way: str) -> None:
    async def use(session: Any, url: str, there: Elsewhere, desk: RunningDesk) -> None:
        there.go_on.set()
        assert await asyncio.wrap_future(desk.hold("tool:x or tool:y", "both"))

        async def post() -> bytes:
            async with session.post(url, data=ASKED, headers=JSON | {"Mcp-Name": "x"}) as got:
                return bytes(await got.read())

        asking = asyncio.create_task(post())
        one = await held(desk)
        await let_go(desk, one, Verdict.CHANGE, one.text.replace('"x"', '"y"'))
        one = await held(desk, is_answer=True)
        await let_go(desk, one, Verdict.CHANGE, one.text.replace("[]", '["by hand"]'))
        assert b'["by hand"]' in await asking
        headers, body = there.asked[0]
        sent = {name.lower(): value for name, value in headers.items()}
        assert (sent["mcp-name"], b'"y"' in body) == ("y", True)
        asking = asyncio.create_task(post())
        await let_go(desk, await held(desk), Verdict.ANSWER, '{"content": ["mine"]}')
        assert b"mine" in await asking and len(there.asked) == 1
        asking = asyncio.create_task(post())
        await let_go(desk, await held(desk), Verdict.DROP)
        await until(lambda: not desk.held().messages)
        asking.cancel()

    await through(way, use)


async def test_calls_of_the_desk_to_a_program_are_held() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: names(desk))
        assert await asyncio.wrap_future(desk.hold("method:tools/call", "both"))
        calls = [desk.request("odd", "tools/call", {"name": "nobody", "arguments": {}}) for _ in range(2)]
        await until(lambda: len(desk.held().messages) == 2)
        first, second = desk.held().messages
        await let_go(desk, first, Verdict.ANSWER, '{"content": []}')
        assert (await asyncio.wrap_future(calls[0].outcome)).result == {"content": []}
        await let_go(desk, second, Verdict.GO_ON)
        one = await held(desk, is_answer=True)
        await let_go(desk, one, Verdict.CHANGE, '{"error": {"code": -5, "message": "by hand"}}')
        error = (await asyncio.wrap_future(calls[1].outcome)).error
        assert error is not None and error["message"] == "by hand"
        lost = desk.request("odd", "tools/call", {"name": "nobody", "arguments": {}})
        await let_go(desk, await held(desk), Verdict.DROP)
        lost.cancel()
        assert (await asyncio.wrap_future(lost.outcome)).cancelled
