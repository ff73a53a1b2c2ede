"""`mcpdesk diff` and `prune` on captures that real servers wrote."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.captures import recorded

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service


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
