"""Output of programs: colours stay, commands to the terminal go, and rows fit."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len
from rich.color import Color

from mcpdesk.tui.results.program_output import PLAIN, plain, spans, wrapped


def styles(line: str) -> dict[str, str]:
    """Text to style, as Rich spells it."""
    return {text: str(style) for text, style in spans(line)}


def test_colours_and_attributes_become_styles() -> None:
    assert styles("a\x1b[1;31mred\x1b[0mb") == {"a": "none", "red": "bold color(1)", "b": "none"}
    assert styles("\x1b[4;7mx\x1b[24my\x1b[27mz") == {"x": "underline reverse", "y": "reverse", "z": "none"}
    assert styles("\x1b[94;103mx\x1b[39my\x1b[49mz") == {
        "x": "color(12) on color(11)", "y": "on color(11)", "z": "none",
    }  # fmt: skip


def test_palette_and_true_colours_are_known() -> None:
    ((_, palette),) = spans("\x1b[38;5;200mx")
    assert palette.color == Color.from_ansi(200)
    ((_, true),) = spans("\x1b[48;2;1;2;3mx")
    assert true.bgcolor == Color.from_rgb(1, 2, 3)
    assert styles("\x1b[38;5;99999mx\x1b[38;9mx")  # out of range, unknown


def test_black_and_white_can_be_read_on_every_theme() -> None:
    assert styles("\x1b[30mx") == {"x": "color(8)"}
    assert styles("\x1b[37mx\x1b[97my") == {"x": "none", "y": "none"}
    assert styles("\x1b[30;42mx\x1b[97;41my") == {"x": "color(0) on color(2)", "y": "color(15) on color(1)"}


@pytest.mark.parametrize(
    "line",
    [
        "\x1b[2Jword", "\x1b[10;10Hword", "\x1b]0;a title\x07word", "\x1b]8;;http://x\x1b\\word\x1b]8;;\x1b\\",
        "\x1bPq#0;2;0\x1b\\word", "\x1b(Bword", "\x1b=word", "word\x1b[3", "word\x1b",
        "\x1b[?1049hword\x1b]0;open",
    ],
)  # fmt: skip
def test_commands_to_a_terminal_are_dropped(line: str) -> None:
    assert plain(line) == "word"


def test_other_control_characters_are_shown() -> None:
    assert plain("a\x07b\x9b31mc\x08") == "a␇b‹9b›31mc␈"


def test_any_bytes_give_the_same_letters_with_and_without_styles() -> None:
    chance = random.Random(7)
    pieces = [
        "\x1b",
        "[",
        "]",
        "0",
        ";",
        "m",
        "31",
        "a",
        "é",
        "日",
        "\x07",
        "\\",
        "\x9b",
        "P",
        "38",
        "5",
        "\t",
    ]
    for _ in range(3_000):
        line = "".join(chance.choices(pieces, k=chance.randrange(24)))
        assert "".join(text for text, _ in spans(line)) == plain(line)
        assert not any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 for letter in plain(line))


def test_a_number_of_any_length_says_nothing_and_breaks_nothing() -> None:
    assert list(spans(f"\x1b[31m\x1b[{'1' * 5_000}mred")) == list(spans("\x1b[31mred"))


def test_rows_are_no_wider_than_the_room_and_lose_nothing() -> None:
    for text in ("", "abc", "abcdefghij", "日本語日本語abc", "e\u0301" * 9):
        rows = [text[start:end] for start, end in wrapped(text, 4)]
        assert "".join(rows) == text and rows
        assert all(cell_len(row) <= 4 for row in rows)
    assert list(wrapped("abc", 0)) == [(0, 3)]


def test_a_line_without_commands_has_no_style() -> None:
    assert list(spans("plain")) == [("plain", PLAIN)]
