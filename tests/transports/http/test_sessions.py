"""Sessions end when unused, make room, and keep what nobody listened to."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import sessions as module
from mcpdesk.transports.http.sessions import Session, Sessions
from mcpdesk.transports.http.stream import EventStream
from tests.support.patience import WITHIN_S
from tests.support.rude import turn
from tests.support.served import Peer
from tests.support.site import serving


async def test_an_unused_session_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SWEEP_S", 0.01)
    kept = Sessions(ttl_s=0.0)
    session = Session(Peer().endpoint, "t")
    kept.keep(session)
    async with asyncio.timeout(WITHIN_S):
        while not session.is_closed:
            await turn()
    assert len(kept) == 0


async def test_the_longest_unused_session_makes_room() -> None:
    kept = Sessions(ttl_s=60, most=2)
    endpoint = Peer().endpoint
    first, second, third = (Session(endpoint, "t") for _ in range(3))
    kept.keep(first)
    kept.keep(second)
    assert kept.get(first.id, endpoint.name) is first
    kept.keep(third)
    assert second.is_closed
    assert kept.get(second.id, endpoint.name) is None
    assert kept.get(first.id, "another") is None
    kept.close()
    assert first.is_closed
    assert {each.conversation.transport for each in endpoint.dialogues.values()} == {"memory"}


async def test_sessions_in_use_make_no_room_and_a_new_one_is_told() -> None:
    async with serving(Rules(max_sessions=1)) as served:
        headers = await served.session()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Accept"] = "text/event-stream"
        async with served.client.get(f"{served.url}/mcp/sample", headers=named):
            params = {"protocolVersion": "2025-11-25", "capabilities": {}}
            body = {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": params}
            refused = await served.post(body)
            assert (refused.status, (await refused.json())["id"]) == (503, 4)
            assert "max_sessions" in await refused.text()
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **headers)).status == 200


@pytest.mark.requirement("4.7", "12.3")
async def test_ids_cannot_be_guessed_and_are_plain_ascii() -> None:
    endpoint = Peer().endpoint
    identifiers = {Session(endpoint, "t").id for _ in range(50)}
    assert len({each[:8] for each in identifiers}) == len({each[-8:] for each in identifiers}) == 50
    assert all(len(each) >= 32 and all("!" <= char <= "~" for char in each) for each in identifiers)


async def test_messages_wait_for_the_standing_stream() -> None:
    peer = Peer()
    session = Session(peer.endpoint, "t")
    session.standing.put(b"{}")

    class Stream(EventStream):
        def __init__(self) -> None:
            self.pieces: list[bytes] = []
            self._is_broken = False

        def put(self, piece: bytes) -> None:
            self.pieces.append(piece)

    stream = Stream()
    session.standing.attach(stream)
    assert stream.pieces == [b"id: 0:1\nevent: message\ndata: {}\n\n"]


async def test_room_is_found_quickly_among_many_sessions_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", 2)
    kept = Sessions(ttl_s=60, most=3)
    endpoint = Peer().endpoint
    used = [kept.begin(endpoint, "t") for _ in range(2)]
    unused = kept.begin(endpoint, "t")
    for session in (*used, unused):
        kept.keep(session)
    monkeypatch.setattr(Session, "is_unused", property(lambda self: self is unused))
    assert not kept.has_room()
    for session in used:
        kept.get(session.id, endpoint.name)
    assert kept.has_room()
    kept.keep(kept.begin(endpoint, "t"))
    assert unused.is_closed and not any(session.is_closed for session in used)
    kept.close()
