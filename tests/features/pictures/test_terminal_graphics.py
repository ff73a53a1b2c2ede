"""Size of a picture in cells, and replies of a terminal among the typed keys."""

from __future__ import annotations

import pytest

from mcpdesk.features.pictures import terminal_graphics
from mcpdesk.features.pictures.terminal_graphics import (
    MAX_SIXEL_PIXELS,
    Graphics,
    GraphicsKind,
    TerminalAnswers,
)

HALF, SIXEL, KITTY = (Graphics(GraphicsKind(name)) for name in ("half blocks", "sixel", "kitty"))


@pytest.mark.parametrize(
    ("graphics", "picture", "cells"),
    [
        (HALF, (200, 100), (40, 10)),
        (HALF, (100, 400), (15, 30)),
        (HALF, (20, 20), (20, 10)),
        (HALF, (1, 1), (16, 8)),
        (HALF, (10_000, 1), (40, 1)),
        (HALF, (1, 10_000), (1, 30)),
        (SIXEL, (200, 100), (20, 5)),
        (KITTY, (4000, 2000), (40, 10)),
        (SIXEL, (16, 16), (16, 8)),
    ],
)
def test_a_picture_keeps_its_proportions_within_the_room(
    graphics: Graphics, picture: tuple[int, int], cells: tuple[int, int]
) -> None:
    assert graphics.cells(*picture, 40, 30) == cells


def test_what_is_drawn_is_not_stretched_to_whole_cells() -> None:
    columns, rows = HALF.cells(800, 40, 60, 30)
    assert (columns, rows) == (60, 2)
    assert HALF.pixels(columns, rows) == (60, 4)
    assert HALF.within(800, 40, columns, rows) == (60, 3)
    assert SIXEL.within(300, 100, 20, 10) == (200, 67)


def test_unusual_cells_are_made_up_for() -> None:
    wide = Graphics(GraphicsKind.HALF_BLOCKS, (10, 10))
    assert wide.cells(100, 100, 40, 30) == (30, 30)
    assert wide.within(100, 100, 30, 30) == (30, 60)


def test_sixels_are_bounded() -> None:
    sharp = Graphics(GraphicsKind.SIXEL, (40, 80))
    columns, rows = sharp.cells(4000, 3000, 200, 60)
    width, height = sharp.pixels(columns, rows)
    assert MAX_SIXEL_PIXELS / 1.2 < width * height < MAX_SIXEL_PIXELS * 1.2
    assert Graphics(GraphicsKind.KITTY, (40, 80)).cells(4000, 3000, 200, 60)[1] == 38


KITTY_ANSWER, CELL, SIXEL_ANSWER, PLAIN = (
    "\x1b_Gi=31;OK\x1b\\",
    "\x1b[6;20;10t",
    "\x1b[?62;4;22c",
    "\x1b[?1;2c",
)


@pytest.fixture
def ended() -> list[bool]:
    return []


@pytest.fixture
def answers(ended: list[bool]) -> TerminalAnswers:
    return TerminalAnswers(lambda: ended.append(True))


def test_answers_are_taken_out_of_what_is_typed(answers: TerminalAnswers, ended: list[bool]) -> None:
    assert answers.extract("a" + KITTY_ANSWER + "b" + CELL) == "ab"
    assert not ended
    assert answers.extract("\x1b[A" + SIXEL_ANSWER + "c") == "\x1b[Ac"
    assert ended
    assert (answers.knows_kitty, answers.knows_sixel, answers.cell) == (True, True, (10, 20))


def test_a_terminal_that_knows_neither_is_believed(answers: TerminalAnswers, ended: list[bool]) -> None:
    assert answers.extract("\x1b_Gi=31;ENOSYS:no\x1b\\" + PLAIN) == ""
    assert ended and not answers.knows_kitty and not answers.knows_sixel


def test_a_terminal_that_is_silent_about_a_protocol_does_not_have_it(
    answers: TerminalAnswers, ended: list[bool]
) -> None:
    assert answers.extract(PLAIN) == ""
    assert ended and not answers.knows_kitty and not answers.knows_sixel and answers.cell is None


@pytest.mark.parametrize("whole", [KITTY_ANSWER + CELL + SIXEL_ANSWER])
def test_answers_may_come_in_pieces(answers: TerminalAnswers, whole: str) -> None:
    left = "".join(
        answers.extract(piece) for piece in (whole[:3], whole[3:9], whole[9:15], whole[15:31], whole[31:])
    )
    assert left == ""
    assert (answers.knows_kitty, answers.knows_sixel, answers.cell) == (True, True, (10, 20))


def test_keys_that_begin_alike_are_not_kept(
    answers: TerminalAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    for keys in (
        "\x1b",
        "\x1b[A",
        "\x1b[1;5C",
        "\x1b[<0;10;5M",
        "\x1b[?2026;2$y",
        "\x1b[200~?c\x1b[201~",
        "?",
    ):
        assert answers.extract(keys) == keys
    monkeypatch.setattr(terminal_graphics, "ANSWER_TIMEOUT_S", 0.0)
    assert answers.extract("\x1b[?1") == "\x1b[?1"


def test_late_answers_are_taken_out_too(answers: TerminalAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_graphics, "ANSWER_TIMEOUT_S", 0.0)
    assert answers.extract("x" + SIXEL_ANSWER) == "x"
    assert answers.knows_sixel


def test_nonsense_sizes_are_none(answers: TerminalAnswers) -> None:
    answers.extract("\x1b[6;0;0t\x1b[6;99999999;5t")
    assert answers.cell is None
