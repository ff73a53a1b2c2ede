"""Answers of a terminal among keys."""

from __future__ import annotations

import pytest

from mcpdesk.tui.results import terminal_graphics
from mcpdesk.tui.results.terminal_graphics import QUESTION, Answers

KITTY, CELL, SIXEL, PLAIN = "\x1b_Gi=31;OK\x1b\\", "\x1b[6;20;10t", "\x1b[?62;4;22c", "\x1b[?1;2c"


@pytest.fixture
def ended() -> list[bool]:
    return []


@pytest.fixture
def answers(ended: list[bool]) -> Answers:
    return Answers(lambda: ended.append(True))


def test_all_is_asked_and_what_every_terminal_answers_last() -> None:
    assert "a=q" in QUESTION and "\x1b[16t" in QUESTION and QUESTION.endswith("\x1b[c")


def test_answers_are_taken_out_of_what_is_typed(answers: Answers, ended: list[bool]) -> None:
    assert answers.take("a" + KITTY + "b" + CELL) == "ab"
    assert not ended
    assert answers.take("\x1b[A" + SIXEL + "c") == "\x1b[Ac"
    assert ended
    assert (answers.knows_kitty, answers.knows_sixel, answers.cell) == (True, True, (10, 20))


def test_a_terminal_that_knows_neither_is_believed(answers: Answers, ended: list[bool]) -> None:
    assert answers.take("\x1b_Gi=31;ENOSYS:no\x1b\\" + PLAIN) == ""
    assert ended and not answers.knows_kitty and not answers.knows_sixel


@pytest.mark.parametrize("whole", [KITTY + CELL + SIXEL])
def test_answers_may_come_in_pieces(answers: Answers, whole: str) -> None:
    left = "".join(
        answers.take(piece) for piece in (whole[:3], whole[3:9], whole[9:15], whole[15:31], whole[31:])
    )
    assert left == ""
    assert (answers.knows_kitty, answers.knows_sixel, answers.cell) == (True, True, (10, 20))


def test_keys_that_begin_alike_are_not_kept(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    for keys in (
        "\x1b",
        "\x1b[A",
        "\x1b[1;5C",
        "\x1b[<0;10;5M",
        "\x1b[?2026;2$y",
        "\x1b[200~?c\x1b[201~",
        "?",
    ):
        assert answers.take(keys) == keys
    monkeypatch.setattr(terminal_graphics, "WITHIN_S", 0.0)
    assert answers.take("\x1b[?1") == "\x1b[?1"


def test_late_answers_are_taken_out_too(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_graphics, "WITHIN_S", 0.0)
    assert answers.take("x" + SIXEL) == "x"
    assert answers.knows_sixel


def test_nonsense_sizes_are_none(answers: Answers) -> None:
    answers.take("\x1b[6;0;0t\x1b[6;99999999;5t")
    assert answers.cell is None
