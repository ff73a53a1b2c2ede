"""Messages to servers that are not ours wait for a person like those of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.features.holding.held_message import HeldMessage, HoldView, Release, SetFaults, SetHold, Verdict
from mcpdesk.inbox.question import Answer
from mcpdesk.recorder.index.phase_spans import PhaseKind, phase_spans
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import official
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import until
from tests.upstream.test_channel_pass_through import NEWEST, official_at
from tests.upstream.test_pass_through import ASKED, JSON, OtherProcesses, through
from tests.upstream.test_upstream import names, odd, upstream


async def held(desk: RunningDesk, *, is_answer: bool = False) -> HeldMessage:
    await until(lambda: [one.is_answer for one in desk.feature_part(HoldView).messages] == [is_answer])
    return desk.feature_part(HoldView).messages[0]


async def release(desk: RunningDesk, one: HeldMessage, how: Verdict, text: str = "") -> None:
    assert await asyncio.wrap_future(desk.do(Release(one.number, how, text)))


@pytest.mark.parametrize("way", ["200", "stream"])
async def test_requests_of_clients_and_their_answers_are_changed_on_their_way(way: str) -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: RunningDesk) -> None:
        there.go_on.set()
        assert await asyncio.wrap_future(desk.do(SetHold("tool:x or tool:y", "both")))

        async def post() -> bytes:
            async with session.post(url, data=ASKED, headers=JSON | {"Mcp-Name": "x"}) as got:
                return bytes(await got.read())

        asking = asyncio.create_task(post())
        one = await held(desk)
        await release(desk, one, Verdict.CHANGE, one.text.replace('"x"', '"y"'))
        one = await held(desk, is_answer=True)
        await release(desk, one, Verdict.CHANGE, one.text.replace("[]", '["by hand"]'))
        assert b'["by hand"]' in await asking
        headers, body = there.asked[0]
        sent = {name.lower(): value for name, value in headers.items()}
        assert (sent["mcp-name"], b'"y"' in body) == ("y", True)
        asking = asyncio.create_task(post())
        await release(desk, await held(desk), Verdict.ANSWER, '{"content": ["mine"]}')
        assert b"mine" in await asking and len(there.asked) == 1
        asking = asyncio.create_task(post())
        await release(desk, await held(desk), Verdict.DROP)
        await until(lambda: not desk.feature_part(HoldView).messages)
        asking.cancel()

    await through(way, use)


@pytest.mark.process
async def test_calls_of_the_desk_to_a_program_are_held() -> None:
    async with running_desk(upstreams=[odd()]) as desk:
        await until(lambda: names(desk))
        assert await asyncio.wrap_future(desk.do(SetHold("method:tools/call", "both")))
        calls = [desk.request("odd", "tools/call", {"name": "nobody", "arguments": {}}) for _ in range(2)]
        await until(lambda: len(desk.feature_part(HoldView).messages) == 2)
        first, second = desk.feature_part(HoldView).messages
        await release(desk, first, Verdict.ANSWER, '{"content": []}')
        assert (await asyncio.wrap_future(calls[0].outcome)).result == {"content": []}
        await release(desk, second, Verdict.PASS)
        one = await held(desk, is_answer=True)
        await release(desk, one, Verdict.CHANGE, '{"error": {"code": -5, "message": "by hand"}}')
        error = (await asyncio.wrap_future(calls[1].outcome)).error
        assert error is not None and error["message"] == "by hand"
        lost = desk.request("odd", "tools/call", {"name": "nobody", "arguments": {}})
        await release(desk, await held(desk), Verdict.DROP)
        lost.cancel()
        assert (await asyncio.wrap_future(lost.outcome)).cancelled


WAYS = [(way, era) for way in ("program", "url") for era in ("2025-11-25", NEWEST)] + [
    ("named", "2024-11-05")
]
SENT = "method:notifications/progress or method:elicitation/create"


async def sent(desk: RunningDesk, *whats: str, after: HeldMessage | None = None) -> HeldMessage:
    """Wait for the only held message after `after`; it must be of one of these kinds."""
    last = 0 if after is None else after.number

    def found() -> list[HeldMessage]:
        return [one for one in desk.feature_part(HoldView).messages if one.number > last]

    await until(found)
    [one] = found()
    assert one.what in whats
    return one


async def let_progress_go(desk: RunningDesk) -> None:
    """Let what `steps` reports go: the first is changed, the second dropped, the third passed on."""
    first = await sent(desk, "tells")
    assert first.is_sent and first.method == "notifications/progress"
    await release(desk, first, Verdict.CHANGE, first.text.replace('"progress": 0', '"progress": 0.5'))
    second = await sent(desk, "tells", after=first)
    await release(desk, second, Verdict.DROP)
    await release(desk, await sent(desk, "tells", after=second), Verdict.PASS)


def marked(index: Index) -> list[str]:
    """Outcomes of held messages, in order."""
    return [mark.how for mark in index.marks]


@pytest.mark.process
@pytest.mark.parametrize(("way", "revision"), WAYS)
async def test_what_a_server_sends_to_a_client_is_held_and_changed(way: str, revision: str) -> None:
    answers, heard = official.Answers(), official.Heard()
    async with official_at(way) as target:
        plan = UpstreamPlan("far", target)
        async with (
            running_desk(upstreams=[plan], http=True, no_auth=True) as desk,
            official.answering(desk.host.url("far"), _spoken(revision), answers) as client,
        ):
            await until(lambda: upstream(desk, "far").state == "ready")
            await client.call_tool("add", {"a": 1, "b": 1})
            assert await asyncio.wrap_future(desk.do(SetHold(SENT, "both")))
            call = asyncio.create_task(client.call_tool("steps", {}, progress_callback=heard.on_progress))
            await let_progress_go(desk)
            await call
            assert [done for done, _, _ in heard.progress] == [0.5, 2]
            call = asyncio.create_task(client.call_tool("ask", {}))
            asked = await sent(desk, "asks", "answer")
            await release(desk, asked, Verdict.CHANGE, asked.text.replace("Who are", "Which one are"))
            if revision != NEWEST:  # there the reply is a separate request
                reply = await sent(desk, "reply", after=asked)
                await release(desk, reply, Verdict.CHANGE, reply.text.replace("Ada", "Grace"))
            name = "Ada" if revision == NEWEST else "Grace"
            assert (name in str((await call).content), answers.asked) == (True, ["Which one are you?"])
            desk.traffic.catch_up()
            hows = [how.removeprefix("notifications/") for how in marked(desk.traffic)[:3]]
            assert hows == ["progress changed", "progress dropped", "progress passed on"]
            assert '"progress":0.5' in desk.traffic.marks[0].now
            if revision != NEWEST:
                call = asyncio.create_task(client.call_tool("ask", {}))
                asked = await sent(desk, "asks", after=reply)
                await release(desk, asked, Verdict.ANSWER, '{"action": "decline"}')
                assert "decline" in str((await call).content)


@pytest.mark.process
@pytest.mark.parametrize(("way", "revision"), WAYS)
async def test_what_a_server_sends_to_the_desk_is_held_and_changed(way: str, revision: str) -> None:
    async with official_at(way) as target:
        plan = UpstreamPlan("far", target, Reach(revision=revision))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: upstream(desk, "far").state == "ready")
            assert await asyncio.wrap_future(desk.do(SetHold(SENT, "both")))
            call = desk.request("far", "tools/call", {"name": "steps", "arguments": {}})
            await let_progress_go(desk)
            assert "done" in str((await asyncio.wrap_future(call.outcome)).result)
            assert marked(desk.traffic) == [
                f"notifications/progress {how}" for how in ("changed", "dropped", "passed on")
            ]
            call = desk.request("far", "tools/call", {"name": "ask", "arguments": {}})
            asked = await sent(desk, "asks", "answer")
            await release(desk, asked, Verdict.CHANGE, asked.text.replace("Who are", "Which one are"))
            await until(desk.questions)
            question = desk.questions()[0]
            assert question.pages[0].question == "Which one are you?"
            await asyncio.wrap_future(desk.answer(question.id, [Answer(other="Ada")]))
            if revision != NEWEST:
                reply = await sent(desk, "reply", after=asked)
                await release(desk, reply, Verdict.CHANGE, reply.text.replace("Ada", "Grace"))
            said = str((await asyncio.wrap_future(call.outcome)).result)
            assert ("Ada" if revision == NEWEST else "Grace") in said
            if revision != NEWEST:
                call = desk.request("far", "tools/call", {"name": "ask", "arguments": {}})
                asked = await sent(desk, "asks", after=reply)
                await release(desk, asked, Verdict.ANSWER, '{"action": "decline"}')
                assert "decline" in str((await asyncio.wrap_future(call.outcome)).result)


def _spoken(revision: str) -> str:
    """Revision of a client behind the desk, which serves it over Streamable HTTP."""
    return "2025-11-25" if revision == "2024-11-05" else revision


async def test_a_stream_that_stands_open_is_held_from_now_on_and_keeps_its_other_bytes() -> None:
    steps: asyncio.Queue[bytes] = asyncio.Queue()
    posted: list[bytes] = []

    async def there(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Mcp-Session-Id") != "mine":
            return web.Response(status=400)
        if request.method == "POST":
            posted.append(await request.read())
            return web.Response(status=202)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        while piece := await steps.get():
            await stream.write(piece)
        return stream

    def told(number: int) -> bytes:
        return b'id: e%d\r\ndata: {"jsonrpc": "2.0",  "method":"notifications/n%d"}\r\n\r\n' % (
            number,
            number,
        )

    app = web.Application()
    app.router.add_route("*", "/mcp", there)
    async with TestServer(app) as server, aiohttp.ClientSession(headers={"Mcp-Session-Id": "mine"}) as http:
        plan = UpstreamPlan("there", UrlTarget(str(server.make_url("/mcp"))))
        async with running_desk(upstreams=[plan], http=True, no_auth=True) as desk:
            url = desk.host.url("there")
            async with http.get(url, headers={"Accept": "text/event-stream"}) as stream:
                steps.put_nowait(told(1) + told(2)[:9])
                assert await stream.content.readexactly(len(told(1)) + 9) == told(1) + told(2)[:9]
                assert await asyncio.wrap_future(desk.do(SetHold("method:notifications/n4", "both")))
                steps.put_nowait(told(2)[9:])
                assert await stream.content.readexactly(len(told(2)) - 9) == told(2)[9:]
                steps.put_nowait(b": alive\r\n\r\n" + told(3) + told(4) + told(5))
                one = await sent(desk, "tells")
                start = b": alive\r\n\r\n" + told(3)
                assert await stream.content.readexactly(len(start)) == start
                await release(desk, one, Verdict.CHANGE, one.text.replace("n4", "other"))
                changed = await stream.content.readuntil(b"\n\n")
                assert changed.startswith(b"event: message\nid: e4\ndata: {") and b"/other" in changed
                assert await stream.content.readexactly(len(told(5))) == told(5)
                say = b'{"jsonrpc":"2.0", "method":"notifications/n%d"}'
                for number in (3, 4):
                    sending = asyncio.create_task(http.post(url, data=say % number, headers=JSON))
                    if number == 4:
                        await release(desk, await sent(desk, "tells", after=one), Verdict.DROP)
                    assert (await sending).status == 202
                assert posted == [say % 3]
                assert await asyncio.wrap_future(desk.do(SetHold("", "both")))
                steps.put_nowait(told(4))
                assert await stream.content.readexactly(len(told(4))) == told(4)
                steps.put_nowait(b"")
                assert await stream.content.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["program", "url"])
async def test_nothing_is_held_for_who_has_left_and_the_rest_goes_on_in_order(way: str) -> None:
    steps = {"name": "steps", "arguments": {}}
    async with official_at(way) as target:
        plan = UpstreamPlan("far", target, Reach(revision="2025-11-25"))
        async with running_desk(upstreams=[plan], http=True, no_auth=True) as desk:
            await until(lambda: upstream(desk, "far").state == "ready")
            assert await asyncio.wrap_future(desk.do(SetHold("method:notifications/progress", "both")))
            call = desk.request("far", "tools/call", steps)
            one = await sent(desk, "tells")
            call.cancel()
            await until(lambda: not desk.feature_part(HoldView).messages)
            call = desk.request("far", "tools/call", steps)
            one = await sent(desk, "tells", after=one)
            desk.reload("far")
            await until(
                lambda: not desk.feature_part(HoldView).messages and upstream(desk, "far").state == "ready"
            )
            await asyncio.wrap_future(call.outcome)
            heard = official.Heard()
            async with official.session(desk.host.url("far"), "2025-11-25") as client:
                told = official.Heard().on_progress
                calling = asyncio.create_task(client.call_tool("steps", {}, progress_callback=told))
                one = await sent(desk, "tells", after=one)
                calling.cancel()
            await until(lambda: not desk.feature_part(HoldView).messages)
            async with official.session(desk.host.url("far"), "2025-11-25") as client:
                calling = asyncio.create_task(
                    client.call_tool("steps", {}, progress_callback=heard.on_progress)
                )
                await sent(desk, "tells", after=one)
                assert await asyncio.wrap_future(desk.do(SetHold("", "both")))
                await calling
            assert [done for done, _, _ in heard.progress] == [0, 1, 2]


@pytest.mark.process
async def test_progress_of_cancelled_calls_is_not_held_even_if_it_comes_late() -> None:
    async with running_desk(upstreams=[odd("endless")]) as desk:
        await until(lambda: names(desk))
        call = {"name": "echo", "arguments": {}}
        first = desk.request("odd", "tools/call", call)
        await until(lambda: first.progress)
        rule = "method:notifications/progress or method:notifications/message"
        assert await asyncio.wrap_future(desk.do(SetHold(rule, "both")))
        second = desk.request("odd", "tools/call", call)
        await until(lambda: len(desk.feature_part(HoldView).messages) == 2)
        first.cancel()
        progress = await held(desk)
        await release(desk, progress, Verdict.PASS)
        remark = await sent(desk, "tells", after=progress)
        assert remark.method == "notifications/message"
        # It may concern the second call, but is of use without it.
        second.cancel()
        remark = await sent(desk, "tells", after=remark)
        await release(desk, remark, Verdict.DROP)
        remark = await sent(desk, "tells", after=remark)
        assert remark.method == "notifications/message"
        await release(desk, remark, Verdict.PASS)
        await until(lambda: not desk.feature_part(HoldView).messages)


@pytest.mark.process
async def test_faults_strike_what_a_program_tells() -> None:
    async with (
        official_at("program") as target,
        running_desk(upstreams=[UpstreamPlan("far", target)]) as desk,
    ):
        await until(lambda: upstream(desk, "far").state == "ready")
        assert await asyncio.wrap_future(desk.do(SetFaults("lose for method:notifications/progress")))
        call = desk.request("far", "tools/call", {"name": "steps", "arguments": {}})
        assert "done" in str((await asyncio.wrap_future(call.outcome)).result)
        assert call.progress is None and desk.feature_part(HoldView).struck == 3


async def test_what_is_told_on_a_stream_of_before_is_held_too(tmp_path: Path) -> None:
    tool = "async def {}() -> int:\n    return 1\n"
    folder = write(tmp_path / "near", {"mcp.json": '{"name": "near"}', "tools/a.py": tool.format("one")})
    async with running_desk(folder, http=True, no_auth=True) as there:
        plan = UpstreamPlan("near", UrlTarget(there.host.url("near")), Reach(revision=NEWEST))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: "one" in names(desk, "near"))
            assert await asyncio.wrap_future(
                desk.do(SetHold("method:notifications/tools/list_changed", "both"))
            )
            write(folder, {"tools/b.py": tool.format("two")})
            there.reload("near")
            one = await sent(desk, "tells")
            assert "two" not in names(desk, "near")
            await release(desk, one, Verdict.PASS)
            await until(lambda: "two" in names(desk, "near"))


@pytest.mark.parametrize("revision", ["2025-11-25", NEWEST])
async def test_only_a_session_can_be_lost(tmp_path: Path, revision: str) -> None:
    files = {"mcp.json": '{"name": "near"}', "tools/a.py": "async def one() -> int:\n    return 1\n"}
    folder = write(tmp_path / "near", files)
    async with running_desk(folder, http=True, no_auth=True) as there:
        plan = UpstreamPlan("near", UrlTarget(there.host.url("near")), Reach(revision=revision))
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: "one" in names(desk, "near"))
            assert await asyncio.wrap_future(desk.do(SetFaults("session for tool:one")))
            call = desk.request("near", "tools/call", {"name": "one", "arguments": {}})
            outcome = await asyncio.wrap_future(call.outcome)
            has_session = revision != NEWEST
            assert (desk.feature_part(HoldView).struck > 0, outcome.result is None) == (
                has_session,
                has_session,
            )


async def test_time_at_the_desk_is_no_time_of_the_server(tmp_path: Path) -> None:
    files = {"mcp.json": '{"name": "near"}', "tools/a.py": "async def one() -> int:\n    return 1\n"}
    async with running_desk(write(tmp_path / "near", files), http=True, no_auth=True) as there:
        plan = UpstreamPlan("near", UrlTarget(there.host.url("near")), Reach())
        async with running_desk(upstreams=[plan]) as desk:
            await until(lambda: "one" in names(desk, "near"))
            assert await asyncio.wrap_future(desk.do(SetHold("tool:one", "requests")))
            call = desk.request("near", "tools/call", {"name": "one", "arguments": {}})
            one = await held(desk)
            await asyncio.sleep(0.05)
            await release(desk, one, Verdict.PASS)
            assert (await asyncio.wrap_future(call.outcome)).result
            desk.traffic.catch_up(10.0)
            (exchange,) = [each for each in desk.traffic.exchanges if each.method == "tools/call"]
            spans = phase_spans(desk.traffic, exchange, 0.0)
            assert [span.kind for span in spans] == [PhaseKind.HELD, PhaseKind.SERVER]
            assert spans[0].seconds >= 0.05
            assert sum(span.seconds for span in spans) == pytest.approx(exchange.elapsed(0), abs=0.001)
