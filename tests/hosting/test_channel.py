"""Byte pipes: any split in, whole lines out, everything recorded as it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from mcpdesk.hosting.channel import MAX_TURN_S, Pipe
from mcpdesk.inbox.question import Page
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import LOG_LEVEL_KEY, request_meta
from mcpdesk.recorder.record import Direction
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.patience import until, within
from tests.support.served import Peer
from tests.support.site import Frames

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def make_pipe(limit: int = 1 << 20) -> tuple[Pipe, list[bytes], Frames]:
    endpoint = Peer().endpoint
    frames = Frames()
    endpoint.recorder = frames
    sent: list[bytes] = []
    return endpoint.pipe("stdio", "tester", sent.append, limit), sent, frames


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_frames_are_found_in_any_split(size: int) -> None:
    pipe, sent, frames = make_pipe()
    data = REQUEST + b"\r\n\n" + REQUEST + b"\n"
    for start in range(0, len(data), size):
        pipe.feed(data[start : start + size])
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert b"".join(sent) == (answer + b"\n") * 2
    assert [seen for seen in frames.seen if seen[0] is Direction.IN] == [(Direction.IN, REQUEST)] * 2
    assert [seen for seen in frames.seen if seen[0] is Direction.OUT] == [(Direction.OUT, answer)] * 2


async def test_a_last_line_without_newline_counts() -> None:
    pipe, sent, _ = make_pipe()
    pipe.feed(REQUEST)
    pipe.eof()
    assert len(sent) == 1


async def test_an_oversized_line_is_refused_and_the_pipe_lives_on() -> None:
    pipe, sent, _ = make_pipe(limit=100)
    pipe.feed(b"x" * 500)
    pipe.feed(b"x\n" + REQUEST + b"\n")
    refusal, answer = map(orjson.loads, b"".join(sent).splitlines())
    assert refusal["error"]["code"] == -32600
    assert "100 bytes" in refusal["error"]["message"]
    assert answer["result"] == {}


async def test_answers_of_one_chunk_are_written_and_recorded_at_once() -> None:
    pipe, sent, frames = make_pipe()
    pipe.feed((REQUEST + b"\n") * 3 + REQUEST[:9])
    assert len(sent) == 1 and sent[0].count(b"\n") == 3
    assert [direction for direction, _ in frames.seen] == [Direction.IN] * 3 + [Direction.OUT] * 3
    pipe.feed(REQUEST[9:] + b"\n")
    assert len(sent) == 2 and sent[1].count(b"\n") == 1


async def test_messages_of_one_turn_of_the_loop_are_written_at_once() -> None:
    pipe, sent, frames = make_pipe()
    pipe.send(b"1")
    pipe.send(b"2")
    assert sent == [] and frames.seen == []
    await asyncio.sleep(0)
    assert sent == [b"1\n2\n"]
    assert frames.seen == [(Direction.OUT, b"1"), (Direction.OUT, b"2")]
    pipe.send(b"3")
    pipe.close()
    pipe.send(b"4")
    assert sent == [b"1\n2\n", b"3\n"]
    await asyncio.sleep(0)
    assert len(sent) == 2


async def test_a_frame_that_is_no_json_is_recorded_as_that_among_others() -> None:
    peer = Peer()
    written: list[bytes] = []
    pipe = peer.endpoint.pipe("stdio", "tester", written.append)
    pipe.feed(REQUEST + b'\n{"broken"\n' + REQUEST + b"\n")
    lines = b"".join(written).splitlines()
    assert ["error" in orjson.loads(line) for line in lines] == [False, True, False]
    (segment,) = peer.recording._store.ring.segments.values()
    assert segment.unchecked == {1}


async def test_nothing_is_sent_after_close() -> None:
    pipe, sent, _ = make_pipe()
    pipe.close()
    pipe.close()
    pipe.feed(REQUEST + b"\n")
    assert sent == []


async def test_a_peer_that_sends_no_more_need_not_wait_for_what_it_listens_to() -> None:
    pipe, _, _ = make_pipe()
    params = {"notifications": {}, "_meta": request_meta(V2026_07_28, {})}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    pipe.feed(orjson.dumps(message) + b"\n")
    pipe.eof()
    async with within():
        await pipe.drained()
    pipe.close()


async def test_when_the_client_has_left_only_calls_that_wait_for_an_answer_end() -> None:
    peer, ended = Peer(), dict[str, str]()
    may_end, runs = asyncio.Event(), asyncio.Event()

    async def ask(arguments: dict[str, Any], context: Context) -> None:
        try:
            await context.ask([Page("Continue?")])
        except asyncio.CancelledError:
            ended["ask"] = "cancelled"
            raise

    async def work(arguments: dict[str, Any], context: Context) -> None:
        runs.set()
        await may_end.wait()
        ended["work"] = "finished"

    peer.server.tools.replace([Tool(each.__name__, each, {"type": "object"}) for each in (ask, work)])
    peer.services.inbox.audience = 1
    await peer.shake_hands()
    for number, name in enumerate(("ask", "work"), 1):
        peer.request(number, "tools/call", {"name": name, "arguments": {}})
    async with within():
        await runs.wait()
        await until(peer.services.inbox.questions)
        peer.channel.dialogue.end_awaiting()
        await until(lambda: ended)
        may_end.set()
        await until(lambda: len(ended) == 2)
    assert ended == {"ask": "cancelled", "work": "finished"}


async def test_a_handler_that_computes_between_its_messages_is_heard_meanwhile() -> None:
    heard: list[int] = []

    def think() -> None:
        time.sleep(2 * MAX_TURN_S)

    async def compute(arguments: dict[str, Any], context: Context) -> Any:
        for step in (1, 2, 3):
            await context.progress(step)
            heard.append(peer.received[-1]["params"]["progress"] if peer.received else 0)
            think()

    peer = Peer()
    peer.server.tools.replace([Tool("compute", compute, {"type": "object"}, description="Compute.")])
    peer.modern(1, "tools/call", {"name": "compute", "arguments": {}}, progressToken="p")
    await peer.response(1)
    assert heard == [1, 2, 3]


async def test_an_answer_is_recorded_before_it_leaves() -> None:
    endpoint, frames, seen = Peer().endpoint, Frames(), list[int]()
    endpoint.recorder = frames
    channel = endpoint.channel("stdio", "tester", lambda _: seen.append(len(frames.seen)))
    channel.receive_all((REQUEST,))
    assert seen == [2]
    assert [direction for direction, _ in frames.seen] == [Direction.IN, Direction.OUT]


async def test_whoever_asks_anew_while_being_answered_is_recorded_in_order() -> None:
    endpoint, frames = Peer().endpoint, Frames()
    endpoint.recorder = frames
    more = [REQUEST, REQUEST]

    def write(_: Sequence[bytes]) -> None:
        if more:
            channel.receive(more.pop())

    channel = endpoint.channel("stdio", "tester", write)
    channel.receive(REQUEST)
    assert [direction for direction, _ in frames.seen] == [Direction.IN, Direction.OUT] * 3


async def test_frames_have_the_time_at_which_they_came_and_left() -> None:
    peer, times = Peer(), list[float]()

    async def work(arguments: dict[str, Any], context: Context) -> str:
        times.append(time.time())
        return "done"

    peer.server.tools.replace([Tool("work", work, {"type": "object"})])
    is_written = asyncio.Event()

    def write(_: Sequence[bytes]) -> None:
        times.append(time.time())
        is_written.set()

    channel = peer.endpoint.channel("stdio", "tester", write)
    meta = request_meta(V2026_07_28, {"name": "tester", "version": "1"})
    params = {"name": "work", "arguments": {}, "_meta": meta}
    before = time.time()
    channel.receive_all(
        (orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),)
    )
    async with within():
        await is_written.wait()
    came, left = (peer.recording.index.frame(number) for number in range(2))
    assert came is not None and left is not None
    began, written = times
    assert before <= came.time <= began <= left.time <= written


async def test_what_calls_report_side_by_side_leaves_in_the_order_of_each() -> None:
    both = asyncio.Barrier(2)

    async def steps(arguments: dict[str, Any], context: Context) -> Any:
        await context.progress(0)  # waits for a turn, as nothing was sent for long
        await both.wait()
        for step in range(1, 40):
            await context.progress(step / 2 if step % 7 == 0 else step)
            if step % 10 == 0:
                await context.log("info", step)
            if step % 3 == 0:
                await asyncio.sleep(0)
        return "done"

    peer = Peer()
    peer.server.tools.replace([Tool("steps", steps, {"type": "object"}, description="Steps.")])
    frames, written = Frames(), list[bytes]()
    peer.endpoint.recorder = frames
    pipe = peer.endpoint.pipe("stdio", "tester", written.append)
    asked = [
        orjson.dumps(
            {
                "jsonrpc": "2.0",
                "id": token,
                "method": "tools/call",
                "params": {
                    "name": "steps",
                    "arguments": {},
                    "_meta": request_meta(V2026_07_28, {}) | {"progressToken": token, LOG_LEVEL_KEY: "info"},
                },
            }
        )
        for token in ("a", "b")
    ]
    pipe.feed(b"\n".join([*asked, b""]))
    async with within():
        await pipe.drained()
    lines = b"".join(written).splitlines()
    assert [frame for way, frame in frames.seen if way is Direction.OUT] == lines
    told = [orjson.loads(line) for line in lines]
    numbers = [step for step in range(1, 40) if step % 7 or step / 2 > step - 1]
    for token in ("a", "b"):
        mine = [each["params"]["progress"] for each in told if _token(each) == token]
        assert mine == [0, *numbers]
        last = max(place for place, each in enumerate(told) if _token(each) == token)
        assert last < next(place for place, each in enumerate(told) if each.get("id") == token)
    # A log line contains the progress of its call: all of it was sent before.
    for place, each in enumerate(told):
        if each.get("method") == "notifications/message":
            step = each["params"]["data"]
            said = [_token(one) for one in told[:place] if one.get("params", {}).get("progress") == step]
            assert said
    pipe.close()


def _token(message: dict[str, Any]) -> object:
    return message.get("params", {}).get("progressToken")
