from __future__ import annotations

from collections.abc import Iterator
from unicodedata import normalize

from mcpdesk.tui.widgets.line_list import LineList, Span
from tests.support.widgets import staged


class Numbers(LineList):
    """A hundred wide rows."""

    chosen: list[int]

    def __init__(self) -> None:
        super().__init__()
        self.chosen = []

    @property
    def row_count(self) -> int:
        return 100

    def spans(self, index: int, width: int) -> Iterator[Span]:
        yield f"row {index} ", "lines--head"
        yield "界" * 100, ""

    def choose_row(self, index: int) -> None:
        self.chosen.append(index)


async def test_only_as_many_cells_as_there_are_with_an_ellipsis() -> None:
    numbers = Numbers()
    async with staged(numbers, (30, 10)):
        strip = numbers.render_line(0)
        assert strip.cell_length == numbers.size.width
        assert strip.text.rstrip().endswith("…")


class Accented(Numbers):
    """Rows with a name whose accents are characters of their own."""

    def spans(self, index: int, width: int) -> Iterator[Span]:
        yield normalize("NFD", "é" * (width - 1) + "!"), ""


async def test_a_name_with_combining_accents_keeps_its_end() -> None:
    names = Accented()
    async with staged(names, (30, 10)):
        strip = names.render_line(0)
        assert strip.cell_length == names.size.width and strip.text.endswith("!")


async def test_keys_move_the_cursor_and_keep_it_in_sight() -> None:
    numbers = Numbers()
    async with staged(numbers, (30, 10)) as (stage, pilot):
        numbers.focus()
        await pilot.press("G")
        assert numbers.cursor == 99
        assert "row 99" in stage.shown()
        await pilot.press("pageup", "k", "home", "j", "enter")
        assert numbers.chosen == [1]


async def test_a_click_chooses_its_row() -> None:
    numbers = Numbers()
    async with staged(numbers, (30, 10)) as (_, pilot):
        await pilot.click(Numbers, offset=(3, 4))
        assert numbers.chosen == [4]
