"""Two exchanges compared."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from mcpdesk.tui.render.json_text import compact
from mcpdesk.tui.screens import compare
from mcpdesk.tui.screens.compare import NOTHING, CompareScreen, Difference, DifferenceList, differences
from tests.support.driven import driven


def shown(screen: CompareScreen) -> list[str]:
    rows = screen.query_one(DifferenceList)
    return ["".join(text for text, _ in rows.spans(at, 80)) for at in range(rows.row_count)]


async def test_differences_are_listed_under_their_place_without_ids() -> None:
    meta = {"_meta": {"progressToken": 7}}
    before = {
        "request": {"jsonrpc": "2.0", "id": 1, "params": {"a": 1, **meta}},
        "response": {"id": 1, "result": {}},
    }
    meta = {"_meta": {"progressToken": 8}}
    after = {
        "request": {"jsonrpc": "2.0", "id": 2, "params": {"a": 2, **meta}},
        "response": {"id": 2, "error": "x"},
    }
    app = App[None]()
    async with driven(app) as pilot:
        screen = CompareScreen(("one\x1b[31m", "two"), before, after)
        await app.push_screen(screen)
        assert shown(screen) == [
            "request params.a",
            "  - 1",
            "  + 2",
            "response result",
            "  - {}",
            "response error",
            '  + "x"',
        ]
        assert screen.query_one("Vertical").border_title == "3 differences"
        assert "\x1b" not in str(screen.query_one(".titles").render())
        await pilot.press("escape")
        assert app.screen is not screen


async def test_of_long_texts_the_lines_are_shown_that_changed() -> None:
    before = {"response": {"text": "".join(f"line {number}\n" for number in range(100))}}
    after = {"response": {"text": before["response"]["text"].replace("line 50", "line\x1b[31m fifty")}}
    app = App[None]()
    async with driven(app):
        screen = CompareScreen(("one", "two"), before, after)
        await app.push_screen(screen)
        assert [row.strip() for row in shown(screen)] == [
            "response text",
            "line 49",
            "line 48",
            "line 49",
            "- line 50",
            "+ line␛[31m fifty",
            "line 51",
            "line 52",
        ]


async def test_in_a_wide_terminal_both_values_stand_side_by_side_and_are_never_cut() -> None:
    before = {"response": {"text": "first\nthe price of tea is 2\nlast", "long": "日本" * 60, "gone": 1}}
    after = {"response": {"text": "first\nthe price of tea is 3\nlast\nnew", "long": "日本" * 59 + "x"}}
    before["response"]["start"], after["response"]["start"] = "a 2" + "b" * 100, "a 3" + "b" * 100
    app = App[None]()
    async with driven(app, size=(140, 40)) as pilot:
        screen = CompareScreen(("one", "two"), before, after)
        await app.push_screen(screen)
        await pilot.pause()
        assert screen.differences
        listing = screen.query_one(DifferenceList)
        rows = [list(listing.spans(at, listing.size.width)) for at in range(listing.row_count)]
        said = [
            [" ".join(part.split()) for part in "".join(text for text, _ in row).split("│")] for row in rows
        ]
        assert said[:6] == [
            ["response text"],
            ["line 1"],
            ["first", "first"],
            ["the price of tea is 2", "the price of tea is 3"],
            ["last", "last"],
            ["", "new"],
        ]
        assert ("2", "lines--bad") in rows[3] and ("3", "lines--good") in rows[3]
        assert ["1", ""] in said
        left = "".join(row[0] for row in said[said.index(["response long"]) + 1 :] if len(row) == 2)
        assert left.count("日本") == 60
        between = (" │ ", "lines--muted")
        sides = [(row[: row.index(between)], row[row.index(between) + 1 :]) for row in rows if between in row]
        widths = [[sum(cell_len(text) for text, _ in side) for side in pair] for pair in sides]
        assert len({left for left, _ in widths}) == 1 and all(right <= left for left, right in widths)
        await pilot.resize_terminal(100, 40)
        await pilot.pause()
        assert "  - 1" in shown(screen)


async def test_a_message_that_is_missing_has_no_line() -> None:
    app = App[None]()
    async with driven(app):
        screen = CompareScreen(("one", "two"), {"response": {"id": 1, "result": 1}}, {})
        await app.push_screen(screen)
        assert shown(screen) == ["response $", '  - {"result":1}']


async def test_the_same_twice_has_no_difference() -> None:
    app = App[None]()
    async with driven(app):
        screen = CompareScreen(("one", "two"), {"request": {"a": 1}}, {"request": {"a": 1}})
        await app.push_screen(screen)
        assert shown(screen) == ["no difference"]


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


@pytest.mark.slow
@given(VALUES, VALUES)
def test_values_differ_when_and_only_when_they_are_not_the_same(before: Any, after: Any) -> None:
    assert differences(before, before) == []
    assert bool(differences(before, after)) == (compact(before) != compact(after)) or (before == after)


def test_there_is_an_end_to_differences_and_long_lists_go_item_by_item() -> None:
    found = differences([0] * 5_000, [1] * 5_000)
    assert len(found) == compare.MAX_DIFFERENCES and found[-1].path == (compare.MAX_DIFFERENCES - 1,)
