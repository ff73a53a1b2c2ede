"""What the desk asks of the terminal before it begins."""

from __future__ import annotations

import io
import sys

import pytest

from mcpdesk.cli.desk import require_terminal
from mcpdesk.errors import DeskUserError


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_terminal_is_asked_for_on_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stdin, stderr in ((io.StringIO(), Terminal()), (Terminal(), io.StringIO()), (None, Terminal())):
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stderr", stderr)
        with pytest.raises(DeskUserError) as caught:
            require_terminal()
        assert "mcpdesk serve" in caught.value.hint


def test_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    require_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(DeskUserError, match="dumb"):
        require_terminal()


def test_a_desk_whose_stderr_is_a_file_says_why_where_the_person_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with pytest.raises(DeskUserError, match="leave the redirection out"):
        require_terminal()
    assert "The desk draws on stderr" in shown.getvalue()
