"""The editor of a person is opened at the line, however it takes that."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcpdesk.tui.editor import editor_command, traceback_location

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


def test_a_traceback_names_the_last_place_of_the_author_that_is_here(tmp_path: Path) -> None:
    own, installed = tmp_path / "server.py", tmp_path / "site-packages" / "kit.py"
    installed.parent.mkdir()
    for file in (own, installed):
        file.touch()
    frames = [
        f'  File "{path}", line {line}, in f\n    g()' for path, line in ((own, 3), (own, 7), (installed, 9))
    ]
    text = "\n".join(["Traceback (most recent call last):", *frames, "KeyError: 'tea'"])
    assert traceback_location(text) == f"{own}:7"
    assert traceback_location("\n".join(frames[2:])) == f"{installed}:9"
    own.unlink()
    installed.unlink()
    assert traceback_location(text) == ""


def test_a_traceback_is_understood_in_a_box_that_folds_its_paths(tmp_path: Path) -> None:
    own = tmp_path / "server.py"
    own.touch()
    for width in range(12, 60):
        words = f"{own}:36 in _look_up"
        folded = [words[at : at + width] for at in range(0, len(words), width)]
        inside = ["❱ 35 │   return table", "", *folded, "", "❱ 36 │   return city"]
        rows = [f"   │ {each:{width + 9}} │   " for each in inside]
        text = "\n".join(["ERROR  Tool raised", "   ╭─ Traceback ─╮", *rows, "   ╰──╯", "KeyError: 'x'"])
        assert traceback_location(text) == f"{own}:36", width
