"""A client resumes a stream, in the memory of its process and through the engine, with equal results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import pytest

from mcpdesk.features.replicas.engine import engine as engines
from mcpdesk.features.replicas.engine import engine_streams
from mcpdesk.features.replicas.engine.engine import Engine, EngineRefusal, EngineUnavailable
from mcpdesk.features.replicas.engine.engine_streams import MAX_EVENT_BYTES, EngineStreams
from mcpdesk.protocol.event_store import (
    BusPosition,
    EventStore,
    Resumable,
    ResumableStream,
    SharedEventBudget,
    call_mark,
    marked_call,
    numbered_event,
    parse_event_id,
    position_of,
)
from tests.load.faults import EngineLine
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.patience import WITHIN_S, until

__all__ = ["shared_engine"]

SESSION = "ab12"
MARK = call_mark("call")
LOST = b'{"lost":true}'


class Connection:
    """Receives the data of a stream."""

    def __init__(self) -> None:
        self.is_broken = False
        self.pieces: list[bytes] = []
        self.is_let_go = False

    def put(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def let_go(self) -> None:
        self.is_let_go = True

    @property
    def messages(self) -> list[bytes]:
        """Received messages, without ids."""
        return [piece.partition(b"data: ")[2].strip() for piece in self.pieces]


class Place(Protocol):
    """Store of one session's streams, with the access of a returning client."""

    store: EventStore[Any]

    def reach(self, event_id: str) -> Resumable[Connection]:
        """Return the stream for a client that received this event last."""


class InMemory:
    def __init__(self, store: EventStore[Any]) -> None:
        self.store = store

    def reach(self, event_id: str) -> Resumable[Connection]:
        found = self.store.find(event_id)
        assert found is not None
        return found[0]


class InEngine:
    def __init__(self, store: EventStore[Any], owner: EngineStreams, other: EngineStreams) -> None:
        self.store, self.other, self.is_held, self.asked = store, other, True, 0
        store.archive = partial(owner.write_soon, SESSION)

    def reach(self, event_id: str) -> Resumable[Connection]:
        place = parse_event_id(event_id)
        assert place is not None
        sends_priming_event = self.store.sends_priming_event
        return self.other.open(
            SESSION, place, lambda: self.is_held, LOST, self._ask, sends_priming_event=sends_priming_event
        )

    def _ask(self) -> None:
        self.asked += 1


def new_store(most_events: int = 100) -> EventStore[Any]:
    return EventStore[Any](1 << 25, most_events, SharedEventBudget(1 << 30))


