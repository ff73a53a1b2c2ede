"""Lines and columns of keys and items, found by the way to them."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from mcpdesk.hosting.folder.manifest_errors import (
    TextPosition,
    complaint_and_path,
    in_plain_words,
    path_steps,
    path_text,
    position_of,
)

TEXT = """{
  "name": "x",
  "commands": [
    {"stage": "a", "run": ["name"]},
    {
      "stage": "b",
      "run": ["p", "{name}"]
    }
  ],
  "modes": {"a]b": {"tools": [
     "one", "two"]}}
}
"""


@pytest.mark.parametrize(
    ("trail", "place"),
    [
        (("name",), (2, 3)),
        (("commands", 0), (4, 5)),
        (("commands", 0, "run", 0), (4, 28)),
        (("commands", 1), (5, 5)),
        (("commands", 1, "stage"), (6, 7)),
        (("commands", 1, "run", 1), (7, 20)),
        (("modes", "a]b", "tools", 1), (11, 13)),
    ],
)
def test_key_or_item_has_its_line_and_column(trail: tuple[str | int, ...], place: tuple[int, int]) -> None:
    assert position_of(TEXT, *trail) == place


def test_way_that_ends_early_leads_to_the_last_step_that_is_there() -> None:
    assert position_of(TEXT, "commands", 1, "description") == (5, 5)
    assert position_of(TEXT, "name", "further") == (2, 3)
    assert position_of(TEXT, "nothing") == TextPosition()
    assert position_of(TEXT) == TextPosition()


def test_of_a_key_given_twice_the_last_one_counts() -> None:
    assert position_of('{"a": 1,\n "a": 2}', "a") == (2, 2)


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


class Inner(Struct):
    run: list[str]
    how: Literal["a", "b"] = "a"


class Outer(Struct):
    entries: list[Inner] = []


@pytest.mark.parametrize(
    ("given", "way", "told"),
    [
        ([], "", "must be an object, got a list"),
        ({"entries": 5}, "entries", "must be a list, got a whole number"),
        ({"entries": [{"run": ["x", None]}]}, "entries[0].run[1]", "must be a text, got null"),
        ({"entries": [{}]}, "entries[0]", "lacks the key run"),
        ({"entries": [{"run": [], "how": "c"}]}, "entries[0].how", "'c' is not allowed; allowed: a, b"),
    ],
)
def test_a_complaint_is_put_into_words_and_placed(given: Any, way: str, told: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, Outer)
    message, where = complaint_and_path(caught.value)
    assert (path_text(path_steps(where)), in_plain_words(message, "a, b")) == (way, told)


def test_a_way_leads_as_far_as_it_is_told() -> None:
    assert path_steps(".tools[...].scopes[1]") == ("tools",)
