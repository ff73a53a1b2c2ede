"""Faults by rules: rules are parsed, the random choices repeat, and clients see every fault."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.features.holding import holds as holds_module
from mcpdesk.features.holding.faults import FaultRules
from mcpdesk.features.holding.held_message import SetFaults
from mcpdesk.features.holding.holds import Holds
from mcpdesk.recorder.capture.recording import Recording
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import write
from tests.support.patience import until, within
from tests.support.served import Peer
from tests.support.site import Served, events, serving
from tests.upstream.test_pass_through import ASKED, JSON, OtherProcesses, through

ECHO = {"name": "echo", "arguments": {"text": "hello"}}
STEPS = {"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}}
FILES = {
    "mcp.json": '{"name": "near"}',
    "tools/tools.py": """
        async def add(a: int, b: int) -> int:
            return a + b
        """,
}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# none\n\ndely 2s", "line 3: 'dely' is not a fault; use delay, lose, error, session, cut"),
        ("lose 2s", "line 1: '2s' is invalid; lose takes a share like 10%"),
        ("lose 0%", "line 1: '0%' is invalid"),
        ("delay 10%", "line 1: delay needs a time above 0s"),
        ("delay 5s..1s", "line 1: delay needs a time"),
        ("error twelve", "error takes a code like -32603, a message in quotes"),
        ("cut for tolo:x", "line 1: unknown field 'tolo'"),
        ("cut for", "line 1: after `for` there must be a filter"),
        ("seed many", "line 1: 'seed' is not a fault"),
        ("lose\n" * 101, "line 101: at most 100 rules are allowed"),
        (
            "delay 2s for status:error",
            "line 1: status:error|tool-error can never match: its value is only known after",
        ),
        ("lose for tool:x or not status:ok", "status:ok can never match: its value is only known after"),
        ("error for >1s", ">1s can never match"),
        ("session for is:changed", "is:changed can never match: its value is only known after the rule"),
        ("cut for status:slow", "status:slow can never match: its value is only known after the rule"),
        ("cut for status:pending", "status:pending can never match: this rule acts after the answer arrived"),
        ("error for method:notifications/progress", "line 1: the filter can never match"),
        ("lose for kind:notification tool:x", "line 1: the filter can never match"),
        ("lose for not kind:request", "line 1: the filter can never match"),
        ("delay 1s for dir:out", "line 1: the filter can never match"),
    ],
)
def test_a_mistake_names_its_line_and_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match="line") as caught:
        FaultRules(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "cut for tool:x >1s",
        "cut for status:error",
        "delay 1s for status:pending",
        "lose for kind:notification dir:out",
        "lose for method:sampling/createMessage dir:out status:pending",
        "error for not tool:x >1kb",
        "delay 1s for since:5m peer:claude or method:notifications/ status:sent",
    ],
)
def test_a_rule_about_what_is_known_when_it_acts_is_taken(text: str) -> None:
    assert len(FaultRules(text).rules) == 1


def test_a_run_repeats_exactly_and_another_seed_is_another_run() -> None:
    def run(seed: int) -> list[float | None]:
        rules = FaultRules(f"seed {seed}\nerror 30% for tool:x\ndelay 1s..5s 50%")
        struck = [rules.select_fault(f"c{n % 3}", lambda node: True, is_answer=False) for n in range(300)]
        return [None if fault is None else fault.seconds for fault in struck]

    first = run(1)
    assert first == run(1) != run(2)
    assert 60 < first.count(0.0) < 120 and 70 < sum(1.0 <= (one or 0) <= 5.0 for one in first) < 140


async def read_status(asking: Awaitable[aiohttp.ClientResponse]) -> int:
    """The status of an answer that was read to its end."""
    async with await asking as answer:
        await answer.read()
        return answer.status


Ask = Callable[[Served, dict[str, str]], Any]
ERAS: dict[str, Ask] = {
    "handshake": lambda served, session: served.post(
        {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": ECHO}, **session
    ),
    "stateless": lambda served, session: served.modern("tools/call", ECHO, 5),
    "stream": lambda served, session: served.modern("tools/call", STEPS, 5),
}


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_an_answer_is_late_wrong_lost_or_cut_off(era: str) -> None:
    async with serving() as served:
        holds = Holds(Recording(None), lambda text: None)
        session, ask = await served.session(), ERAS[era]

        def set_rules(text: str) -> None:
            holds.set_faults(text)
            served.hosted.intercept(holds)

        set_rules('error -32000 "too busy" for method:tools/call')
        refused = await (await ask(served, session)).json()
        assert refused == {"jsonrpc": "2.0", "id": 5, "error": {"code": -32000, "message": "too busy"}}
        set_rules("session")
        status = await read_status(ask(served, session))
        assert status == (404 if era == "handshake" else 200)
        set_rules("cut for method:tools/call")
        with pytest.raises(aiohttp.ClientPayloadError):
            await read_status(ask(served, session))
        set_rules("delay 3600s")
        late = asyncio.create_task(ask(served, session))

        await until(lambda: holds.view.struck)
        set_rules("lose for method:tools/call")
        answer = await (await late).text()  # the delayed request continues
        assert "hello" in answer or "done" in answer
        lost = asyncio.create_task(ask(served, session))
        assert not (await asyncio.wait({lost}, timeout=0.1))[0]
        holds.close()
        assert await read_status(lost) == 202
        set_rules("")
        assert await read_status(ask(served, session)) == 200


async def test_a_session_gets_the_answer_of_a_stream_that_was_cut_when_it_comes_back() -> None:
    async with serving() as served:
        session = await served.session()
        holds = Holds(Recording(None), lambda text: None)
        holds.set_faults("cut for tool:steps")
        served.hosted.intercept(holds)
        headers = {name.replace("_", "-"): value for name, value in session.items()}
        headers |= {"Accept": "application/json, text/event-stream"}
        body = orjson.dumps({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": STEPS})
        sent = headers | {"Host": "127.0.0.1", "Content-Type": "application/json"}
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        writer.write(
            f"POST /mcp/sample HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        )
        async with within():
            read = (await reader.read()).decode()
        writer.close()
        assert '"progress"' in read and '"content"' not in read and not read.endswith("0\r\n\r\n")
        last = [line[4:] for line in read.splitlines() if line.startswith("id: ")][-1]
        headers |= {"Accept": "text/event-stream", "Last-Event-ID": last}
        resumed = await served.client.get(f"{served.url}/mcp/sample", headers=headers)
        assert events(await resumed.text())[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_on_a_pipe_faults_are_marked_for_ever_and_a_cut_ends_it(era: str, tmp_path: Path) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    peer, ended = Peer(recording=recording), list[int]()
    holds = Holds(recording, lambda text: None, disconnect=ended.append)
    if era == "handshake":
        await peer.shake_hands()
    ask = peer.request if era == "handshake" else peer.modern
    holds.set_faults('delay 1ms for "slow"\nlose for "lost"\ncut for "cut"\nsession')
    peer.endpoint.intercept(holds)
    for number, word in enumerate(("slow", "lost", "cut"), 1):
        ask(number, "tools/call", {"name": "echo", "arguments": {"text": word}})
    assert (await peer.response(1))["result"]["content"][0]["text"] == "slow"
    await until(lambda: ended)
    assert ended == [peer.channel.connection]
    marks = {mark.id: (mark.how, bool(mark.was)) for mark in recording.index.marks}
    assert marks == {
        1: ("delayed by the fault rule in line 1", True),
        2: ("lost by the fault rule in line 2", True),
        3: ("cut off by the fault rule in line 3", True),
    }
    assert not any(message.get("id") in (2, 3) for message in peer.received)
    recording.close()


async def test_who_cancels_or_leaves_is_not_waited_for_and_those_that_wait_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Peer()
    holds = Holds(peer.recording, lambda text: None)
    holds.set_faults("delay 3600s")
    peer.endpoint.intercept(holds)
    peer.modern(1, "tools/call", ECHO)
    peer.modern(2, "tools/call", ECHO)
    await until(lambda: holds.waiting_count == 2)
    peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await until(lambda: holds.waiting_count == 1)
    monkeypatch.setattr(holds_module, "MAX_WAITING_REQUESTS", 50)
    for number in range(3, 103):
        peer.modern(number, "tools/call", ECHO)
    await until(lambda: holds.waiting_count == 50)
    assert "result" in await peer.response(2)
    peer.channel.close()
    await until(lambda: holds.waiting_count == 0)


async def test_a_rule_for_everything_leaves_the_handshake_a_way_once_it_is_gone() -> None:
    peer = Peer()
    holds = Holds(peer.recording, lambda text: None)
    holds.set_faults("error")
    peer.endpoint.intercept(holds)
    peer.request(9, "initialize", {})
    assert (await peer.response(9))["error"]["message"] == "a fault by rule"
    plain = peer.channel.dialogue.conversation.accept_message
    holds.set_faults("")
    peer.endpoint.intercept(holds)
    assert peer.channel.dialogue.accept_message == plain
    assert "result" in await peer.shake_hands()


@pytest.mark.parametrize("way", ["200", "stream"])
async def test_what_passes_to_servers_elsewhere_meets_the_same_faults(way: str) -> None:
    async def use(session: Any, url: str, there: OtherProcesses, desk: RunningDesk) -> None:
        async def post(**more: str) -> tuple[int, bytes]:
            async with session.post(url, data=ASKED, headers=JSON | more) as got:
                return got.status, await got.read()

        async def set_rules(text: str) -> None:
            assert await asyncio.wrap_future(desk.do(SetFaults(text)))

        there.go_on.set()
        await set_rules("cut for peer:aiohttp or tool:x")
        with pytest.raises(aiohttp.ClientPayloadError):
            await post()
        await set_rules("session for tool:x")
        assert (await post())[0] == 200
        assert (await post(**{"Mcp-Session-Id": "s"}))[0] == 404
        await set_rules('error 7 "no" for tool:x')
        assert b'"no"' in (await post())[1]
        await set_rules("delay 1ms for tool:x")
        assert (await post())[0] == 200
        await set_rules("")
        hows = [mark.how.split(" by ")[0] for mark in desk.traffic.marks]
        assert hows == ["cut off", "refused with 404", "answered with an error", "delayed"]

    await through(way, use)


async def test_a_websocket_is_closed_and_the_desks_own_call_is_told(tmp_path: Path) -> None:
    async with (
        running_desk(write(tmp_path / "near", FILES), http=True) as desk,
        aiohttp.ClientSession() as session,
    ):
        assert await asyncio.wrap_future(desk.do(SetFaults("cut for tool:add\nlose for method:ping")))
        url = desk.host.url("near").replace("http:", "ws:") + "/ws"
        async with within(), session.ws_connect(url, protocols=["mcp"]) as socket:
            params: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
            params["clientInfo"] = {"name": "t", "version": "1"}
            await socket.send_json({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            assert "result" in await socket.receive_json()
            await socket.send_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            await socket.send_json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
