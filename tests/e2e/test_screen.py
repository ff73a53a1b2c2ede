"""What the terminal is given, in a pseudo-terminal: never the widgets' state, which may be ahead of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CTRL_R, ESCAPE, ENTER, TAB = "\x12", "\x1b", "\r", "\t"
TOOL = '''
async def {name}(first: str = "", second: int = 0, third: bool = False) -> str:
    """Describes {name}."""
    return f"{name} has {{first}}, {{second}}"
'''
NAMES = [f"tool_{letter}" for letter in "abcdefghijkl"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with a dozen tools."""
    tools = tmp_path / "many" / "tools"
    tools.mkdir(parents=True)
    for name in NAMES:
        (tools / f"{name}.py").write_text(TOOL.format(name=name))
    return tmp_path / "many"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40)])
def test_the_pane_on_the_terminal_shows_the_tool_under_the_cursor(
    folder: Path, columns: int, rows: int
) -> None:
    with Desk([str(folder), "--port", "0"], columns=columns, rows=rows) as desk:
        desk.see(f"Describes {NAMES[0]}")
        for key, name in [*(("j", name) for name in NAMES[1:]), *(("k", name) for name in NAMES[-2::-1])]:
            desk.press(key)
            desk.see(f"Describes {name}", within_s=5)
            assert name in desk.text.splitlines()[2], "the title is of the same tool as the description"
