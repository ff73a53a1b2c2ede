"""Usual calls begin from their bytes as they do when decoded; repeated metadata is read once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcpdesk.auth.access import Access
from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.protocol import codec
from mcpdesk.protocol.revisions import R5
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, VERSION_KEY, request_meta
from mcpdesk.server import direct_way
from mcpdesk.server.context import Context
from mcpdesk.server.tool import Tool
from tests.support.served import Peer

META = request_meta(R5, {"name": "tester", "version": "1"})


def call(identifier: Any, meta: Any = None, **more: Any) -> bytes:
    """A call of `echo`; without `meta`, it has none."""
    params = {"name": "echo", "arguments": {"text": "a"}} | ({} if meta is None else {"_meta": meta}) | more
    return orjson.dumps({"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params})


def begun(peer: Peer, frame: bytes) -> bool:
    """Whether a frame goes the direct way; the call is not run."""
    conversation = peer.channel.dialogue.conversation
    principal = conversation.principal
    if not conversation.directly.begins(principal):
        return False
    answering = conversation.directly.answer_frame(conversation, frame, peer.channel, principal)
    if answering is None:
        return False
    answering.close()
    conversation.in_flight.clear()
    return True


async def test_metadata_that_is_repeated_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    really_decode = codec.decode

    def decode(data: memoryview) -> Any:
        decoded.append(bytes(data))
        return really_decode(data)

    monkeypatch.setattr(direct_way.codec, "decode", decode)
    peer = Peer()
    for number in range(3):
        assert begun(peer, call(number, META))
    assert len(decoded) == 1
    assert begun(peer, call(3, META | {"progressToken": 1}))
    assert begun(peer, call(4, META | {"progressToken": 1}))
    assert len(decoded) == 3
    assert begun(peer, call(5, META))
    assert len(decoded) == 3


async def test_every_call_is_served_under_its_own_terms() -> None:
    peer = Peer()
    await peer.shake_hands("2025-06-18")
    spoken = []
    for number, meta in enumerate((None, META, {"x": 1}, META, None, META | {"y": 1})):
        peer.send(call(number + 1, meta))
        answer = await peer.response(number + 1)
        spoken.append("resultType" in answer["result"])
    assert spoken == [False, True, False, True, False, True]


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION_KEY: R5.name},
        {VERSION_KEY: "2199-01-01", CAPABILITIES_KEY: {}},
        META | {CAPABILITIES_KEY: {"elicitation": {}}},
        [],
        5,
        None,
    ],
)
async def test_metadata_that_is_wrong_missing_or_unusual_is_left_to_the_long_way(meta: Any) -> None:
    peer = Peer()
    assert not begun(peer, call(1, meta))
    assert begun(peer, call(1, META))
    assert not begun(peer, call(1, meta))
    assert not begun(peer, call(1, 0).replace(b'"_meta":0', b'"_meta":null'))
    assert not begun(peer, call(1, META).replace(b"tester", b"t\xffster"))


async def test_arguments_and_ids_that_are_refused_are_left_to_the_long_way() -> None:
    peer = Peer()
    assert not begun(peer, call(1, META, arguments={"text": 5}))
    assert not begun(peer, call(1, META, arguments={}))
    assert not begun(peer, call(1, META, name="missing"))
    peer.modern(7, "tools/call", {"name": "forever", "arguments": {}})
    (running,) = peer.channel.dialogue.conversation.running
    assert not begun(peer, call(7, META))
    assert begun(peer, call("7", META))
    running.end("over")
    await peer.channel.drained()


async def test_a_session_that_changed_its_level_is_asked_each_time() -> None:
    peer = Peer()
    await peer.shake_hands()
    assert begun(peer, call(1))
    peer.request(2, "logging/setLevel", {"level": "debug"})
    await peer.response(2)
    conversation = peer.channel.dialogue.conversation
    answering = conversation.directly.answer_frame(
        conversation, call(3), peer.channel, conversation.principal
    )
    assert answering is not None
    answering.close()
    (running,) = conversation.running
    assert running.terms is conversation.session.terms


async def test_claims_a_client_brings_are_left_to_the_long_way_which_drops_them() -> None:
    peer = Peer()
    seen: list[dict[str, Any]] = []

    async def keep(arguments: dict[str, Any], context: Context) -> str:
        seen.append(arguments)
        return "kept"

    peer.server.tools.replace([Tool("echo", keep, {"type": "object"})])
    assert begun(peer, call(1, META))
    peer.send(call(2, META, arguments={"x": 1, "__jwt": {"sub": "eve"}}))
    await peer.response(2)
    assert seen == [{"x": 1}]


async def test_whoever_has_what_a_server_asks_for_goes_the_direct_way() -> None:
    peer = Peer()
    peer.server.access = Access(requires_token=True, scopes=frozenset({"read"}))
    for scopes, expires, is_direct in (("read", None, True), ("write", None, False), ("read", 9e12, False)):
        claims = {"sub": "ada"}
        conversation = peer.channel.dialogue.conversation
        conversation.principal = Principal("token", "ada", claims, frozenset({scopes}), expires)
        assert begun(peer, call(1, META)) is is_direct
    conversation.principal = OPEN
    assert not begun(peer, call(1, META))


async def test_calls_that_end_at_once_are_counted_together_and_those_that_wait_have_a_deadline() -> None:
    peer = Peer()
    conversation, deadlines = peer.channel.dialogue.conversation, peer.services.deadlines
    peer.modern(0, "tools/call", {"name": "echo", "arguments": {"text": "a"}})
    await peer.response(0)  # a lane is parked now
    frames = [call(number, META) for number in range(1, 71)]
    frames += [
        call("w", META, name="forever", arguments={}),
        call("b", META, name="brief", arguments={}),
    ]
    peer.channel.take_all(frames)
    assert conversation.latency is not None
    assert (conversation.calls, conversation.latency.count, len(deadlines)) == (73, 71, 2)
    assert "limit of 0.1 s" in str(await peer.response("b"))
    (waiting,) = conversation.running
    assert waiting.deadline is not None and waiting.limit_s == 30.0
    assert conversation.latency.count == 72
    peer.channel.close()
    await peer.channel.drained()
    assert (conversation.latency.count, len(deadlines)) == (73, 0)


async def test_a_tool_that_asks_before_it_waits_is_not_timed_while_the_person_thinks() -> None:
    peer = Peer()
    peer.inbox.audience = 1
    peer.modern(0, "tools/call", {"name": "echo", "arguments": {"text": "a"}})
    await peer.response(0)
    peer.channel.take_all([call(1, META, name="ask", arguments={})])
    (running,) = peer.channel.dialogue.conversation.running
    assert (running.pauses, running.deadline, running.limit_s) == (1, None, 0.1)
    assert 0 < running.left_s <= 0.1
    assert list(peer.services.deadlines) == [running]
    peer.inbox.decline(peer.inbox.questions()[0].id)
    assert "declined" in str(await peer.response(1))
