"""Tests without `fork`, Unix sockets and most signals: the working parts, and the messages of the others."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.cli.main import COMMANDS
from tests.cli.conftest import ROOT, Service
from tests.support.features import having

SAMPLES = sorted(str(place) for place in (ROOT / "sample_servers").iterdir() if place.is_dir())
HELLO = str(ROOT / "sample_servers" / "hello")
PAGE = (ROOT / "docs" / "windows.md").read_text()
SIMULATION = "tests.support.windows"

pytestmark = pytest.mark.process


def on_windows(*lines: list[str]) -> list[dict[str, Any]]:
    """Exit code, output and messages of each command line, in one process."""
    ended = subprocess.run(
        [sys.executable, "-m", SIMULATION],
        cwd=ROOT, input=json.dumps(lines), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def alone_on_windows(*line: str) -> subprocess.CompletedProcess[str]:
    """One command line with the standard streams of its process."""
    return subprocess.run(
        [sys.executable, "-m", SIMULATION, *line],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_what_needs_a_unix_says_in_one_sentence_what_is_missing() -> None:
    refused = [[HELLO], ["desk", HELLO], ["open", "a.jsonl"], ["attach"], ["attach", "redis://a"]]
    refused += [["stdio", HELLO], ["stdio", HELLO, "--alone"]]
    refused += having("tap", ["wrap", "cursor"])
    refused += having("browser_desk", ["serve", HELLO, "--web"], ["desk", HELLO, "--web"])
    for line, ended in zip(refused, on_windows(*refused), strict=True):
        first, hint = ended["err"].splitlines()
        assert (ended["code"], ended["out"]) == (2, ""), (line, ended)
        assert re.search(r"does not work on Windows, which lacks .+\.$", first) and "in WSL" in hint, line


def test_programs_and_unix_sockets_are_refused_in_one_sentence(tmp_path: Path) -> None:
    run = "import sys"
    configured = tmp_path / "client.json"
    configured.write_text(json.dumps({"mcpServers": {"a": {"command": sys.executable, "args": ["-c", run]}}}))
    program = "programs cannot be started on Windows, which lacks process groups"
    expected = {
        ("list", "--", sys.executable, "-c", run): (3, program),
        ("list", f"{configured}:a", "--trust"): (3, program),
        ("serve", HELLO, "--socket", str(tmp_path / "a.sock")): (
            3,
            "Unix sockets are not available on Windows",
        ),
    }
    expected |= having("contract", (("check", "--", sys.executable, "-c", run), (3, program)))
    for line, ended in zip(expected, on_windows(*map(list, expected)), strict=True):
        code, told = expected[line]
        assert ended["code"] == code, (line, ended)
        assert told in ended["err"] and "Traceback" not in ended["err"], (line, ended)
    command = {"stage": "files", "command": "show", "run": [sys.executable, "--version"]}
    manifest = {"name": "tools", "commands": [command], "builtins": ["Bash"]}
    (tmp_path / "mcp.json").write_text(json.dumps(manifest))
    programs = having("program_tools", ["call", str(tmp_path), "files-show"])
    *of_programs, bash = on_windows(*programs, ["call", str(tmp_path), "Bash", "command=ls"])
    for ran in (*of_programs, bash):
        assert ran["code"] == 1 and "Traceback" not in ran["err"], ran
    assert all(program in ran["out"] for ran in of_programs), of_programs
    assert bash["out"] == "bash is not installed, or not in PATH\n"


def test_folders_are_checked_and_described(tmp_path: Path, folder: Path) -> None:
    works = [["--help"], *([name, "--help"] for name in COMMANDS), ["settings"], ["completion", "bash"]]
    works += [["new", str(tmp_path / "fresh")]]
    checked = [str(tmp_path / "fresh"), str(folder), *SAMPLES]
    works += having("contract", *(["check", each] for each in checked))
    works += [["schemas", str(folder), "--for", "openai"], ["config", str(folder), "--for", "cursor"]]
    works += [["config", str(folder), "--for", "cursor", "--http", "http://127.0.0.1:3333"]]
    works += [["help", "serve"], ["trust", "--list"], ["prune", "--older-than", "1d"]]
    for line, ended in zip(works, on_windows(*works), strict=True):
        assert ended["code"] == 0 and ended["out"] + ended["err"], (line, ended)
        assert "Traceback" not in ended["err"], (line, ended)


def test_folders_are_hosted_for_one_request_and_for_cases(folder: Path) -> None:
    lines = [
        ["list", str(folder)],
        ["call", str(folder), "chatter"],
        ["read", str(folder), "resource://notes"],
    ]
    listed, called, read, asked = on_windows(*lines, ["prompt", str(folder), "summarize", "text=a tale"])
    assert {each["code"] for each in (listed, called, read, asked)} == {0}
    assert "greet" in listed["out"] and called["out"] == "said\n" and "a stray print" in called["err"]
    assert "# Notes" in read["out"] and "Please summarize: a tale" in asked["out"]
    for command in having("cases", "test"):
        tested = alone_on_windows(command, HELLO)
        assert tested.returncode == 0 and "4 passed" in tested.stdout, tested.stderr


def test_a_folder_is_served_over_http_and_recorded(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    service = Service(str(folder), "--port", "0", "--state-dir", str(state), program=SIMULATION)
    try:
        found = re.search(r"http://\S+/mcp/small", service.says("/mcp/small"))
        assert found is not None
        url = found.group()
        lines = [["list", url], ["call", url, "greet", "name=Ada"], ["read", url, "resource://notes"]]
        lines += [["prompt", url, "summarize", "text=a tale"], ["list", url, "--revision", "2025-06-18"]]
        listed, called, read, asked, in_session = on_windows(*lines)
        assert {each["code"] for each in (listed, called, read, asked, in_session)} == {0}
        assert [path.suffix for path in (state / "sessions").glob("*.lock")] == [".lock"]
        assert "greet" in listed["out"] and called["out"] == "Hello, Ada!\n"
        assert "# Notes" in read["out"] and "Please summarize: a tale" in asked["out"]
        assert service.end(signal.SIGTERM) == 0
    finally:
        service.process.kill()
        service.process.wait()
        assert service.process.stderr is not None
        rest = service.process.stderr.read()
        service.process.stderr.close()
    assert "Traceback" not in "".join(service.lines) + rest
    [capture] = (state / "captures").glob("*.jsonl")
    for exported in on_windows(*having("exports", ["export", str(capture), "--as", "csv"])):
        assert exported["code"] == 0 and "greet" in exported["out"]


def test_the_page_lists_every_command() -> None:
    """In one of its two tables: what works, and what does not."""
    works, _, refused = PAGE.partition("## What does not work")

    def commands(text: str) -> set[str]:
        return {
            name for row in re.findall(r"(?m)^\| (`.+?) \|", text) for name in re.findall(r"`([\w-]+)", row)
        }

    named, missing = commands(works), commands(refused)
    assert set(COMMANDS) <= named | missing
    assert not set(COMMANDS) & named & missing
