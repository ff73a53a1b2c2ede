"""`mcpdesk export`, `diff` and `prune` on captures that real servers wrote."""

from __future__ import annotations

import csv
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote
from tests.support.traffic import IN, OUT, call, connection, error, request, text

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service


def recorded(path: Path, *calls: tuple[str, str, str, float], is_secret: bool = False) -> Path:
    """A capture of calls of a tool: name, argument, what it said (`!`: an error), seconds it took."""
    recording = Recording(path)
    recording.start()
    recording.connect(connection())
    now = time.time()
    for number, (name, argument, said, took) in enumerate(calls):
        asked = call(number, name, {"text": argument, **({"password": "hunter2"} if is_secret else {})})
        headers = (("Host", "a.test"), ("Authorization", "Bearer s3cret-token"))
        note = HttpNote("POST /mcp/profiles HTTP/1.1", headers)
        recording.frame(1, IN, asked, note=note, at=now)
        answer = error(number, -32602, said) if said.startswith("!") else text(number, said)
        recording.frame(1, OUT, answer, at=now + took)
    recording.frame(1, IN, request(99, "tools/list"), at=now)
    recording.close()
    return path


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


@pytest.mark.process
def test_two_captures_are_compared(mcpdesk: Run, tmp_path: Path) -> None:
    a = recorded(
        tmp_path / "a.jsonl",
        ("greet", "Ada", "hello", 0.01),
        ("greet", "Eve", "bye", 0.01),
        ("add", "1", "2", 0.01),
        ("gone", "", "x", 0.01),
        ("fails", "", "fine", 0.01),
    )
    b = recorded(
        tmp_path / "b.jsonl",
        ("greet", "Eve", "bye", 0.01),
        ("greet", "Bob", "hello", 0.01),
        ("add", "1", "2", 0.9),
        ("fails", "", "!broken", 0.01),
        ("new", "", "x", 0.01),
    )
    same = mcpdesk("diff", str(a), str(a))
    assert (same.returncode, same.stdout) == (0, "6 the same\n")
    done = mcpdesk("diff", str(a), str(b))
    assert done.returncode == 1
    assert '    arguments.text: "Ada" → "Bob"\n' in done.stdout
    assert "- tools/call gone  #3  only in a" in done.stdout
    assert "+ tools/call new  #4  only in b" in done.stdout
    assert "~ tools/call add  #2 → #2  slower, 10.0 ms → 900.0 ms" in done.stdout
    assert done.stdout.endswith("3 the same, 2 differs, 1 only in a, 1 only in b, 1 slower\n")
    found = json.loads(mcpdesk("diff", str(a), str(b), "--json").stdout)
    failed = next(each for each in found["changes"] if each["name"] == "fails")
    assert {"path": "status", "a": "ok", "b": "error"} in failed["differences"]
    assert any(each["path"] == "error" for each in failed["differences"])


@pytest.mark.process
def test_old_captures_go_and_one_that_is_written_stays(
    mcpdesk: Run,
    serve: Callable[..., Service],
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    captures = tmp_path / "state" / "captures"
    names = ("one.jsonl", "one.2.jsonl", "two.jsonl", "three.jsonl")
    captures.mkdir(parents=True)
    old = time.time() - 10 * 86_400
    for name in names:
        (captures / name).write_text("x")
        os.utime(captures / name, (old, old))
    service = serve(str(folder), "--port", "0")
    service.says("serving small at")
    service.process.send_signal(signal.SIGSTOP)  # it writes nothing more, so the times stay as they are set
    (written,) = (path for path in captures.iterdir() if path.name not in names)
    os.utime(written, (old - 1, old - 1))
    os.utime(captures / "three.jsonl")
    dry = mcpdesk("prune", "--older-than", "7d", "--dry-run")
    assert "2 captures, 3 B, would be removed" in dry.stdout and len(list(captures.iterdir())) == 5
    assert json.loads(mcpdesk("prune", "--keep", "3", "--json").stdout)["removed"] == []
    mcpdesk("prune", "--older-than", "7d")
    assert {path.name for path in captures.iterdir()} == {"three.jsonl", written.name}
    mcpdesk("prune", "--keep", "0")
    assert list(captures.iterdir()) == [written]
    assert "Use --older-than 7d" in mcpdesk("prune").stderr
    assert "'soon' is not a duration" in mcpdesk("prune", "--older-than", "soon").stderr
    assert "'30' is not a duration" in mcpdesk("prune", "--older-than", "30").stderr
