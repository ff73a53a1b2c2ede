"""Rows of clients: what gives way where there is little room."""

from __future__ import annotations

from dataclasses import replace

from mcpdesk.tui.screens.clients import COLUMNS, GIVING_WAY, ClientList
from tests.support.fake_link import sample_view


def shown(width: int, caller: str = "") -> list[str]:
    listing = ClientList()
    listing.clients = tuple(replace(one, caller=caller) for one in sample_view(0.0).clients)
    listing.widths = [12 for _ in COLUMNS]
    return [COLUMNS[at] for at in listing.shown(width)]


def test_everything_is_shown_where_there_is_room() -> None:
    assert shown(200, "token of ada") == list(COLUMNS)
    assert shown(200) == [one for one in COLUMNS if one != "caller"]


def test_columns_give_way_in_order_and_the_name_stays() -> None:
    assert shown(14 * 12 + 1, "key") == [one for one in COLUMNS if one != GIVING_WAY[0]]
    assert shown(20) == ["name", "last seen", "calls", "errors"]


def test_heads_stand_over_their_columns() -> None:
    listing = ClientList()
    heads = listing.heads(COLUMNS.index("calls"), 200)
    assert "calls↓" in heads and heads.startswith(" name ")