@pytest.fixture(params=["memory", pytest.param("engine", marks=needs_engine)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "memory":
        yield InMemory(new_store(most_events=4))
        return
    server: EngineServer = request.getfixturevalue("shared_engine")
    engines = [Engine(server.url, deployment(tmp_path)) for _ in range(2)]
    streams = [EngineStreams(each, 60) for each in engines]
    yield InEngine(new_store(most_events=4), *streams)
    for each, engine in zip(streams, engines, strict=True):
        await each.close()
        await engine.close()


def begun(place: Place, *messages: bytes) -> ResumableStream[Any]:
    """A stream whose client received the first message and then lost its connection."""
    stream, first = place.store.open(MARK), Connection()
    stream.attach(first)
    stream.put(messages[0])
    stream.detach(first)
    for each in messages[1:]:
        stream.put(each)
    return stream


@pytest.mark.process
async def test_what_was_missed_comes_once_and_in_order_and_then_what_follows(place: Place) -> None:
    stream, connection = begun(place, b"1", b"2", b"3"), Connection()
    place.reach("0:1").attach(connection, connection.let_go, 1)
    await until(lambda: connection.messages == [b"2", b"3"])
    stream.put(b"4")
    await until(lambda: connection.messages == [b"2", b"3", b"4"])
    assert not connection.is_let_go
    stream.put(b"5")
    stream.end()
    await until(lambda: connection.is_let_go)
    assert connection.messages == [b"2", b"3", b"4", b"5"]
    assert connection.pieces == [numbered_event(0, each, MARK, b"%d" % each) for each in range(2, 6)]


@pytest.mark.process
async def test_of_a_stream_that_is_over_the_rest_comes_and_its_connection_ends(place: Place) -> None:
    begun(place, b"1", b"2").end()
    for after, expected in ((0, [b"1", b"2"]), (1, [b"2"]), (2, [])):
        connection = Connection()
        place.reach(f"0:{after}").attach(connection, connection.let_go, after)
        await until(lambda connection=connection: connection.is_let_go)  # type: ignore[misc]
        assert connection.messages == expected


@pytest.mark.process
async def test_of_several_streams_each_client_gets_its_own(place: Place) -> None:
    streams = [begun(place, b"first"), begun(place, b"second")]
    connections = [Connection(), Connection()]
    for number, each in enumerate(connections):
        place.reach(f"{number}:1").attach(each, each.let_go, 1)
    for number, stream in enumerate(streams):
        stream.put(b"%d" % number)
    await until(lambda: [each.messages for each in connections] == [[b"0"], [b"1"]])


@pytest.mark.process
async def test_who_comes_back_again_takes_the_stream_over(place: Place) -> None:
    stream, earlier, later = begun(place, b"1", b"2"), Connection(), Connection()
    place.reach("0:1").attach(earlier, earlier.let_go, 1)
    await until(lambda: earlier.messages == [b"2"])
    place.reach("0:2").attach(later, later.let_go, 2)
    assert earlier.is_let_go
    stream.put(b"3")
    await until(lambda: later.messages == [b"3"])
    assert earlier.messages == [b"2"]


@pytest.mark.process
async def test_a_connection_that_ended_is_sent_nothing_more(place: Place) -> None:
    stream, gone, later = begun(place, b"1"), Connection(), Connection()
    reached = place.reach("0:1")
    reached.attach(gone, gone.let_go, 1)
    reached.detach(gone)
    stream.put(b"2")
    place.reach("0:1").attach(later, later.let_go, 1)
    await until(lambda: later.messages == [b"2"])
    assert gone.messages == []


@pytest.mark.process
async def test_only_the_newest_events_are_kept(place: Place) -> None:
    begun(place, *(b"%d" % each for each in range(1, 11))).end()
    connection = Connection()
    place.reach("0:1").attach(connection, connection.let_go, 1)
    await until(lambda: connection.is_let_go)
    assert connection.messages == [b"7", b"8", b"9", b"10"]


@pytest.mark.process
async def test_a_client_that_knows_ids_without_messages_gets_its_place_first(place: Place) -> None:
    place.store.sends_priming_event = True
    begun(place, b"1", b"2").end()
    connection = Connection()
    place.reach(f"0:1:{MARK}").attach(connection, connection.let_go, 1)
    await until(lambda: connection.is_let_go)
    assert connection.pieces == [numbered_event(0, 1, MARK, b""), numbered_event(0, 2, MARK, b"2")]


@pytest.mark.parametrize("identifier", [0, -7, 2**53, "", "call", "4f0c-ünï:\n", "s"])
def test_event_ids_name_the_call_whatever_its_id_is(identifier: int | str) -> None:
    piece = numbered_event(3, 4, call_mark(identifier), b"{}")
    head = piece.split(b"\n")[0]
    place = parse_event_id(head.removeprefix(b"id: ").decode())
    assert place is not None and place[:2] == (3, 4)
    assert place.mark is not None and marked_call(place.mark) == identifier


def test_a_call_with_an_endless_id_is_not_named() -> None:
    assert call_mark("x" * 1000) == call_mark(None) == ""
    assert marked_call("") is None is marked_call("x")
    assert parse_event_id("3:4") == (3, 4, None)
    assert parse_event_id("3:4:") == (3, 4, "")
    assert parse_event_id("3:4:" + "x" * 201) is None


def test_event_ids_of_a_standing_stream_say_what_its_client_has_heard() -> None:
    store, connection = new_store(), Connection()
    heard = BusPosition("1764166000000-3", 17, "ab12cd34")
    store.bus_position = lambda: heard
    standing, answering = store.open(), store.open(MARK)
    standing.attach(connection)
    standing.put(b"{}")
    answering.put(b"1")
    place = position_of(connection.pieces[0])
    assert place is not None and (place.stream, place.number) == (0, 1)
    assert (place.bus_position, place.call) == (heard, None)
    assert answering.events == [(1, numbered_event(1, 1, MARK, b"1"))]
    for other in (f"1:1:{MARK}", "1:1", "1:1:h", "1:1:h1-2-3", "1:1:hab-2-3-x"):
        found = parse_event_id(other)
        assert found is not None and found.bus_position is None


@pytest.fixture
async def pair(shared_engine: EngineServer, tmp_path: Path) -> AsyncIterator[InEngine]:
    engines = [Engine(shared_engine.url, deployment(tmp_path)) for _ in range(2)]
    streams = [EngineStreams(each, 60) for each in engines]
    yield InEngine(new_store(), *streams)
    for each, engine in zip(streams, engines, strict=True):
        await each.close()
        await engine.close()


@pytest.mark.process
@needs_engine
async def test_when_its_replica_is_gone_a_stream_ends_with_an_error(pair: InEngine) -> None:
    begun(pair, b"1", b"2")
    connection = Connection()
    pair.reach(f"0:1:{MARK}").attach(connection, connection.let_go, 1)
    await until(lambda: connection.messages == [b"2"])
    pair.is_held = False
    await until(lambda: connection.is_let_go)
    assert connection.pieces[-1] == numbered_event(0, 3, MARK, LOST)


@pytest.mark.process
@needs_engine
async def test_a_client_is_let_go_soon_while_the_line_to_the_engine_is_silent(
    tmp_path: Path, shared_engine: EngineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "COMMAND_TIMEOUT_S", 10 * WITHIN_S)  # of all other commands
    line = EngineLine(shared_engine.port)
    engine = Engine(f"redis://127.0.0.1:{await line.start()}/0", deployment(tmp_path))
    streams = EngineStreams(engine, 60)
    pair = InEngine(new_store(), streams, streams)
    begun(pair, b"1", b"2")
    connection = Connection()
    pair.reach("0:1").attach(connection, connection.let_go, 1)
    await until(lambda: connection.messages == [b"2"])
    line.silence()
    await until(lambda: connection.is_let_go)
    line.mend()
    await streams.close()
    await engine.close()
    await line.close()


@pytest.mark.process
@needs_engine
async def test_a_stream_is_asked_for_again_while_nothing_comes(
    pair: InEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is lost if a replica misses an event of the others."""
    monkeypatch.setattr(engine_streams, "RETRY_S", 0.01)
    stream, connection = begun(pair, b"1"), Connection()
    pair.reach(f"0:1:{MARK}").attach(connection, connection.let_go, 1)
    assert pair.asked == 1
    await until(lambda: pair.asked > 2)
    stream.put(b"2")
    stream.end()
    await until(lambda: connection.is_let_go)
    assert connection.messages == [b"2"]


@pytest.mark.process
@needs_engine
async def test_a_stream_that_cannot_be_written_holds_up_no_other(
    pair: InEngine, shared_engine: EngineServer, tmp_path: Path
) -> None:
    key = f"{{{deployment(tmp_path)}}}:stream:{SESSION}:0"
    shared_engine.ask("SET", key, "no stream")
    begun(pair, b"1")
    begun(pair, b"2").end()
    connection = Connection()
    pair.reach(f"1:0:{MARK}").attach(connection, connection.let_go, 0)
    await until(lambda: connection.is_let_go)
    assert connection.messages == [b"2"]
    shared_engine.ask("DEL", key)


@pytest.mark.process
@needs_engine
async def test_a_stream_that_its_replica_does_not_have_ends_with_an_error(pair: InEngine) -> None:
    connection = Connection()
    pair.reach(f"7:3:{MARK}").attach(connection, connection.let_go, 3)
    pair.other.deny_soon(SESSION, 7, 3)
    await until(lambda: connection.is_let_go)
    assert connection.pieces == [numbered_event(7, 4, MARK, LOST)]


@pytest.mark.process
@needs_engine
async def test_an_event_that_is_too_big_for_the_engine_is_told_as_lost(pair: InEngine) -> None:
    begun(pair, b"1", b"2", b"x" * MAX_EVENT_BYTES, b"4").end()
    connection = Connection()
    pair.reach(f"0:1:{MARK}").attach(connection, connection.let_go, 1)
    await until(lambda: connection.is_let_go)
    assert connection.messages == [b"2", LOST]


@pytest.mark.process
@needs_engine
async def test_what_cannot_be_written_is_written_when_the_engine_is_back(tmp_path: Path) -> None:
    with engine_server() as server:
        engine = Engine(server.url, deployment(tmp_path))
        await engine.start()
        streams = EngineStreams(engine, 60)
        pair = InEngine(new_store(), streams, streams)
        server.kill()
        stream, early, later = begun(pair, b"1", b"2"), Connection(), Connection()
        await until(lambda: not engine.status.is_up)
        pair.reach("0:1").attach(early, early.let_go, 1)
        await until(lambda: early.is_let_go)  # its client comes back and must wait
        stream.end()
        server.start()
        await until(lambda: engine.status.is_up)
        pair.reach("0:1").attach(later, later.let_go, 1)
        await until(lambda: later.is_let_go)
        assert (early.messages, later.messages) == ([], [b"2"])
        await streams.close()
        await engine.close()


@pytest.mark.process
@needs_engine
async def test_streams_of_a_session_that_ended_are_removed(
    pair: InEngine, shared_engine: EngineServer, tmp_path: Path
) -> None:
    begun(pair, b"1", b"2")
    connection = Connection()
    pair.reach("0:1").attach(connection, connection.let_go, 1)
    await until(lambda: connection.messages == [b"2"])
    pair.other.remove_soon(SESSION, pair.store.archived)
    pair.other.disconnect(SESSION)
    assert connection.is_let_go
    await until(lambda: "stream" not in shared_engine.ask("KEYS", f"*{deployment(tmp_path)}*"))


class RefusingEngine:
    """An engine that refuses writes of some keys, and of no other."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.written: list[str] = []
        self.on_refusal: Callable[[], object] = lambda: None

    def key(self, *parts: str) -> str:
        return ":".join(parts)

    async def run(self, work: Callable[[Any], Awaitable[object]]) -> object:
        return await work(self)

    async def delete(self, *keys: str) -> None:
        self._write(*keys)

    async def script(self, text: str, keys: list[str], arguments: list[Any]) -> None:
        self._write(*keys)

    def _write(self, *keys: str) -> None:
        if self.refused.intersection(keys):
            self.on_refusal()
            raise EngineUnavailable("not this one", EngineRefusal.OTHER)
        self.written += keys


async def test_a_refused_deletion_or_denial_delays_no_other_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_streams, "PAUSE_S", 0.0)
    engine = RefusingEngine()
    streams, store = EngineStreams(cast(Engine, engine), 60), new_store()
    engine.refused = {"stream:gone:1", f"stream:{SESSION}:7"}
    streams.remove_soon("gone", [1])
    streams.deny_soon(SESSION, 7, 3)
    store.archive = partial(streams.write_soon, SESSION)
    begun(InMemory(store), b"1", b"2")
    await until(lambda: f"stream:{SESSION}:0" in engine.written)
    engine.refused.clear()
    await until(lambda: {"stream:gone:1", f"stream:{SESSION}:7"} <= set(engine.written))
    await streams.close()


async def test_a_stream_that_is_removed_while_its_write_fails_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_streams, "PAUSE_S", 0.0)
    engine, key = RefusingEngine(), f"stream:{SESSION}:0"
    streams, store = EngineStreams(cast(Engine, engine), 60), new_store()
    store.archive = partial(streams.write_soon, SESSION)

    def remove() -> None:
        engine.refused.clear()
        streams.remove_soon(SESSION, [0])

    engine.refused, engine.on_refusal = {key}, remove
    begun(InMemory(store), b"1", b"2")
    assert streams._write_task is not None
    await streams._write_task
    assert engine.written == [key], "it is deleted, and nothing follows"
    await streams.close()
