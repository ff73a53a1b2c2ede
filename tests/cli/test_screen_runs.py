"""A terminal left by a screen that could not clean up is usable again."""

from __future__ import annotations

import os
import pty
import termios
import tty

from mcpdesk.cli.screen_runs import LEAVE_SCREEN, Terminal


def test_settings_and_screen_are_put_back() -> None:
    outer, inner = pty.openpty()
    try:
        before = termios.tcgetattr(inner)
        terminal = Terminal(inner)
        tty.setraw(inner)
        terminal.restore()
        assert termios.tcgetattr(inner) == before
        assert os.read(outer, 4096).decode() == LEAVE_SCREEN
    finally:
        os.close(inner)
        os.close(outer)


def test_what_is_no_terminal_is_left_alone() -> None:
    source, sink = os.pipe()
    try:
        Terminal(sink).restore()
        os.close(sink)
        assert os.read(source, 100) == b""
    finally:
        os.close(source)
