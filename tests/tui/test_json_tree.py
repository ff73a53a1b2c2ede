from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult

from mcpdesk.tui.results.json_tree import JsonTree

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

    def on_json_tree_copy_asked(self, message: JsonTree.CopyAsked) -> None:
        self.copied.append((message.text, message.what))


def lines(tree: JsonTree) -> list[str]:
    return [tree.render_line(y).text.rstrip() for y in range(tree.size.height)]


async def test_shows_keys_and_values_and_makes_control_characters_visible() -> None:
    async with Bench().run_test(size=(60, 12)) as pilot:
        shown = lines(pilot.app.query_one(JsonTree))
        assert shown[0] == '  name: "Ada [b]Lovelace[/b]\\u001b[31m"'
        assert shown[1].startswith("▾ roles: [2]")
        assert shown[2] == '    0: "admin"'


async def test_enter_folds_and_shows_a_preview() -> None:
    async with Bench().run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "enter")
        shown = lines(pilot.app.query_one(JsonTree))
        assert shown[1] == '▸ roles: [2]  ["admin", "author"]'
        assert shown[2].startswith("▾ address")


async def test_left_goes_to_the_enclosing_value_and_right_unfolds_text() -> None:
    async with Bench().run_test(size=(60, 20)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        await pilot.press("j", "j", "left")
        assert tree.selected == ("roles",)
        await pilot.press("G", "l")
        assert lines(tree)[-8:].count("") >= 1
        assert "    line one" in lines(tree)


async def test_search_walks_through_hits_and_escape_ends_it() -> None:
    async with Bench({"list": [{"n": n} for n in range(900)]}).run_test(size=(60, 12)) as pilot:
        tree = pilot.app.query_one(JsonTree)
        await pilot.press("slash", "7", "7", "7")
        assert tree.selected == ("list", 777, "n")
        assert "1 of 1" in lines(tree)[-1]
        await pilot.press("enter", "escape")
        assert "/777" not in lines(tree)[-1]


async def test_copies_value_and_path() -> None:
    app = Bench()
    async with app.run_test(size=(60, 12)) as pilot:
        await pilot.press("j", "j", "y", "Y")
        await pilot.pause()
        assert app.copied == [("admin", "value of roles[0]"), ("roles[0]", "path")]


async def test_marks_are_drawn_at_their_path() -> None:
    app = Bench(None)
    async with app.run_test(size=(60, 12)) as pilot:
        tree = app.query_one(JsonTree)
        tree.load({"a": {"b": 1}}, {("a", "b"): "1 is less than 5"})
        await pilot.pause()
        shown = lines(tree)
        assert shown[0].endswith("✗")
        assert shown[1] == "    b: 1  ✗ 1 is less than 5"


async def test_running_past_the_last_row_lays_out_more() -> None:
    app = Bench(list(range(500)))
    async with app.run_test(size=(60, 12)) as pilot:
        tree = app.query_one(JsonTree)
        assert tree.row_count == 201
        await pilot.press("G", "up", "down")
        assert tree.row_count == 401


async def test_a_large_value_shows_at_once() -> None:
    app = Bench({"rows": [{"id": n, "text": "x" * 20} for n in range(40_000)]})
    async with app.run_test(size=(80, 24)):
        assert app.query_one(JsonTree).row_count < 300
