"""Tables and queues of a channel that clients share have limits that a server or a slow client can reach."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from mcpdesk.client.child_process import ProgramRun
from mcpdesk.errors import CallError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import event
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.reading.message import QUICK_BYTES, read_frame
from mcpdesk.upstream import passed_channel
from mcpdesk.upstream.channel_pass_through import ChannelPassThrough
from mcpdesk.upstream.channels import ChannelCallbacks, ProgramChannel
from mcpdesk.upstream.passed_channel import ClientStream, PassedChannel, PendingMessages, in_event
from tests.support.patience import WITHIN_S, until, within


class Server:
    """Implements `Channels` and their channel; passes all messages to `heard`."""

    has_lines = holds_credentials = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.heard: ChannelCallbacks

    def sender_headers(self, given: Mapping[str, str]) -> dict[str, str]:
        return {}

    async def open(self, sender: Mapping[str, str], heard: ChannelCallbacks) -> Server:
        self.heard = heard
        return self

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def end(self) -> None: ...

    async def close(self) -> None: ...

    def say(self, data: bytes) -> None:
        """Send a message."""
        self.heard.on_message(data, None)


def answer(identifier: int, mark: str = "") -> bytes:
    return b'{"jsonrpc": "2.0", "id": %d, "result": {"mark": "%b"}}' % (identifier, mark.encode())


async def test_second_answers_go_to_the_takers_of_the_latest_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed_channel, "MAX_REMEMBERED_IDS", 2)
    server, strays = Server(), list[bytes]()
    takers: dict[int, list[bytes]] = {number: [] for number in (1, 2, 3)}
    channel = PassedChannel("far", strays.append, lambda: None, strays.append)
    await channel.open(server, {})
    for number, taker in takers.items():
        message = {"jsonrpc": "2.0", "id": number, "method": "ping"}
        waiting = PendingMessages(taker.append)
        async with channel.request(message, codec.encode(message), waiting, is_alone=False):
            server.say(answer(number))
            assert await waiting.next_message(WITHIN_S) == (answer(number), True)
    for number in takers:
        server.say(answer(number, "again"))
    assert takers[2] == [answer(2, "again")]
    assert takers[3] == [answer(1, "again"), answer(3, "again")], "the first request is forgotten"


async def test_a_server_that_ends_answers_its_requests_for_the_last_time() -> None:
    server, strays = Server(), list[bytes]()
    channel = PassedChannel("far", strays.append, lambda: None, strays.append)
    await channel.open(server, {})
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    waiting = PendingMessages(strays.append)
    async with channel.request(message, codec.encode(message), waiting, is_alone=False):
        server.heard.on_end(CallError("it has crashed"))
        async with within():
            (last,) = [each async for each in waiting.messages()]
    assert b"far: it has crashed" in last and strays == []


async def test_of_a_client_that_reads_too_slowly_messages_go_to_the_record_and_its_answer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(passed_channel, "MAX_HELD_BYTES", 100)
    unclaimed: list[bytes] = []
    waiting = PendingMessages(unclaimed.append)
    told = [b"%d" % number * 60 for number in range(4)]
    for each in told:
        waiting.put(each)
    waiting.put(b"answer", True)
    assert [each async for each in waiting.messages()] == [*told[:2], b"answer"]
    assert unclaimed == told[2:]


async def test_a_stream_whose_client_leaves_too_much_unread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_channel, "MAX_HELD_BYTES", 100)
    stream = ClientStream()
    stream.put(b"a" * 60)
    assert not stream.is_broken
    stream.put(b"b" * 60)
    assert stream.is_broken
    async with within():
        assert len([each async for each in stream.pieces()]) == 2


async def test_messages_of_a_batch_pass_byte_for_byte() -> None:
    server, strays = Server(), list[bytes]()
    passed = ChannelPassThrough("far", server, lambda: 1, 60.0, strays.append, lambda tool: {}, dict)
    opening = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}

    async def post(body: bytes, session: str, *answers: bytes) -> tuple[bytes, str]:
        headers = {"Accept": "application/json", "Mcp-Session-Id": session}
        before = len(server.sent)

        async def play() -> None:
            await until(lambda: len(server.sent) != before)
            for each in answers:
                server.say(each)

        playing = asyncio.create_task(play())
        async with within(), passed.ask("POST", headers, body) as answer:
            whole = b"".join([piece async for piece in answer.chunks()])
        await playing
        return whole, dict(answer.headers).get("mcp-session-id", "")

    handshake_answer = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}'
    _, session = await post(codec.encode(message), "", handshake_answer)
    parts = [
        b'{"jsonrpc": "2.0", "method": "notifications/x", "params": {"n": 1.50e1}}',
        b'{ "id":1,"jsonrpc":"2.0","method" :"tools/call","params":{"n":12345678901234567890,"t":"\\u00fc"}}',
    ]
    told, _ = await post(b"[ %b ,\n%b ]" % (*parts,), session, answer(1))
    assert server.sent[1:] == parts and told == b"[%b]" % answer(1)
    await passed.close()


async def test_a_message_of_several_lines_reaches_a_program_as_one_line_and_otherwise_unchanged() -> None:
    written: list[bytes] = []

    class Run:
        async def write(self, data: bytes) -> None:
            written.append(data)

    await ProgramChannel(cast(ProgramRun, Run())).send(b'{\r\n "n": 1.50e1,\n "t": "a\\nb"}')
    assert written == [b'{   "n": 1.50e1,  "t": "a\\nb"}\n']


async def test_an_id_that_two_clients_use_is_replaced_and_restored_without_decoding_a_large_answer_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, strays = Server(), list[bytes]()
    channel = PassedChannel("far", strays.append, lambda: None, strays.append)
    await channel.open(server, {})
    sent = b'{ "jsonrpc":"2.0" ,"id": 7,"method":"tools/call","params":{"_meta":{"progressToken": 1.0e0}}}'
    first, second = PendingMessages(strays.append), PendingMessages(strays.append)
    async with (
        channel.request(codec.decode(sent), sent, first, is_alone=True),
        channel.request(codec.decode(sent), sent, second, is_alone=True),
    ):
        assert server.sent[0] == sent
        alias = codec.decode(server.sent[1])["id"]
        assert server.sent[1] == sent.replace(b" 7,", b' "%b",' % alias.encode())
        line = b'{ "result" : {"text" : "%b"}, "id":"%b" ,"jsonrpc":"2.0"}' % (
            b"x" * QUICK_BYTES,
            alias.encode(),
        )
        read = read_frame(line)
        monkeypatch.setattr(codec, "decode", None)
        server.heard.on_message(line, read)
        taken = await second.next_message(WITHIN_S)
        assert taken == (line.replace(b'"%b"' % alias.encode(), b"7"), True)
        monkeypatch.undo()
    assert strays == []


async def test_an_answer_costs_the_same_however_many_requests_have_progress_tokens() -> None:
    class Tokens(dict[Id, Id]):
        scans = 0

        def items(self) -> Any:
            self.scans += 1
            return super().items()

    server, strays = Server(), list[bytes]()
    channel = PassedChannel("far", strays.append, lambda: None, strays.append)
    await channel.open(server, {})
    tokens = channel._ids_by_token = Tokens()
    asked = []
    async with AsyncExitStack() as stack:
        for number in (1, 2):
            params = {"_meta": {"progressToken": f"t{number}"}}
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            asked.append(PendingMessages(strays.append))
            request = channel.request(message, codec.encode(message), asked[-1], is_alone=True)
            await stack.enter_async_context(request)
        server.say(answer(1))
        assert await asked[0].next_message(WITHIN_S) == (answer(1), True)
        progress = codec.notification("notifications/progress", {"progressToken": "t2", "progress": 1})
        server.say(progress)
        assert await asked[1].next_message(WITHIN_S) == (progress, False)
        assert tokens.scans == 0
        server.say(answer(2))
    assert not strays and not channel._ids_by_token


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_every_line_of_a_message_is_data_of_its_event(end: bytes) -> None:
    """A line without `data: ` would be another field, or would end the event."""
    message = end.join([b'{"jsonrpc": "2.0",', b'"id": 1, "result": {}}'])
    head, *lines = event(in_event(message)).replace(b"\r", b"\n").removesuffix(b"\n\n").split(b"\n")
    assert head == b"event: message"
    assert [line for line in lines if not line.startswith(b"data: ")] == []
    assert codec.decode(b"\n".join(line.removeprefix(b"data: ") for line in lines)) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {},
    }
    waiting = PendingMessages(lambda line: None)
    waiting.put(message, True)
    assert [each async for each in waiting.events()] == [event(in_event(message))]
    assert in_event(b'{"a": 1}') == b'{"a": 1}'
