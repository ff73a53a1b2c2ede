"""Answers that are almost right: over a pipe, HTTP, event streams and WebSocket the call has its result."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client import child_process
from mcpdesk.client.answers import http_answers
from mcpdesk.client.answers.pending_replies import PendingReplies
from mcpdesk.client.child_process import ChildProcess, ProgramCommand
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.transport import ClientTransport, Incoming
from mcpdesk.client.web_socket import WebSocket
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.reading.remark import Remark
from mcpdesk.protocol.revisions import V2025_06_18
from mcpdesk.upstream.offers import read_offers
from tests.support.patience import within
from tests.support.scripted import Seen, http, scripted
from tests.support.scripted import json as json_answer

SERVER = """
import json, sys
out = sys.stdout.buffer
def say(data): out.write(data); out.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
    result["serverInfo"] = {"name": "x", "version": "1"}
    plain = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
    if asked["method"] == "initialize": say(json.dumps(plain).encode() + b"\\n"); continue
    plain["result"] = {"content": [{"type": "text", "text": "Gr\\u00fc\\u00dfe"}], "n": 1}
    text = json.dumps(plain, ensure_ascii=False)
    HABIT
"""
HABITS: list[tuple[str, str, str]] = [
    ("encoding", "latin-1", "say(text.encode('latin-1') + b'\\n')"),
    ("byte-order-mark", "utf-8", "say(b'\\xef\\xbb\\xbf' + text.encode() + b'\\n')"),
    ("nul", "utf-8", "say(text.encode() + b'\\0\\n')"),
    ("number", "utf-8", "say(text.replace('1}', 'NaN}').encode() + b'\\n')"),
    ("surrogate", "utf-8", "say(text.replace('Gr', '\\\\ud83d').encode() + b'\\n')"),
    ("id-type", "utf-8", "say(json.dumps({**plain, 'id': str(plain['id'])}).encode() + b'\\n')"),
    ("id-type", "utf-8", "say(json.dumps({**plain, 'id': float(plain['id'])}).encode() + b'\\n')"),
    ("several-lines", "utf-8", "say(json.dumps(plain, indent=1).encode() + b'\\n')"),
    ("several-messages", "utf-8", 'say((text + \'{"jsonrpc":"2.0","method":"x/y"}\').encode() + b\'\\n\')'),
    ("batch", "utf-8", "say(('[' + text + ']').encode() + b'\\n')"),
    ("content-length", "utf-8", "b = text.encode(); say(b'Content-Length: %d\\r\\n\\r\\n' % len(b) + b)"),
    ("syntax", "utf-8", "say(repr(plain).encode() + b'\\n')"),
    ("jsonrpc", "utf-8", "del plain['jsonrpc']; say(json.dumps(plain).encode() + b'\\n')"),
    ("text-around", "utf-8", "say(b'debug: ' + text.encode() + b'\\n')"),
    ("stdout", "utf-8", "say(b'working on it\\n' + text.encode() + b'\\r\\n')"),
]


class Noticed:
    """Remarks of a connection."""

    def __init__(self) -> None:
        self.remarks: list[tuple[Remark, Id | None]] = []

    def add(self, remark: Remark, request: Id | None) -> None:
        """Store a remark."""
        self.remarks.append((remark, request))

    @property
    def kinds(self) -> list[str]:
        """Their kinds."""
        return [remark.kind for remark, _ in self.remarks]


@asynccontextmanager
async def _connected(transport: ClientTransport) -> AsyncIterator[tuple[ServerConnection, Noticed]]:
    connection, noticed = (
        ServerConnection(transport, {"name": "t", "version": "1"}, revision=V2025_06_18),
        Noticed(),
    )
    connection.remark_listeners.append(noticed.add)
    try:
        async with within():
            yield connection, noticed
    finally:
        await connection.close()


def _program(habit: str) -> ChildProcess:
    text = SERVER.replace("HABIT", habit)
    return ChildProcess(ProgramCommand((sys.executable, "-c", text)))


async def _call(connection: ServerConnection) -> dict[str, Any]:
    return await connection.result("tools/call", {"name": "t", "arguments": {}})


@pytest.mark.process
@pytest.mark.parametrize(("kind", "encoding", "habit"), HABITS)
async def test_a_program_s_almost_right_answer_is_delivered_with_a_remark(
    kind: str, encoding: str, habit: str
) -> None:
    async with _connected(_program(habit)) as (connection, noticed):
        result = await _call(connection)
    assert result["content"][0]["text"].endswith("üße")
    assert kind in noticed.kinds
    assert kind == "stdout" or noticed.remarks[0][1] is not None


@pytest.mark.process
async def test_a_program_that_writes_utf_16_is_read() -> None:
    text = SERVER.replace("out.write(data)", "out.write(data.decode().encode('utf-16-le'))")
    program = text.replace("HABIT", "say(text.encode() + b'\\r\\n')")
    transport = ChildProcess(ProgramCommand((sys.executable, "-c", program)))
    async with _connected(transport) as (connection, noticed):
        assert (await _call(connection))["content"][0]["text"] == "Grüße"
    assert set(noticed.kinds) == {"utf-16"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("say(text.replace('1}', '1,\"n\":2}').encode() + b'\\n')", 'the key "n" is given more than once'),
        ("say(text[:40].encode() + b'\\n')", "cannot be read"),
        ('say(b\'{"jsonrpc":"2.0","id":%d}\\n\' % plain[\'id\'])', "neither a method nor a result"),
        ("say(json.dumps({**plain, 'id': None}).encode() + b'\\n')", "the answer has no id"),
        ("say(json.dumps({**plain, 'id': 0}).encode() + b'\\n')", "is to request 0"),
    ],
)
async def test_an_unclear_answer_fails_its_call_at_once(
    habit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "INCOMPLETE_S", 0.05)
    async with _connected(_program(habit)) as (connection, _):
        with pytest.raises(InvalidAnswer, match=words):
            await _call(connection)


@pytest.mark.process
async def test_an_answer_without_an_id_fails_all_that_it_can_mean() -> None:
    habit = "if asked['params'].get('name') == 'last': say(b'{\"jsonrpc\":\"2.0\",\"result\":{}}\\n')"
    async with _connected(_program(habit)) as (connection, noticed):
        await connection.open()
        waiting = [asyncio.ensure_future(_call(connection)) for _ in range(2)]
        await asyncio.sleep(0)
        last = connection.result("tools/call", {"name": "last", "arguments": {}})
        outcomes = await asyncio.gather(*waiting, last, return_exceptions=True)
    assert [type(each) for each in outcomes] == [InvalidAnswer] * 3
    assert "no-id" in noticed.kinds


async def test_second_and_unknown_answers_reach_who_receives_with_their_bytes() -> None:
    replies, came = PendingReplies(), list[Incoming]()
    with replies.pending_reply(3) as reply:
        replies.deliver(b'{"jsonrpc":"2.0","id":3,"result":{"n":1.50e1}}', came.append)
        assert (await reply).body.endswith(b'{"n":1.50e1}}')
        replies.deliver(b'{"jsonrpc":"2.0","id":3,"result":{"n":2.50e1}}', came.append)
    replies.deliver(b'{"jsonrpc":"2.0","id":3,"result":{ }}', came.append)
    replies.deliver(b'{"jsonrpc":"2.0","id":999,"result":{"n":1}}', came.append)
    assert [[remark.kind for remark in each.remarks] for each in came] == [
        ["repeated-answer"],
        ["repeated-answer"],
        ["unknown-id"],
    ]
    assert came[0].frame == b'{"jsonrpc":"2.0","id":3,"result":{"n":2.50e1}}'


PLAIN: dict[str, Any] = {"content": [{"type": "text", "text": "Grüße"}], "n": 1}
BODIES: list[tuple[str, Callable[[dict[str, Any]], bytes]]] = [
    ("encoding", lambda answer: json.dumps(answer, ensure_ascii=False).encode("latin-1")),
    ("byte-order-mark", lambda answer: b"\xef\xbb\xbf" + json.dumps(answer).encode()),
    ("utf-16", lambda answer: json.dumps(answer).encode("utf-16")),
    ("number", lambda answer: json.dumps(answer).replace('"n": 1', '"n": NaN').encode()),
    ("surrogate", lambda answer: json.dumps(answer).replace("Gr", "\\udc00").encode()),
    ("id-type", lambda answer: json.dumps({**answer, "id": str(answer["id"])}).encode()),
    ("batch", lambda answer: json.dumps([answer]).encode()),
    ("syntax", lambda answer: json.dumps(answer).replace("}]", "},]").encode()),
    ("jsonrpc", lambda answer: json.dumps({**answer, "jsonrpc": "1.0"}).encode()),
]


def _shaken(seen: Seen, body: Callable[[dict[str, Any]], bytes], media_type: str) -> bytes:
    asked = seen.message if isinstance(seen.message, dict) else {}
    if "id" not in asked:
        return http(202)
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": PLAIN}
    if asked["method"] == "initialize":
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        }
        return json_answer({**answer, "result": about})
    data = body(answer)
    if media_type != "application/json":
        data = b"data: " + data + b"\n\n"
    return http(200, data, media_type)


@pytest.mark.parametrize(
    ("kind", "body", "media_type"),
    # An event stream is UTF-8: UTF-16 would make its fields unreadable.
    [(*each, "application/json") for each in BODIES]
    + [(*each, "text/event-stream") for each in BODIES if each[0] != "utf-16"],
)
async def test_an_almost_right_answer_over_http_is_delivered_with_a_remark(
    kind: str, body: Callable[[dict[str, Any]], bytes], media_type: str
) -> None:
    async with (
        scripted(lambda seen: _shaken(seen, body, media_type)) as server,
        _connected(StreamableHttp(server.url, {})) as (connection, noticed),
    ):
        result = await _call(connection)
    assert result["content"][0]["text"].endswith("üße")
    assert noticed.kinds == [kind] and noticed.remarks[0][1] is not None
    if kind == "batch":
        assert noticed.remarks[0][0].at == 0, "the array is the whole message"


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_an_answer_with_a_key_given_twice_fails_over_http(media_type: str) -> None:
    def twice(answer: dict[str, Any]) -> bytes:
        return json.dumps(answer).replace('"n": 1', '"n": 1, "n": 2').encode()

    async with (
        scripted(lambda seen: _shaken(seen, twice, media_type)) as server,
        _connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(InvalidAnswer, match='the key "n" is given more than once'):
            await _call(connection)


async def test_an_event_with_another_id_ends_a_call_that_gets_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_answers, "OWN_ANSWER_S", 0.05)

    def other(answer: dict[str, Any]) -> bytes:
        return json.dumps({**answer, "id": 0}).encode()

    async with (
        scripted(lambda seen: _shaken(seen, other, "text/event-stream")) as server,
        _connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(InvalidAnswer, match="is to request 0, not to"):
            await _call(connection)


async def test_an_almost_right_answer_over_a_web_socket_is_delivered() -> None:
    async def answer(request: web.BaseRequest) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(protocols=("mcp",))
        await socket.prepare(request)
        async for message in socket:
            asked = json.loads(message.data)
            about = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "x", "version": "1"},
            }
            result = about if asked["method"] == "initialize" else PLAIN
            if "id" in asked:
                said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
                await socket.send_bytes(json.dumps(said, ensure_ascii=False).encode("latin-1"))
        return socket

    async with RawTestServer(answer) as server:
        url = str(server.make_url("/")).replace("http", "ws", 1)
        async with _connected(WebSocket(url, {})) as (connection, noticed):
            assert (await _call(connection))["content"][0]["text"] == "Grüße"
    assert noticed.kinds == ["encoding"]


ASKING = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        result = {"content": [{"type": "text", "text": json.dumps(message)}]}
    elif message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif message["method"] == "tools/call":
        waiting = message["id"]
        print(*[json.dumps({"jsonrpc": "2.0", **QUESTION})] * TIMES, sep="\\n", flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message.get("id") if "method" in message else waiting,
        "result": result}), flush=True)
"""


