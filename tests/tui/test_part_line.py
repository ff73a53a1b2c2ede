"""Lines of clickable parts."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.content import Content

from mcpdesk.tui.widgets.part_line import LinePart, PartLine, fit, fit_rows
from tests.support.driven import driven


def part(
    text: str, rank: int = 0, short: str | None = None, right: bool = False, action: str = ""
) -> LinePart:
    return LinePart(Content(text), action, "tip", Content(short) if short is not None else None, rank, right)


def texts(parts: list[LinePart]) -> list[str]:
    return [one.text.plain for one in parts]


def test_low_ranks_are_shortened_first_then_left_out() -> None:
    parts = [part("important", 9, "imp"), part("detail", 1, "d"), part("extra", 0)]
    assert texts(fit(parts, 20)) == ["important", "detail", "extra"]
    assert texts(fit(parts, 15)) == ["important", "d", "extra"]
    assert texts(fit(parts, 9)) == ["imp", "d", "extra"]
    assert texts(fit(parts, 4)) == ["imp", "d"]
    assert texts(fit(parts, 1)) == ["imp"]
    assert texts(fit([part("日本語", 1), part("ab")], 7)) == ["日本語"]


def test_of_two_rows_the_second_has_what_the_first_has_no_room_for_and_the_right_parts() -> None:
    parts = [part("one", 3), part("two", 1), part("three", 2), part("R", 9, right=True)]
    assert [texts(row) for row in fit_rows(parts, 9)] == [["one", "three"], ["two", "R"]]
    assert [texts(row) for row in fit_rows(parts, 6)] == [["one"], ["three", "R"]]


class LineApp(App[None]):
    """One line with two parts."""

    done: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        yield PartLine()

    def action_note(self, what: str) -> None:
        self.done = (*self.done, what)


async def test_click_runs_the_part_under_the_mouse_and_right_parts_stand_right() -> None:
    app = LineApp()
    async with driven(app, size=(20, 3)) as pilot:
        line = app.query_one(PartLine)
        line.show(
            [
                part("left", action="app.note('l')"),
                part("plain"),
                part("R", right=True, action="app.note('r')"),
            ]
        )
        await pilot.pause()
        assert line.render().plain == "leftplain          R"
        await pilot.click(PartLine, offset=(1, 0))
        await pilot.click(PartLine, offset=(6, 0))
        await pilot.click(PartLine, offset=(19, 0))
        await pilot.click(PartLine, offset=(12, 0))
        assert app.done == ("l", "r")


async def test_what_can_be_clicked_says_so_under_the_mouse() -> None:
    app = LineApp()
    async with driven(app, size=(20, 3)) as pilot:
        line = app.query_one(PartLine)
        line.show([part("left", action="app.note('l')"), part("plain")])
        await pilot.pause()
        await pilot.hover(PartLine, offset=(1, 0))
        assert line.tooltip == "tip" and any("underline" in str(span.style) for span in line.render().spans)
        await pilot.hover(PartLine, offset=(6, 0))
        assert line.tooltip is None


async def test_change_of_style_alone_is_drawn() -> None:
    app = LineApp()
    async with driven(app, size=(20, 3)) as pilot:
        line = app.query_one(PartLine)
        line.show([part("x")])
        await pilot.pause()
        line.show([LinePart(Content.styled("x", "bold"), tip="tip")])
        assert line.parts[0].text.spans
