"""Pictures on a real terminal: sixel or kitty's protocol if it supports them, otherwise half blocks."""

from __future__ import annotations

import fcntl
import re
import struct
import sys
import termios
from pathlib import Path

import pytest

from tests.support.pictures import packed, two_halves
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CTRL_Q, CTRL_R = "\x11", "\x12"
ASKED = b"\x1b[c"
SIXEL = b"\x1b[6;20;10t\x1b[?62;4;22c"
KITTY = b"\x1b_Gi=31;OK\x1b\\\x1b[?62c"
NEITHER = b"\x1b[?1;2c"
PATIENT = (
    "from mcpdesk.tui import terminal; terminal.TIMEOUT_S = 20; from mcpdesk.__main__ import main; main()"
)
"""The program, for a terminal that answers, but may be slow."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with one picture."""
    resources = tmp_path / "small" / "resources"
    resources.mkdir(parents=True)
    (resources / "flag.png").write_bytes(packed(two_halves(400, 200)))
    return tmp_path / "small"


def read(folder: Path, **more: object) -> Desk:
    """The desk with the picture on it, after it was read."""
    if more.get("answers"):
        more["program"] = (sys.executable, "-c", PATIENT)
    desk = Desk([str(folder), "--port", "0"], columns=120, rows=40, **more)  # type: ignore[arg-type]
    desk.see("flag.png")
    assert ASKED not in desk.raw, "a desk that shows no picture does not ask"
    desk.press(CTRL_R)
    desk.see("400 x 200 PNG")
    desk.draws(re.escape(ASKED))
    assert desk.raw.count(ASKED) == 1
    return desk


def leave(desk: Desk) -> None:
    """Quit the desk; the terminal's replies must not count as keys."""
    desk.see("Workbench")
    desk.see("palette")
    desk.press(CTRL_Q)
    assert desk.end() == 0


def test_a_terminal_that_knows_sixel_is_given_sixels(folder: Path) -> None:
    with read(folder, answers={ASKED: SIXEL}) as desk:
        desk.draws(rb'\x1bP[0-9;]*q"1;1;\d+;20[^\x1b]*#\d+;2;100;0;0[^\x1b]*\x1b\\')
        assert "▀" not in desk.text
        leave(desk)


def test_a_terminal_that_knows_kittys_protocol_is_given_the_picture_once(folder: Path) -> None:
    with read(folder, answers={ASKED: KITTY}) as desk:
        desk.draws(rb"\x1b_Gi=\d+,f=100,q=2,m=[01];.*\x1b_Ga=p,U=1,i=\d+,c=\d+,r=\d+,q=2\x1b\\")
        desk.draws("\U0010eeee".encode())
        leave(desk)
        assert desk.raw.count(b"a=p,U=1") == 1


@pytest.mark.parametrize("answers", [{ASKED: NEITHER}, {}])
def test_other_terminals_are_given_half_blocks(folder: Path, answers: dict[bytes, bytes]) -> None:
    with read(folder, answers=answers) as desk:
        desk.see("▀▀▀▀")
        leave(desk)
        assert b"\x1bP" not in desk.raw and b"a=p" not in desk.raw


def test_without_colour_nobody_is_asked(folder: Path) -> None:
    desk = Desk([str(folder), "--port", "0"], columns=120, rows=40, environ={"NO_COLOR": "1"})
    with desk:
        desk.see("flag.png")
        desk.press(CTRL_R)
        desk.see("not drawn: the terminal has no colours")
        assert ASKED not in desk.raw
        leave(desk)


def test_a_terminal_that_tells_the_size_of_its_cells_gets_as_many_pixels(folder: Path) -> None:
    program = (sys.executable, "-c", PATIENT)
    known = {ASKED: b"\x1b[?62;4c"}
    desk = Desk([str(folder), "--port", "0"], columns=120, rows=40, answers=known, program=program)
    with desk:
        size = struct.pack("HHHH", 40, 120, 120 * 8, 40 * 16)
        fcntl.ioctl(desk.process.child_fd, termios.TIOCSWINSZ, size)
        desk.see("flag.png")
        desk.press(CTRL_R)
        desk.draws(rb'q"1;1;\d+;16')
        leave(desk)
