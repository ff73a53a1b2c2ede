"""Lines and columns of keys and items, found by the way to them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.hosting.folder.manifest_errors import (
    position_of,
)

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def trails(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    found: list[tuple[tuple[str | int, ...], Any]] = []
    members = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    for step, inner in members:
        found += [((*before, step), inner), *trails(inner, (*before, step))]
    return found


@given(JSON, st.sampled_from([None, 1, 3]), st.booleans())
def test_whatever_stands_at_a_place_is_what_was_looked_for(
    value: Any, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    lines = text.split("\n")
    for trail, inner in trails(value):
        line, column = position_of(text, *trail)
        assert line is not None and column is not None
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        found, _ = json.JSONDecoder().raw_decode(rest)
        assert found == (trail[-1] if isinstance(trail[-1], str) else inner)
