"""Two exchanges are compared message by message."""

from __future__ import annotations

from textual.app import App

from mcpdesk.tui.screens.compare import CompareScreen, DifferenceList


def shown(screen: CompareScreen) -> list[str]:
    rows = screen.query_one(DifferenceList)
    return ["".join(text for text, _ in rows.spans(at, 80)) for at in range(rows.row_count)]


async def test_differences_are_listed_under_their_place_without_ids() -> None:
    before = {"request": {"jsonrpc": "2.0", "id": 1, "params": {"a": 1}}, "response": {"id": 1, "result": {}}}
    after = {"request": {"jsonrpc": "2.0", "id": 2, "params": {"a": 2}}, "response": {"id": 2, "error": "x"}}
    app = App[None]()
    async with app.run_test() as pilot:
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


async def test_a_message_that_is_missing_has_no_line() -> None:
    app = App[None]()
    async with app.run_test():
        screen = CompareScreen(("one", "two"), {"response": {"id": 1, "result": 1}}, {})
        await app.push_screen(screen)
        assert shown(screen) == ["response $", '  - {"result":1}']


async def test_the_same_twice_has_no_difference() -> None:
    app = App[None]()
    async with app.run_test():
        screen = CompareScreen(("one", "two"), {"request": {"a": 1}}, {"request": {"a": 1}})
        await app.push_screen(screen)
        assert shown(screen) == ["no difference"]
