"""An exchange without a response ends in the traffic as lost, however its connection ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client.targets import CommandTarget, UrlTarget
from mcpdesk.recorder import readable_message
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import until
from tests.support.ports import free_port
from tests.upstream.test_upstream import call, odd, upstream

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


async def ended(desk: RunningDesk) -> list[Exchange]:
    """The exchanges with the server, once none is pending."""

    def is_over() -> bool:
        desk.traffic.catch_up()
        return bool(desk.traffic.frame_count) and not desk.traffic.pending()

    await until(is_over)
    return [each for each in desk.traffic.exchanges if each.id is not None]


def reasons(desk: RunningDesk, found: list[Exchange]) -> list[str]:
    """The remarks on the lost ones."""
    lost = (each for each in found if each.status is Status.LOST)
    return [remark.text for each in lost for remark in readable_message.remarks(desk.traffic, each)]


def program(code: str) -> UpstreamPlan:
    return UpstreamPlan("odd", CommandTarget((sys.executable, "-c", code)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (program("import sys; sys.exit(1)"), "exit code 1"),
        (program("import sys; sys.stdin.readline(); sys.exit(3)"), "exit code 3"),
        (program("import sys; [each for each in sys.stdin]"), "the client stopped waiting"),
    ],
)
async def test_requests_to_a_program_that_ends_or_is_silent_are_lost(plan: UpstreamPlan, words: str) -> None:
    async with running_desk(upstreams=[plan], connect_timeout_s=4) as desk:
        await until(lambda: upstream(desk).state == "failed")
        found = await ended(desk)
        assert {each.method for each in found} == {"server/discover", "initialize"}
        assert {each.status for each in found} == {Status.LOST}
        assert all(words in reason for reason in reasons(desk, found)) and reasons(desk, found)


async def test_a_request_to_an_address_that_refuses_is_lost() -> None:
    plan = UpstreamPlan("odd", UrlTarget(f"http://127.0.0.1:{free_port()}/mcp"))
    async with running_desk(upstreams=[plan]) as desk:
        await until(lambda: upstream(desk).state == "failed")
        found = await ended(desk)
        assert [each.status for each in found] == [Status.LOST]
        assert "Connection refused" in reasons(desk, found)[0]


async def _refused(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=500, text="out of order")


async def _broken(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(b"data: {")
    assert request.transport is not None
    request.transport.abort()
    return answer


@pytest.mark.parametrize(("answer", "words"), [(_refused, "HTTP 500"), (_broken, "")])
async def test_requests_to_a_url_that_gives_no_response_are_lost(answer: Answer, words: str) -> None:
    async with RawTestServer(answer) as there:
        plan = UpstreamPlan("odd", UrlTarget(str(there.make_url("/mcp"))))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: upstream(desk).state == "failed")
            found = await ended(desk)
            assert {each.status for each in found} <= {Status.LOST, Status.MALFORMED}
            assert all(words in reason for reason in reasons(desk, found))


@pytest.mark.slow
async def test_a_question_of_a_program_that_died_is_lost_with_the_call() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: upstream(desk).state == "ready")
        asking = asyncio.create_task(call(desk, "ask and die"))
        died = await asking
        assert "exit code 4" in died["message"]
        found = {each.method: each.status for each in await ended(desk)}
        assert found["elicitation/create"] is found["tools/call"] is Status.LOST
