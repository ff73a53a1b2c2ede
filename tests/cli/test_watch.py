"""Tests of `mcpdesk watch`: notifications of servers in both eras, until the person or the server ends it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO

import pytest

from tests.cli.conftest import ROOT, Service
from tests.support.patience import WITHIN_S

pytestmark = pytest.mark.process

NEW_TOOL = 'async def fresh() -> str:\n    """New."""\n    return "new"\n'
ENDS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "a"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
        note = {"level": "info", "logger": "l", "data": "bye\\x1b"}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": note}), flush=True)
    elif asked["method"] == "resources/subscribe":
        sys.exit(7)
    elif "id" in asked:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""


@contextmanager
def watching(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A running `mcpdesk watch`."""
    started = subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", "watch", *arguments],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


@contextmanager
def saving(path: Path, text: str) -> Iterator[None]:
    """Save a file with news again and again: the folder may not be watched yet."""
    is_heard = Event()

    def save() -> None:
        for number in range(100):
            path.write_text(f"{text}\n# {number}\n")
            if is_heard.wait(0.5):
                return

    thread = Thread(target=save)
    thread.start()
    try:
        yield
    finally:
        is_heard.set()
        thread.join()


def line_with(stream: IO[str] | None, words: str) -> str:
    """The first line that has these words."""
    assert stream is not None
    seen = []
    for line in stream:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"never said {words!r}: {seen}")


def test_changes_of_a_folder_are_told_in_the_stateless_era(folder: Path) -> None:
    with watching(str(folder), "--json") as watch:
        agreed = json.loads(line_with(watch.stdout, "acknowledged"))
        assert agreed["params"]["notifications"]["toolsListChanged"] is True
        with saving(folder / "tools" / "fresh.py", NEW_TOOL):
            changed = json.loads(line_with(watch.stdout, "list_changed"))
        assert changed["method"] == "notifications/tools/list_changed"
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(WITHIN_S) == 0


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_resource_behind_a_url_is_followed_in_both_eras(
    era: str, folder: Path, serve: Callable[..., Service]
) -> None:
    url = serve(str(folder), "--port", "0").says("serving small at").rpartition(" ")[2]
    with watching(url, "--era", era, "--resource", "resource://notes") as watch:
        if era == "stateless":
            line_with(watch.stdout, "subscriptions/acknowledged")
        else:
            line_with(watch.stderr, "watching")
        with saving(folder / "resources" / "notes.md", "Other notes"):
            assert "  resources/updated  resource://notes" in line_with(watch.stdout, "updated")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(WITHIN_S) == 0


def test_a_restart_of_the_server_is_survived(folder: Path, serve: Callable[..., Service]) -> None:
    service = serve(str(folder), "--port", "0")
    url = service.says("serving small at").rpartition(" ")[2]
    with watching(url) as watch:
        line_with(watch.stdout, "subscriptions/acknowledged")
        service.end()
        line_with(watch.stderr, "the subscription ended, and is renewed: ")
        serve(str(folder), "--port", url.split(":")[2].partition("/")[0]).says("serving small at")
        line_with(watch.stderr, "watching again")
        line_with(watch.stdout, "subscriptions/acknowledged")
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(WITHIN_S) == 0


def test_a_program_that_ends_is_told_with_its_code(tmp_path: Path) -> None:
    path = tmp_path / "ends.py"
    path.write_text(ENDS)
    with watching("--resource", "a://b", "--", sys.executable, str(path)) as watch:
        out, err = watch.communicate(timeout=WITHIN_S)
    assert "message  info  l: bye␛" in out
    assert "ended with exit code 7" in err
    assert watch.returncode == 3
