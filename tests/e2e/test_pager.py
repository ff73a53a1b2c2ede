"""Results and arguments in the person's own pager and editor, and back to the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.pager import pager_command
from tests.support.folders import write
from tests.support.terminal import Desk

FILES = {
    "mcp.json": '{"name": "shop"}',
    "tools/echo.py": '''
        async def echo(word: str = "tea") -> str:
            """Say it with a command for the terminal."""
            return f"said {word} \\x1b]0;owned\\x07" + "."
        ''',
}
PROGRAM = """#!/bin/sh
echo "at work, $2"; cat "$2" > "$(dirname "$0")/$1"; echo "$2" > "$(dirname "$0")/path"
[ "$1" = edited ] && sed -i s/tea/coffee/ "$2"
read -r answer
"""


def test_the_pager_is_the_persons_own(tmp_path: Path) -> None:
    assert pager_command({"PAGER": "most -s"}, tmp_path) == ["most", "-s", str(tmp_path)]
    assert pager_command({"PATH": "/"}, tmp_path)[-1:] in ([], [str(tmp_path)])


@pytest.mark.slow
def test_a_result_is_paged_arguments_are_edited_and_the_screen_comes_back(tmp_path: Path) -> None:
    folder = write(tmp_path / "shop", FILES)
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    environ = {
        "PAGER": f"{program} paged",
        "EDITOR": f"{program} edited",
        "MCPDESK_STATE_DIR": str(tmp_path / "state"),
    }
    with Desk([str(folder), "--http", "0"], columns=100, rows=30, environ=environ) as desk:
        desk.see("Say it with a command")
        desk.press("\x12")
        desk.see("said tea ␛")
        desk.press("o")
        desk.see("at work, /.*result.txt")
        assert "Workbench" not in desk.text, "the screen is the program's alone"
        desk.press("\r")
        desk.see("said tea ␛")
        assert (tmp_path / "paged").read_text() == "said tea ␛]0;owned␇."
        desk.press("\x1b[18~")
        desk.see("at work, /.*arguments.json")
        desk.press("\r")
        desk.see("Workbench")
        desk.see("coffee")
        assert (tmp_path / "edited").read_text() == '{\n  "word": "tea"\n}'
        assert not Path((tmp_path / "path").read_text().strip()).parent.exists(), "no copy is left behind"
        desk.press("\x12")
        desk.see("said coffee")
