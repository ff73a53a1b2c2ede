"""`mcpdesk export` on captures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import recorded

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.slow
def test_a_capture_is_exported_in_every_format_with_secrets_masked(mcpdesk: Run, tmp_path: Path) -> None:
    capture = recorded(tmp_path / "a.jsonl", ("greet", "Ada", "hello", 0.1), is_secret=True)
    har = json.loads(mcpdesk("export", str(capture), "--as", "har").stdout)
    assert har["log"]["entries"][0]["request"]["url"] == "http://a.test/mcp/profiles"
    assert "tools/call greet" in mcpdesk("export", str(capture), "--as", "mermaid").stdout
    for ending in ("har", "jsonl", "md", "curl"):
        masked = mcpdesk("export", str(capture), "--as", ending).stdout
        shown = mcpdesk("export", str(capture), "--as", ending, "--with-secrets").stdout
        assert ("hello" in masked or ending == "curl") and "s3cret" not in masked and "hunter2" not in masked
        assert "Bearer s3cret-token" in shown and "hunter2" in shown
    commands = mcpdesk("export", str(capture), "--as", "curl").stdout
    assert commands.count("\ncurl -X POST ") == 2 and commands.startswith("# 0. ")
    out = tmp_path / "calls.jsonl"
    filtered = ("export", str(capture), "--as", "jsonl", "--filter", "tool:greet", "--output", str(out))
    assert "1 exchanges" in mcpdesk(*filtered).stderr
    assert json.loads(out.read_text())["name"] == "greet"
    assert "already exists" in mcpdesk(*filtered).stderr
    bad = mcpdesk("export", str(tmp_path / "none.jsonl"), "--as", "md")
    assert bad.returncode == 2 and "cannot be read" in bad.stderr


@pytest.mark.process
def test_the_statistics_of_a_capture_are_exported(mcpdesk: Run, tmp_path: Path) -> None:
    capture = recorded(tmp_path / "a.jsonl", ("greet", "Ada", "hello", 0.1), ("greet", "Eve", "!no", 0.3))
    rows = list(csv.DictReader(mcpdesk("export", str(capture), "--as", "csv").stdout.splitlines()))
    assert [(row["by"], row["name"], row["calls"], row["errors"]) for row in rows] == [
        ("tool", "all calls", "2", "1"),
        ("tool", "greet", "2", "1"),
        ("client", "all calls", "2", "1"),
        ("client", "claude-code 2.1", "2", "1"),
        ("method", "all requests", "3", "2"),
        ("method", "tools/call", "2", "1"),
        ("method", "tools/list", "1", "1"),
    ]
    out = tmp_path / "calls.json"
    assert mcpdesk("export", str(capture), "--as", "json", "--output", str(out)).returncode == 0
    assert [row["p99_s"] for row in json.loads(out.read_text())][1] == pytest.approx(0.3, rel=0.1)
    refused = mcpdesk("export", str(capture), "--as", "csv", "--filter", "tool:greet")
    assert refused.returncode == 2 and "--filter cannot be used with --as csv" in refused.stderr
