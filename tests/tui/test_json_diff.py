"""Differences of two JSON values are few, in order, and make the one out of the other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.tui.screens import compare
from mcpdesk.tui.screens.compare import NOTHING, Difference, differences

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=1), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [(("a",), 1, 2)]),
        ({"a": 1}, {"b": 1}, [(("a",), 1, NOTHING), (("b",), NOTHING, 1)]),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 3}]}}, [(("a", "b", 1, "c"), 2, 3)]),
        ([1, 2, 3], [1, 3], [((1,), 2, NOTHING)]),
        ([1, 3], [1, 2, 3], [((1,), NOTHING, 2)]),
        (1, True, [((), 1, True)]),
        ("x", ["x"], [((), "x", ["x"])]),
        (None, {}, [((), None, {})]),
    ],
)
def test_what_differs_is_told_by_its_place(before: Any, after: Any, found: list[Any]) -> None:
    assert differences(before, after) == [Difference(*each) for each in found]


@given(VALUES, VALUES)
def test_values_differ_when_and_only_when_they_are_not_the_same(before: Any, after: Any) -> None:
    assert differences(before, before) == []
    assert bool(differences(before, after)) == (compare.compact(before) != compare.compact(after)) or (
        before == after
    )


def test_there_is_an_end_to_differences_and_long_lists_go_item_by_item() -> None:
    found = differences([0] * 5_000, [1] * 5_000)
    assert len(found) == compare.MOST and found[-1].path == (compare.MOST - 1,)
    assert repr(NOTHING) == "NOTHING"
