"""The editor of a person is opened at the line, however it takes that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcpdesk.tui.editor import editor_command

FILE = Path("/srv/tools/a b.py")


@pytest.mark.parametrize(
    ("environ", "line", "command"),
    [
        ({"EDITOR": "vim"}, 7, ["vim", "+7", str(FILE)]),
        ({"EDITOR": "/usr/bin/nano -w"}, 7, ["/usr/bin/nano", "-w", "+7", str(FILE)]),
        ({"EDITOR": "vim", "VISUAL": "code --wait"}, 7, ["code", "--wait", "-g", f"{FILE}:7"]),
        ({"EDITOR": "hx"}, 7, ["hx", f"{FILE}:7"]),
        ({"EDITOR": "something"}, 7, ["something", str(FILE)]),
        ({"EDITOR": "vim"}, 0, ["vim", str(FILE)]),
    ],
)
def test_editors_are_told_the_line(environ: dict[str, str], line: int, command: list[str]) -> None:
    assert editor_command(environ, FILE, line) == command


def test_without_a_choice_one_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name == "vi")
    assert editor_command({}, FILE, 3) == ["vi", "+3", str(FILE)]
    monkeypatch.setattr(shutil, "which", lambda name: False)
    assert editor_command({}, FILE, 3) == []
