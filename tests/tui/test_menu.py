"""The small modal list."""

from __future__ import annotations

import pytest
from textual.app import App

from mcpdesk.tui.widgets.menu import Choice, ChoiceList, Menu, search

FRUIT = [
    Choice("apple", 1, "red", "a", "Keeps the doctor away."),
    Choice("[b]banana", 2, "yellow", "b"),
    Choice("cherry", 3, "red", "c"),
]


async def chosen(*keys: str, size: tuple[int, int] = (80, 24), **options: object) -> object:
    """What a menu of fruit ends with after some keys."""
    app: App[None] = App()
    ends: list[object] = []
    async with app.run_test(size=size) as pilot:
        await app.push_screen(Menu("Fruit", FRUIT, **options), ends.append)  # type: ignore[arg-type]
        await pilot.press(*keys)
        await pilot.pause()
    return ends[0] if ends else "open"


@pytest.mark.parametrize(
    ("keys", "end"),
    [
        (("enter",), 1),
        (("down", "enter"), 2),
        (("j", "j", "enter"), 3),
        (("G", "k", "enter"), 2),
        (("c",), 3),
        (("escape",), None),
        (("x",), "open"),
    ],
)
async def test_keys_choose(keys: tuple[str, ...], end: object) -> None:
    assert await chosen(*keys) == end


@pytest.mark.parametrize(
    ("keys", "end"),
    [(("c", "h", "enter"), 3), (("down", "enter"), 2), (("q", "q", "enter"), "open"), (("escape",), None)],
)
async def test_filtered_menu_searches_while_typing(keys: tuple[str, ...], end: object) -> None:
    assert await chosen(*keys, filtered=True) == end


async def test_cursor_starts_where_it_was_asked_for() -> None:
    assert await chosen("enter", cursor=2) == 3


async def test_caller_sees_what_the_cursor_passes() -> None:
    passed: list[object] = []
    await chosen("down", "down", "escape", passed=passed.append)
    assert passed[0] == 1 and passed[-2:] == [2, 3]


async def test_mouse_chooses_and_a_click_beside_closes() -> None:
    app: App[None] = App()
    ends: list[object] = []
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(Menu("Fruit", FRUIT), ends.append)
        await pilot.pause()
        await pilot.click(ChoiceList, offset=(3, 1))
        await pilot.pause()
        await app.push_screen(Menu("Fruit", FRUIT), ends.append)
        await pilot.pause()
        await pilot.click(offset=(0, 23))
        await pilot.pause()
    assert ends == [2, None]


async def test_lines_show_label_hint_and_key_in_columns() -> None:
    rows = ChoiceList(FRUIT)
    lines = ["".join(text for text, _ in rows.spans(at, 40)) for at in range(3)]
    assert [len(line) for line in lines] == [40, 40, 40]
    assert lines[0].split() == ["apple", "red", "a"] and len({line.index("red") for line in lines[::2]}) == 1


@pytest.mark.parametrize("width", [1, 5, 12, 20, 200])
def test_lines_fit_any_width(width: int) -> None:
    rows = ChoiceList([Choice("語" * 50, 1, "hint", "ctrl+x")])
    assert "".join(text for text, _ in rows.spans(0, width))


async def test_menu_in_a_tiny_terminal_does_not_crash() -> None:
    assert await chosen("down", "enter", size=(20, 5), filtered=True) == 2


def test_search_prefers_labels_and_keeps_order() -> None:
    assert [one.value for one in search(FRUIT, "")] == [1, 2, 3]
    assert [one.value for one in search(FRUIT, "red")] == [1, 3]
    assert search(FRUIT, "ban")[0].value == 2 and not search(FRUIT, "zzz")
