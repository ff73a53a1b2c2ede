"""JSON values as foldable rows, and the tree that shows them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult

from mcpdesk.tui.results.json_tree import SLICE_ROWS, JsonTree, Outline, RowKind
from tests.support.driven import driven
from tests.support.patience import until


def paths(outline: Outline) -> list[tuple[str | int, ...]]:
    return [row.path for row in outline.rows]


def test_small_values_start_unfolded() -> None:
    outline = Outline({"a": {"b": [1, 2]}, "c": None})
    assert paths(outline) == [(), ("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1), ("c",)]


def test_large_values_start_with_their_first_level_only() -> None:
    outline = Outline({f"k{n}": {"x": list(range(50))} for n in range(40)})
    assert len(outline.rows) == 41


def test_long_arrays_are_laid_out_in_slices() -> None:
    outline = Outline(list(range(1000)))
    assert len(outline.rows) == 1 + SLICE_ROWS + 1
    assert outline.rows[-1].kind is RowKind.MORE
    assert outline.rows[-1].value == 800
    for _ in range(4):
        outline.toggle(len(outline.rows) - 1)
    assert paths(outline)[1:] == [(n,) for n in range(1000)]


def test_reveal_unfolds_down_to_a_path_beyond_the_first_slice() -> None:
    outline = Outline({"a": [{"n": n} for n in range(700)]})
    at = outline.reveal(("a", 650, "n"))
    assert outline.rows[at].path == ("a", 650, "n")
    assert outline.rows[at].value == 650


def test_reveal_of_a_missing_path_stops_at_the_nearest_value() -> None:
    outline = Outline({"a": {"b": 1}})
    assert outline.rows[outline.reveal(("a", "z", 3))].path == ("a",)


def test_marked_paths_are_revealed_and_announced_above() -> None:
    outline = Outline({"a": {"b": {"c": 1}}}, {("a", "b", "c"): "too small"}, max_initial_rows=0)
    assert ("a", "b", "c") in paths(outline)
    assert outline.has_mark_below(outline.rows[1])
    assert not outline.has_mark_below(outline.rows[-1])


def test_search_finds_keys_and_scalars_in_order() -> None:
    value = {"Name": "Ada", "list": ["lovelace", 12, True], "ada": None}
    outline = Outline(value)
    assert outline.find("ada") == [("Name",), ("ada",)]
    assert outline.find("true") == [("list", 2)]
    assert outline.find("12") == [("list", 1)]
    assert outline.find("") == []


def test_unfolding_everything_is_bounded() -> None:
    outline = Outline([[[n] * 50 for n in range(50)] for _ in range(50)], max_initial_rows=0)
    outline.unfold_below(0, limit=1000)
    assert 1000 <= len(outline.rows) <= 1300


@pytest.mark.slow
def test_random_folding_keeps_rows_consistent() -> None:
    rng = random.Random(7)

    def build(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice([1, "text", None, True])
        if rng.random() < 0.5:
            return [build(depth - 1) for _ in range(rng.randrange(5))]
        return {f"k{n}": build(depth - 1) for n in range(rng.randrange(5))}

    outline = Outline([build(4) for _ in range(300)])
    for _ in range(300):
        outline.toggle(rng.randrange(len(outline.rows)))
        seen = [row.path for row in outline.rows if row.kind is RowKind.VALUE]
        assert len(seen) == len(set(seen))
        for at, row in enumerate(outline.rows[1:], 1):
            parent = outline.rows[outline.parent(at)]
            assert parent.depth == row.depth - 1
            assert outline.is_unfolded(parent)


VALUE: dict[str, Any] = {
    "name": "Ada [b]Lovelace[/b]\x1b[31m",
    "roles": ["admin", "author"],
    "address": {"street": "St James's Square", "zip": 12345},
    "active": True,
    "score": 1.5,
    "notes": None,
    "text": "line one\nline two",
}


class Bench(App[None]):
    def __init__(self, value: Any = VALUE) -> None:
        super().__init__()
        self.value = value
        self.copied: list[tuple[str, str]] = []

    def compose(self) -> ComposeResult:
        yield JsonTree(self.value)

    def on_json_tree_copy_requested(self, message: JsonTree.CopyRequested) -> None:
        self.copied.append((message.text, message.what))


def lines(tree: JsonTree) -> list[str]:
    return [tree.render_line(y).text.rstrip() for y in range(tree.size.height)]


async def test_shows_keys_and_values_and_makes_control_characters_visible() -> None:
    async with driven(Bench(), size=(60, 12)) as pilot:
        shown = lines(pilot.app.query_one(JsonTree))
        assert shown[0] == '  name: "Ada [b]Lovelace[/b]\\u001b[31m"'
        assert shown[1].startswith("▾ roles: [2]")
        assert shown[2] == '    0: "admin"'


async def test_enter_folds_and_shows_a_preview() -> None:
    async with driven(Bench(), size=(60, 12)) as pilot:
        await pilot.press("j", "enter")
        shown = lines(pilot.app.query_one(JsonTree))
        assert shown[1] == '▸ roles: [2]  ["admin", "author"]'
        assert shown[2].startswith("▾ address")


async def test_left_goes_to_the_enclosing_value_and_right_unfolds_text() -> None:
    async with driven(Bench(), size=(60, 20)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        await pilot.press("j", "j", "left")
        assert tree.selected == ("roles",)
        await pilot.press("G", "l")
        assert lines(tree)[-8:].count("") >= 1
        assert "    line one" in lines(tree)


async def test_a_line_end_at_the_end_of_a_text_begins_no_other_line() -> None:
    async with driven(
        Bench({"one": "changed\n" + "x" * 200, "two": "y" * 200 + "\n"}), size=(60, 20)
    ) as pilot:
        tree = pilot.app.query_one(JsonTree)
        await pilot.press("l", "j")
        await pilot.press("G", "l")
        heads = [line for line in lines(tree) if "one:" in line or "two:" in line]
        assert heads[0].endswith("one: 2 lines") and heads[1].endswith("two: text"), heads


async def test_search_walks_through_hits_and_escape_ends_it() -> None:
    async with driven(Bench({"list": [{"n": n} for n in range(900)]}), size=(60, 12)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        await pilot.press("slash", "7", "7", "7")
        assert tree.selected == ("list", 777, "n")
        assert "1 of 1" in lines(tree)[-1]
        await pilot.press("enter", "escape")
        assert "/777" not in lines(tree)[-1]


async def test_a_search_takes_a_paste_and_its_letters_count_as_typing() -> None:
    async with driven(Bench({"list": [{"n": n} for n in range(900)]}), size=(60, 12)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        tree.post_message(events.Paste("5"))
        await pilot.pause()
        assert not tree.has_query and not tree.check_consume_key("a", "a")
        await pilot.press("slash", "7")
        assert tree.check_consume_key("a", "a") and not tree.check_consume_key("enter", "\r")
        tree.post_message(events.Paste("77\nand more"))
        await pilot.pause()
        assert tree.query_text == "777" and tree.selected == ("list", 777, "n")
        await pilot.press("enter")
        assert not tree.check_consume_key("a", "a")


async def test_the_line_of_a_search_that_was_left_takes_no_room() -> None:
    async with driven(Bench(), size=(60, 30)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        tree.styles.height = "auto"
        await pilot.press("slash")
        await until(lambda: tree.size.height == tree.row_count + 1, pilot)
        pilot.app.set_focus(None)
        await until(lambda: tree.size.height == tree.row_count, pilot)
        assert not tree.has_query and lines(tree)[-1] == "    line two"


async def test_copies_value_and_path() -> None:
    app = Bench()
    async with driven(app, size=(60, 12)) as pilot:
        await pilot.press("j", "j", "y")
        app.query_one(JsonTree).action_copy_path()
        await pilot.pause()
        assert app.copied == [("admin", "value of roles[0]"), ("roles[0]", "path")]


async def test_marks_are_drawn_at_their_path() -> None:
    app = Bench(None)
    async with driven(app, size=(60, 12)) as pilot:
        tree = app.query_one(JsonTree)
        tree.load({"a": {"b": 1}}, {("a", "b"): "1 is less than 5"})
        await pilot.pause()
        shown = lines(tree)
        assert shown[0].endswith("✗")
        assert shown[1] == "    b: 1  ✗ 1 is less than 5"


async def test_running_past_the_last_row_lays_out_more() -> None:
    app = Bench(list(range(500)))
    async with driven(app, size=(60, 12)) as pilot:
        tree = app.query_one(JsonTree)
        assert tree.row_count == 201
        await pilot.press("G", "up", "down")
        assert tree.row_count == 401
        assert tree.scroll_y > 0
        tree.load(list(range(500)))
        await pilot.pause()
        assert (tree.scroll_y, lines(tree)[0]) == (0, "  0: 0")


async def test_another_value_is_shown_from_its_top_after_the_wheel_was_used() -> None:
    async with driven(Bench(list(range(50))), size=(60, 12)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        tree.scroll_end(animate=False)
        await until(lambda: tree.scroll_y > 0, pilot)
        assert tree.cursor == 0
        tree.load(list(range(100, 150)))
        await until(lambda: lines(tree)[0] == "  0: 100", pilot)


async def test_a_large_value_shows_at_once() -> None:
    app = Bench({"rows": [{"id": n, "text": "x" * 20} for n in range(40_000)]})
    async with driven(app, size=(80, 24)):
        assert app.query_one(JsonTree).row_count < 300


async def test_a_low_tree_begins_with_the_row_that_says_most() -> None:
    app = Bench()
    async with driven(app, size=(60, 4)) as pilot:
        tree = app.query_one(JsonTree)
        tree.load({"params": {"arguments": {"a": 1, "b": 2}, "name": "price"}}, begin=1)
        await pilot.pause()
        assert "arguments" in tree.render_line(0).text
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert "params" in tree.render_line(0).text and tree.cursor == 0
        await pilot.press("down", "down", "down")
        await pilot.resize_terminal(60, 4)
        await pilot.pause()
        assert tree.cursor == 3
