"""Looks of states on the terminal and the dashboard."""

from __future__ import annotations

import pytest

from mcpdesk.inbox.question import QuestionState
from mcpdesk.link import state_looks
from mcpdesk.link.values import JobState, Presence, ShownCoreState
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.upstream.upstream import UpstreamState

STATES = {
    "exchanges": Status,
    "jobs": JobState,
    "questions": QuestionState,
    "upstreams": UpstreamState,
    "presences": Presence,
    "cores": ShownCoreState,
}


@pytest.mark.parametrize("table", STATES)
def test_every_state_has_a_look(table: str) -> None:
    assert set(state_looks.LOOK_TABLES[table]) == set(STATES[table])


@pytest.mark.parametrize("table", STATES)
def test_no_two_states_look_the_same(table: str) -> None:
    looks = state_looks.LOOK_TABLES[table].values()
    assert len({(look.glyph, look.word) for look in looks}) == len(looks)


@pytest.mark.parametrize("table", ["jobs", "questions"])
def test_states_of_a_list_differ_by_their_glyph(table: str) -> None:
    looks = state_looks.LOOK_TABLES[table].values()
    assert len({look.glyph for look in looks}) == len(looks)


def test_words_that_do_not_fit_are_shortened() -> None:
    look = state_looks.EXCHANGES[Status.ERROR]
    assert [look.fitted(cells) for cells in (16, 15, 9, 2)] == [
        "✗ protocol error",
        "✗ proto",
        "✗ proto",
        "✗",
    ]
    assert all(
        look.word == "negotiation" or len(look.fitted(9)) > 2
        for look in state_looks.EXCHANGES.values()
        if look.word
    )
