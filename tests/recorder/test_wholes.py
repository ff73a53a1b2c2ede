"""Large frames wait whole until they are written, as far as there is room for them."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture import encoder
from mcpdesk.recorder.capture.encoder import PendingBodies
from mcpdesk.recorder.record import END_BYTES, KEPT_BYTES, Direction, Frame

SIZE = 3 * KEPT_BYTES


def large(number: int, connection: int = 1) -> Frame:
    data = b'"%b"' % (b"x" * (SIZE - 2))
    return Frame(number, 1.0, connection, Direction.IN, data, SIZE)


def test_beginning_and_end_stay_and_the_whole_waits() -> None:
    waiting: dict[int, bytes] = {}
    kept = PendingBodies(waiting, 0).cut(whole := large(7))
    assert waiting == {7: whole.data}
    assert (kept.data, kept.end, kept.size) == (whole.data[:KEPT_BYTES], whole.data[-END_BYTES:], SIZE)
    assert (kept.number, kept.time, kept.connection, kept.direction) == (7, 1.0, 1, Direction.IN)


def test_what_no_room_is_left_for_is_not_kept_until_others_were_let_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoder, "_MOST_PENDING", 2 * SIZE)
    waiting: dict[int, bytes] = {}
    those = PendingBodies(waiting, 0)
    kept = [those.cut(large(number)) for number in range(3)]
    assert list(waiting) == [0, 1] and kept[2].size == SIZE
    those.release(1)
    assert list(waiting) == [1]
    for number in (3, 4):
        those.cut(large(number))
    assert list(waiting) == [1, 3]


@pytest.mark.parametrize(
    ("body_bytes", "connection", "kept"), [(1, 1, 0), (100_000, 1, 100_000), (SIZE, 1, SIZE), (1, 2, SIZE)]
)
def test_of_a_clients_frame_as_much_waits_as_is_written(body_bytes: int, connection: int, kept: int) -> None:
    waiting: dict[int, bytes] = {}
    those = PendingBodies(waiting, body_bytes)
    those.whole_connections.add(2)
    those.cut(large(1, connection))
    assert [len(whole) for whole in waiting.values()] == ([kept] if kept else [])