def _asking(question: dict[str, Any], times: int = 1, capabilities: object = None) -> ChildProcess:
    text = ASKING.replace("QUESTION", repr(question)).replace("TIMES", str(times))
    return ChildProcess(
        ProgramCommand((sys.executable, "-c", text.replace("CAPABILITIES", repr(capabilities or {}))))
    )


async def _accepted(params: dict[str, Any], subject: str) -> dict[str, Any]:
    return {"action": "accept"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("question", "answered", "fault"),
    [
        ({"id": 1.5, "method": "roots/list"}, 1.5, "roots/list, which was refused: its id is neither"),
        ({"id": None, "method": "roots/list"}, None, "its id is neither a text nor an integer"),
        ({"id": {}, "method": "ping"}, None, "its id is neither a text nor an integer"),
        ({"id": "q", "method": "elicitation/create", "params": []}, "q", "elicitation/create, which was"),
    ],
)
async def test_a_request_of_the_server_that_cannot_be_answered_gets_an_error_and_a_remark(
    question: dict[str, Any], answered: object, fault: str
) -> None:
    identity, noticed = {"name": "t", "version": "1"}, Noticed()
    questions = {"elicitation/create": _accepted}
    connection = ServerConnection(
        _asking(question), identity, questions=lambda: questions, revision=V2025_06_18
    )
    connection.remark_listeners.append(noticed.add)
    try:
        async with within():
            told = json.loads((await _call(connection))["content"][0]["text"])
    finally:
        await connection.close()
    assert told["id"] == answered and "error" in told
    assert [remark.kind for remark, _ in noticed.remarks] == ["question"]
    assert fault in noticed.remarks[0][0].text


