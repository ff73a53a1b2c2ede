"""Output to the terminal, in a pseudo-terminal: never the widgets' state, which may be ahead of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
CTRL_E, CTRL_R, ENTER, TAB, F3 = "\x05", "\x12", "\r", "\t", "\x1bOR"
CLEAR_ALL = "\x01\x0b" * 10
"""In a text area: to the start of the line and delete to its end, often enough."""
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


@pytest.mark.parametrize(("columns", "rows"), [(120, 24), (120, 40)])
def test_the_pane_on_the_terminal_shows_the_tool_under_the_cursor(
    folder: Path, columns: int, rows: int
) -> None:
    with Desk([str(folder), "--port", "0"], columns=columns, rows=rows) as desk:
        desk.see(f"Describes {NAMES[0]}")
        for key, name in [*(("j", name) for name in NAMES[1:]), *(("k", name) for name in NAMES[-2::-1])]:
            desk.press(key)
            desk.see(f"Describes {name}")
            assert name in desk.text.splitlines()[2], "the title is of the same tool as the description"


PAIR = '''
async def pair(first: str, second: str) -> str:
    """Describes pair."""
    return f"got <{first}> and <{second}>"
'''


@pytest.mark.parametrize(
    ("typed", "result"),
    [
        (f"{ENTER}ab{TAB}cd{CTRL_R}", "got <ab> and <cd>"),
        (f"{ENTER}pqrm{ENTER}x{TAB}{ENTER}", "got <pqrm> and <x>"),
        (f'{ENTER}{CTRL_E}{CLEAR_ALL}{{"first":"7","second":"8"}}{CTRL_R}', "got <7> and <8>"),
    ],
    ids=["tab", "enter", "json"],
)
def test_keys_typed_at_once_reach_the_field_they_are_meant_for(folder: Path, typed: str, result: str) -> None:
    (folder / "tools" / "a_pair.py").write_text(PAIR)
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("Describes pair")
        desk.press(typed)
        desk.see(result)


def test_keys_typed_while_a_dialog_comes_and_goes_are_not_lost(folder: Path) -> None:
    (folder / "tools" / "a_pair.py").write_text(PAIR)
    with Desk([str(folder), "--port", "0"], columns=120, rows=40) as desk:
        desk.see("Describes pair")
        desk.press(f"{ENTER}ab{TAB}cd{CTRL_R}")
        desk.see("got <ab> and <cd>")
        desk.press(f"{F3}{ENTER}xy{TAB}z{CTRL_R}")
        desk.see("got <xy> and <z>")
