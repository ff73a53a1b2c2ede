"""A row costs a few dozen bytes and follows its exchange."""

from __future__ import annotations

from mcpdesk.recorder.index.exchange import ExchangeKind, Status
from mcpdesk.recorder.index.message_heads import Head
from mcpdesk.recorder.index.table import NO_FRAME, Table
from mcpdesk.recorder.record import Direction, Frame


def frame(number: int, direction: Direction = Direction.IN) -> Frame:
    return Frame(number, float(number), 1, direction, b"{}", 2)


def test_a_request_begins_a_row_and_its_response_ends_it() -> None:
    table = Table()
    row = table.add(Head(ExchangeKind.REQUEST, 1, "tools/call", "a"), frame(3))
    assert table.ended[row] != table.ended[row]
    assert table.answer(row, frame(5, Direction.OUT), Status.OK) == 2.0
    assert (table.request[row], table.response[row], table.size[row]) == (3, 5, 4)


def test_a_stray_response_is_shown_the_way_its_request_would_have_gone() -> None:
    table = Table()
    row = table.add(Head(ExchangeKind.RESPONSE, 1), frame(0, Direction.OUT))
    assert (table.direction[row], table.request[row], table.response[row]) == (Direction.IN, NO_FRAME, 0)


def test_equal_labels_are_kept_once() -> None:
    table = Table()
    for number in range(3):
        table.add(Head(ExchangeKind.NOTIFICATION, None, "n"), frame(number))
    assert list(table.labels.values()) == [("n", "")]


def test_made_up_revisions_do_not_pile_up() -> None:
    table = Table()
    codes = {table.revision_code(f"r{number}") for number in range(1000)}
    assert len(codes) < 110
