"""Rows of texts that are not wrapped: rows, columns, and the drawn part of a line."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from mcpdesk.tui.results.line_layout import (
    MAX_CLUSTER_LENGTH,
    MAX_WINDOW_PIECES,
    PIECE_LENGTH,
    LineLayout,
    Window,
)


def whole(text: str) -> LineLayout:
    layout = LineLayout(text)
    layout.grow()
    assert layout.is_complete
    return layout


def rows(text: str) -> list[str]:
    layout = whole(text)
    return [layout.row(index) for index in range(layout.row_count)]


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("", [""]),
        ("one two three four\n\nfive", ["one two three four", "", "five"]),
        ("a\r\nb\n", ["a", "b", ""]),
        ("\r\n\n", ["", "", ""]),
        ("a\rb", ["a␍b"]),
        ("\x1b]0;x\x07\ty", ["␛]0;x␇    y"]),
        ("x" * PIECE_LENGTH + "\r\ny", ["x" * PIECE_LENGTH, "y"]),
        ("x" * (3 * PIECE_LENGTH + 1) + "\n", ["x" * (3 * PIECE_LENGTH + 1), ""]),
    ],
)
def test_each_line_is_one_row_without_control_characters(text: str, drawn: list[str]) -> None:
    assert rows(text) == drawn


def test_a_letter_stays_with_its_marks_at_the_edge_of_a_piece() -> None:
    for before in range(PIECE_LENGTH - 8, PIECE_LENGTH + 1):
        for cluster in ("e\u0301\u0302", "👩\u200d💻", "❤\ufe0f", "漢"):
            text = "x" * before + cluster + "y" * PIECE_LENGTH
            layout = whole(text)
            assert layout.row(0) == text, "a joiner or mark at an edge would be made visible"
            assert layout.row_width(0) == cell_len(text)


def test_columns_and_offsets_of_any_text_agree() -> None:
    chance = random.Random(5)
    letters = ["a", "b ", "\t", "漢字", "e\u0301", "👩\u200d💻", "\r\n", "\n", "שלום", "\x1b", "x" * 40]
    for _ in range(200):
        layout = whole("".join(chance.choices(letters, k=chance.randrange(400))))
        for row in range(layout.row_count):
            width = layout.row_width(row)
            assert width == cell_len(layout.row(row))
            start = layout.offset_of(row)
            assert (layout.row_of(start), layout.column_of(start)) == (row, 0)
            column = chance.randrange(width + 1)
            assert column <= layout.column_of(layout.offset_of(row, column)) < column + 4
            text, first_column, character = layout.window(row, column, column + 80)
            assert layout.row(row)[character:].startswith(text)
            assert cell_len(layout.row(row)[:character]) == first_column <= column
            assert first_column + cell_len(text) >= min(width, column + 80)


def test_only_what_is_asked_for_is_laid_out() -> None:
    layout = LineLayout("x" * 5_000_000)
    assert layout.window(0, 0, 80) == Window("", 0, 0) and layout.row(0) == ""
    assert layout.column_of(1_000_000) == 1_000_000
    assert 1_000_000 < layout.row_width(0) < 1_100_000 and not layout.is_complete
    assert layout.row(0) == "x" * layout.row_width(0)
    assert len(layout.window(0, 500_000, 500_080).text) <= 2 * PIECE_LENGTH


def test_a_line_of_marks_is_drawn_in_part() -> None:
    layout = whole("e" + "\u0301" * 100_000 + "end")
    assert layout.row_width(0) == 4
    text = layout.window(0, 0, 80).text
    assert len(text) <= MAX_WINDOW_PIECES * PIECE_LENGTH
    assert len(text) >= MAX_WINDOW_PIECES * (PIECE_LENGTH - MAX_CLUSTER_LENGTH)
