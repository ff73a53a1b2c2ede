"""Events of a session are kept within limits, and other replicas find what they need in the archive."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.event_store import EventStore, ResumableStream, SharedEventBudget


class Connection:
    """Implements `Carrier`."""

    def __init__(self) -> None:
        self.is_broken = False
        self.pieces: list[bytes] = []
        self.is_let_go = False

    def put(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def let_go(self) -> None:
        self.is_let_go = True


Written = list[tuple[int, bool, list[int]]]
"""Number of a stream, whether it is complete, and the numbers of its kept events, for each write."""


def new_store(
    max_bytes: int = 1000, max_events: int = 100, budget: SharedEventBudget | None = None
) -> EventStore[Connection]:
    return EventStore(max_bytes, max_events, budget or SharedEventBudget(1 << 20))


def archiving(store: EventStore[Connection]) -> Written:
    """Let a store write to an archive, which is the result."""
    written: Written = []

    def archive(stream: ResumableStream[Connection]) -> None:
        stream.archived = stream.last
        written.append((stream.number, stream.is_over, [number for number, _ in stream.events]))

    store.archive = archive
    return written


def test_a_stream_that_its_client_reads_to_the_end_is_not_archived() -> None:
    store, connection = new_store(), Connection()
    written = archiving(store)
    stream = store.open()
    stream.attach(connection, connection.let_go)
    stream.put(b"1")
    assert not connection.is_let_go
    stream.end()
    assert connection.is_let_go and written == []
    assert stream.is_over and not stream.is_connected


def test_the_end_of_an_archived_stream_is_archived() -> None:
    store, first, second = new_store(), Connection(), Connection()
    written = archiving(store)
    stream = store.open()
    stream.attach(first)
    stream.put(b"1")
    stream.detach(first)
    assert written == [(0, False, [1])]
    stream.put(b"2")
    assert written[1:] == [(0, False, [1, 2])]
    stream.attach(second, after=1)
    stream.put(b"3")
    assert len(written) == 2, "the client has it"
    stream.end()
    assert written[2:] == [(0, True, [1, 2, 3])]


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_end_of_a_stream_without_a_client_is_archived(is_broken: bool) -> None:
    store = new_store()
    written = archiving(store)
    stream = store.open()
    if is_broken:
        connection = Connection()
        stream.attach(connection)
        connection.is_broken = True
    stream.end()
    assert written == [(0, True, [])]


def test_everything_is_archived_when_the_process_ends() -> None:
    store, connection = new_store(), Connection()
    written = archiving(store)
    carried, empty = store.open(), store.open()
    carried.attach(connection)
    carried.put(b"1")
    store.leave()
    assert written == [(0, False, [1])]
    carried.put(b"2")
    assert written[1:] == [(0, False, [1, 2])]
    assert len(connection.pieces) == 2
    empty.end()
    assert written[2:] == [(1, True, [])]
    assert store.archived == [0]


def test_an_archived_stream_is_written_again_without_the_events_that_are_dropped() -> None:
    store = new_store(max_events=2)
    written = archiving(store)
    archived, other = store.open(), store.open()
    archived.put(b"1")
    connection = Connection()
    other.attach(connection)
    other.put(b"1")
    assert written == [(0, False, [1])]
    other.put(b"2")
    assert written[1:] == [(0, False, [])]


def test_bytes_and_events_of_a_session_are_limited_and_its_newest_event_stays() -> None:
    store = new_store(max_bytes=130, max_events=3)
    stream = store.open()
    for number in range(5):
        stream.put(b"%d" % number)
    assert len(store) == 3
    assert [number for number, _ in stream.events] == [3, 4, 5]
    assert store.size == sum(len(piece) for _, piece in stream.events)
    stream.put(b"x" * 60)
    assert [number for number, _ in stream.events] == [5, 6]
    stream.put(b"y" * 1000)
    assert [number for number, _ in stream.events] == [7]
    assert store.size == len(stream.events[0][1]) > 1000


def test_the_session_that_was_idle_longest_gives_way_when_all_keep_too_much() -> None:
    budget = SharedEventBudget(300)
    idle, busy = new_store(budget=budget), new_store(budget=budget)
    of_idle, of_busy = idle.open(), busy.open()
    of_idle.put(b"x" * 80)
    of_idle.put(b"x" * 80)
    of_busy.put(b"x" * 20)
    assert len(idle) == 2 and budget.size == idle.size + busy.size
    of_busy.put(b"x" * 20)
    assert (len(idle), len(busy)) == (1, 2)
    of_busy.put(b"x" * 180)
    assert (len(idle), len(busy)) == (0, 3), "the one that writes loses nothing"
    assert budget.size == busy.size
    of_idle.put(b"x" * 40)
    assert (len(idle), len(busy)) == (1, 1)
    busy.close()
    assert budget.size == idle.size


def test_a_complete_stream_is_known_until_its_last_event_is_dropped() -> None:
    store = new_store(max_events=2)
    first, second = store.open(), store.open()
    first.put(b"1")
    first.end()
    assert store.find("0:1") == (first, 1)
    second.put(b"1")
    assert store.find("0:1") == (first, 1)
    second.put(b"2")
    assert store.find("0:1") is None
    assert store.find("1:0") == (second, 0)
    assert store.find("1:x") is None


def test_streams_of_processes_that_ended_are_recognized() -> None:
    store: EventStore[Connection] = EventStore(100, 10, SharedEventBudget(1000), first_number=3)
    assert store.open().number == 3
    assert store.is_earlier("2:1") and not store.is_earlier("3:1") and not store.is_earlier("none")


def test_a_closed_session_ends_its_connections_and_keeps_nothing() -> None:
    store, connection = new_store(), Connection()
    stream = store.open()
    stream.attach(connection, connection.let_go)
    stream.put(b"1")
    assert store.connected_streams == 1
    store.close()
    assert connection.is_let_go
    stream.put(b"2")
    assert (len(store), store.size, store.connected_streams) == (0, 0, 0)
    assert store.find("0:1") is None


def test_a_client_that_comes_back_without_a_place_gets_what_was_never_sent() -> None:
    store, first, second, third = new_store(), Connection(), Connection(), Connection()
    stream = store.open()
    stream.attach(first)
    stream.put(b"1")
    first.is_broken = True
    stream.put(b"2")
    assert len(first.pieces) == 1
    stream.attach(second)
    assert [piece.split(b"\n")[0] for piece in second.pieces] == [b"id: 0:2"]
    stream.detach(first)
    assert stream.is_connected, "another connection carries it"
    stream.attach(third)
    assert third.pieces == []
