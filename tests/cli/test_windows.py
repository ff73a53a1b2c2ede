"""What works where `fork`, Unix sockets and most signals are missing, and what the rest says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.cli.main import COMMANDS
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from tests.cli.conftest import Service

MISSING = "does not work on Windows, which lacks the pipes, signals and process groups it needs."
SAMPLES = sorted(str(place) for place in (ROOT / "sample_servers").iterdir() if place.is_dir())


def on_windows(*lines: list[str]) -> list[dict[str, Any]]:
    """Exit code, output and messages of each command line, in one process."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.windows"],
        cwd=ROOT, input=json.dumps(lines), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.process
def test_what_needs_a_unix_says_so_in_one_sentence() -> None:
    hello = SAMPLES[0]
    refused = [[hello], ["desk", hello], ["serve", hello], ["stdio", hello], ["stdio", hello, "--alone"]]
    refused += [["open", "a.jsonl"], ["call", hello, "greet"], ["list", hello], ["read", hello, "file://a"]]
    refused += [["prompt", hello, "explain"]]
    for line, ended in zip(refused, on_windows(*refused), strict=True):
        first, hint = ended["err"].splitlines()
        assert (ended["code"], ended["out"]) == (2, ""), line
        assert first.endswith(MISSING) and "mcpdesk check FOLDER" in hint, line


@pytest.mark.process
def test_folders_are_checked_and_described(tmp_path: Path, folder: Path) -> None:
    works = [["--help"], *([name, "--help"] for name in COMMANDS), ["settings"], ["completion", "bash"]]
    works += [["new", str(tmp_path / "fresh")], ["check", str(tmp_path / "fresh")], ["check", str(folder)]]
    works += [["check", sample] for sample in SAMPLES]
    works += [["schemas", str(folder), "--for", "openai"], ["config", str(folder), "--for", "cursor"]]
    works += [["config", str(folder), "--for", "cursor", "--http", "http://127.0.0.1:3333"]]
    for line, ended in zip(works, on_windows(*works), strict=True):
        assert ended["code"] == 0 and ended["out"] and "Traceback" not in ended["err"], (line, ended)


@pytest.mark.slow
def test_a_server_is_used_over_http(folder: Path, serve: Callable[..., Service]) -> None:
    found = re.search(r"http://\S+/mcp/small", serve(str(folder), "--port", "0").says("/mcp/small"))
    assert found is not None
    url = found.group()
    lines = [["list", url], ["call", url, "greet", "name=Ada"], ["read", url, "resource://notes"]]
    listed, called, read, asked = on_windows(*lines, ["prompt", url, "summarize", "text=a tale"])
    assert {each["code"] for each in (listed, called, read, asked)} == {0}
    assert "greet" in listed["out"] and called["out"] == "Hello, Ada!\n"
    assert "# Notes" in read["out"] and "Please summarize: a tale" in asked["out"]
