"""Rows of clients: what gives way where there is little room."""

from __future__ import annotations

from mcpdesk.tui.widgets.client_list import COLUMNS, GIVING_WAY, ClientList
from tests.support.fake_link import sample_view


def shown(width: int) -> list[str]:
    listing = ClientList()
    listing.clients = sample_view(0.0).clients
    listing.widths = [12 for _ in COLUMNS]
    return [COLUMNS[at] for at in listing.shown(width)]


def test_everything_is_shown_where_there_is_room() -> None:
    assert shown(200) == list(COLUMNS)


def test_columns_give_way_in_order_and_the_name_stays() -> None:
    assert shown(14 * 10 + 1) == [one for one in COLUMNS if one != GIVING_WAY[0]]
    assert shown(20) == ["name", "calls", "errors"]


def test_heads_stand_over_their_columns() -> None:
    listing = ClientList()
    heads = listing.heads(COLUMNS.index("calls"), 200)
    assert "calls↓" in heads and heads.startswith(" name ")
