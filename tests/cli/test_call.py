"""`mcpdesk call`: results, and the exit code of every way to fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_result_is_printed(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "greet", "name=Ada", "loud:=true")
    assert (finished.stdout, finished.stderr, finished.returncode) == ("HELLO, ADA!\n", "", 0)


def test_whole_result_is_printed_as_json(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "add", "--json", "--input", "-", stdin='{"a": 1, "b": 2}')
    assert json.loads(finished.stdout)["structuredContent"] == {"sum": 3}
    assert finished.returncode == 0


def test_stray_print_stays_out_of_the_result(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("call", str(folder), "chatter")
    assert finished.stdout == "said\n"
    assert "a stray print" in finished.stderr
    assert "tools/tools.py:" in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["refuse"], 1, "not today"),
        (["greet", "nam=Ada"], 1, "nam"),
        (["greet", "name"], 2, "'name' is not an argument"),
        (["nothing"], 4, "nothing"),
        (["wait", "seconds:=20", "--timeout", "0.2"], 5, "within 0.2 s"),
    ],
)
def test_every_way_to_fail_has_its_code(
    mcpdesk: Run, folder: Path, arguments: list[str], code: int, told: str
) -> None:
    finished = mcpdesk("call", str(folder), *arguments)
    assert finished.returncode == code
    assert told in finished.stdout + finished.stderr
    assert "Traceback" not in finished.stderr


def test_what_a_built_in_tool_refuses_is_told_without_a_stack(mcpdesk: Run, tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"name": "asking", "builtins": ["AskUserQuestion"]}')
    finished = mcpdesk("call", str(tmp_path), "AskUserQuestion", "questions_json=[]")
    told = finished.stdout + finished.stderr
    assert finished.returncode == 1 and "has 0 questions; 1 to 8 are allowed" in told
    assert 'File "' not in told


def test_target_that_is_no_folder_is_told(mcpdesk: Run, folder: Path) -> None:
    nobody = mcpdesk("call", "http://127.0.0.1:1/mcp", "greet")
    assert nobody.returncode == 3 and "Connection refused" in nobody.stderr
    assert mcpdesk("call", str(folder / "mcp.json"), "greet").returncode == 2


def test_broken_manifest_is_told_with_line_and_column(mcpdesk: Run, folder: Path) -> None:
    (folder / "mcp.json").write_text('{\n  "name": "small",\n}')
    finished = mcpdesk("call", str(folder), "greet")
    assert finished.returncode == 2
    assert "mcp.json:" in finished.stderr.splitlines()[0]
    assert "Traceback" not in finished.stderr


@pytest.mark.slow
def test_arguments_become_what_the_schema_says(mcpdesk: Run, folder: Path) -> None:
    assert mcpdesk("call", str(folder), "greet", "name=7", "loud=1").stdout == "HELLO, 7!\n"
    assert json.loads(mcpdesk("call", str(folder), "add", "a=1", "b=2").stdout) == {"sum": 3}
    wrong = mcpdesk("call", str(folder), "add", "a=one", "b=2")
    assert wrong.returncode == 1 and "a: has to be an integer, not a string" in wrong.stdout
    named = mcpdesk("call", str(folder), "Greet", "name=Ada")
    assert named.returncode == 4 and "Unknown tool: Greet; did you mean greet?" in named.stderr


def test_a_folder_is_imported_and_run_by_one_thread(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools/rows.py").write_text(
        "import sqlite3\n\nrows = sqlite3.connect(':memory:')\n\n\n"
        "async def version() -> str:\n    return rows.execute('select 6 * 7').fetchone()[0]\n"
    )
    assert mcpdesk("call", str(folder), "version").stdout == "42\n"