@pytest.mark.process
async def test_a_question_that_is_sent_twice_is_answered_once() -> None:
    params = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    question = {"id": "q", "method": "elicitation/create", "params": params}
    repeated, noticed = asyncio.Event(), Noticed()

    async def answer(params: dict[str, Any], subject: str) -> dict[str, Any]:
        await repeated.wait()
        return {"action": "accept"}

    identity = {"name": "t", "version": "1"}
    connection = ServerConnection(
        _asking(question, 2),
        identity,
        questions=lambda: {"elicitation/create": answer},
        revision=V2025_06_18,
    )
    connection.remark_listeners += [noticed.add, lambda remark, request: repeated.set()]
    try:
        async with within():
            told = json.loads((await _call(connection))["content"][0]["text"])
    finally:
        await connection.close()
    assert told["result"] == {"action": "accept"}
    assert "repeated its request elicitation/create" in noticed.remarks[0][0].text


@pytest.mark.process
async def test_capabilities_that_are_no_object_are_named() -> None:
    async with _connected(_asking({}, capabilities=["tools"])) as (connection, noticed):
        await connection.discover_server()
    assert [remark.text for remark, _ in noticed.remarks] == [
        'capabilities is ["tools"]; it must be an object'
    ]


@pytest.mark.process
async def test_a_declared_capability_that_is_no_object_is_named() -> None:
    habit = "plain['result'] = {'tools': []}; say(json.dumps(plain).encode() + b'\\n')"
    async with _connected(_program(habit)) as (connection, _):
        await connection.discover_server()
        _, problems = await read_offers(connection, {"tools": False, "logging": {}})
    assert problems == ("initialize: the capability 'tools' is false; it must be an object",)
