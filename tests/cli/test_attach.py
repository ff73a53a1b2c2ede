"""Tests of `mcpdesk attach`: the choice of the core, and the messages if the choice is not clear."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.stdio_server import Server
from tests.support.tiers import open_terminal

if TYPE_CHECKING:
    from tests.cli.conftest import Run, Service


@pytest.mark.process
def test_nothing_runs(mcpdesk: Run) -> None:
    ended = mcpdesk("attach")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "No core of mcpdesk is running on this machine." in ended.stderr
    assert "mcpdesk serve FOLDER" in ended.stderr


@pytest.mark.slow
def test_what_runs_is_listed_and_chosen_by_name_or_pid(
    mcpdesk: Run, serve: Callable[..., Service], folder: Path, tmp_path: Path
) -> None:
    first = serve(str(folder), "--port", "0")
    address = first.says("serving small").rpartition(" ")[2]
    lone = Server(write(tmp_path / "lone", {"mcp.json": '{"name": "lone"}'}))
    try:
        lone.shake_hands()
        ended = mcpdesk("attach")
        while "lone" not in ended.stdout:  # it begins to listen a moment after it answers
            ended = mcpdesk("attach", "--list")
        titles, *rows = (line.split() for line in ended.stdout.splitlines())
        assert titles == ["NAME", "PID", "KIND", "SINCE", "ADDRESS"]
        found = {row[0]: row for row in rows}
        assert found["small"][1:3] == [str(first.process.pid), "serve"]
        assert found["small"][-1] == address
        assert found["lone"][2] == "stdio"
        unknown = mcpdesk("attach", "nobody")
        assert "No running core has the server name or pid 'nobody'." in unknown.stderr
        assert f"serve small (pid {first.process.pid})" in unknown.stderr
        assert "needs a terminal" in mcpdesk("attach", "small").stderr
    finally:
        lone.close()
    second = serve(str(folder), "--port", "0")
    second.says("serving small")
    both = mcpdesk("attach", "small")
    assert "2 cores have a server 'small'." in both.stderr
    assert str(second.process.pid) in both.stderr
    assert "needs a terminal" in mcpdesk("attach", str(second.process.pid)).stderr


@pytest.mark.process
def test_leaving_the_screen_leaves_the_core_running(
    serve: Callable[..., Service], mcpdesk: Run, folder: Path
) -> None:
    service = serve(str(folder), "--port", "0")
    service.says("serving small")
    ours, theirs = open_terminal()
    screen = subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", "attach"],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )  # fmt: skip
    try:
        shown = b""
        while b"greet" not in shown:
            assert select.select([ours], [], [], WITHIN_S)[0], shown[-500:]
            shown += os.read(ours, 1 << 16)
        os.write(ours, b"\x11")  # ctrl+q
        while screen.poll() is None:
            if select.select([ours], [], [], 0.1)[0]:
                os.read(ours, 1 << 16)
        assert screen.returncode == 0
    finally:
        screen.kill()
        screen.wait()
        os.close(ours)
        os.close(theirs)
    assert "small" in mcpdesk("attach", "--list").stdout
    assert service.end() == 0
