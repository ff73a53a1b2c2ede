"""`mcpdesk check --eras`: one connection for each revision, and the differences between the answers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Run

OLD = """
import json, sys

KNOWN = ("2024-11-05", "2025-03-26")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    answer = {"error": {"code": -32601, "message": "no " + method}}
    if method == "initialize":
        asked = params["protocolVersion"]
        revision = asked if asked in KNOWN else KNOWN[-1]
        capabilities = {"tools": {}} | ({"completions": {}} if revision == "2025-03-26" else {})
        answer = {"result": {"capabilities": capabilities, "protocolVersion": revision,
                             "serverInfo": {"name": "old", "version": "1"}}}
    elif method == "tools/list":
        tool = {"name": "dig", "inputSchema": {"type": "object"}}
        more = [{"name": "fill", "inputSchema": {"type": "object"}}] if revision == "2025-03-26" else []
        tool |= {"annotations": {"readOnlyHint": True}} if revision == "2025-03-26" else {}
        answer = {"result": {"tools": [tool, *more]}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""


@pytest.mark.process
def test_each_revision_is_tried_and_compared(mcpdesk: Run, tmp_path: Path) -> None:
    program = tmp_path / "old.py"
    program.write_text(OLD)
    command = ("--", sys.executable, str(program))
    answers = json.loads(mcpdesk("check", "--eras", "--json", *command).stdout)["revisions"]
    by_name = {each["revision"]: each for each in answers}
    assert list(by_name) == ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
    assert by_name["2026-07-28"]["answered"] == "" and by_name["2026-07-28"]["problem"]
    assert {by_name[name]["answered"] for name in ("2025-11-25", "2025-06-18", "2025-03-26")} == {
        "2025-03-26"
    }
    assert by_name["2025-03-26"]["items"] == {"tool": 2} and by_name["2025-03-26"]["differences"] == []
    assert by_name["2024-11-05"]["differences"] == [
        "without the capability completions",
        "without the tool fill",
        "annotations is missing in tool dig",
    ]
    table = mcpdesk("check", "--eras", *command)
    assert table.returncode == 0
    assert "2025-11-25  answers with 2025-03-26" in table.stdout
    assert "\n2024-11-05:\n  without the capability completions\n" in table.stdout


@pytest.mark.process
def test_names_of_a_server_forge_no_lines_and_files_here_are_not_imported(
    folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "forging.py"
    program.write_text(OLD.replace('"completions"', repr("x\n2025-06-18  ok\x1b]0;t\x07")))
    (tmp_path / "click.py").write_text("raise SystemExit('imported')")
    for words in (["--", sys.executable, str(program)], [str(folder)]):
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "mcpdesk", "check", "--eras", *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert finished.returncode == 0, finished.stderr
        assert "imported" not in finished.stdout and "\x1b" not in finished.stdout
        is_old = words[0] == "--"
        assert not is_old or "\n2025-06-18  ok" not in finished.stdout


@pytest.mark.process
def test_a_folder_may_print_without_disturbing_the_report(mcpdesk: Run, folder: Path) -> None:
    tools = folder / "tools" / "tools.py"
    tools.write_text(f"print('stray')\n{tools.read_text()}")
    answers = json.loads(mcpdesk("check", str(folder), "--eras", "--json").stdout)["revisions"]
    assert [each["answered"] for each in answers] == [each["revision"] for each in answers]
    assert len(answers) == 5


@pytest.mark.process
def test_a_server_that_no_revision_reaches_has_the_exit_code_of_its_failure(mcpdesk: Run) -> None:
    failed = mcpdesk("check", "http://127.0.0.1:1/mcp", "--eras")
    assert failed.returncode == 3 and failed.stdout.count("Connection refused") == 5
    assert mcpdesk("check", "http://127.0.0.1:1/mcp", "--eras", "--strict").returncode == 2
