"""The real programs in a mode: clients on every transport see only the tools of the mode."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Service
from tests.support.messages import request
from tests.support.terminal import ROOT, Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
TOOLS = '''
async def look() -> str:
    """Look around."""
    return "seen"

async def change() -> str:
    """Change something."""
    return "changed"
'''
PARAMS = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "sorted"
    (place / "tools").mkdir(parents=True)
    (place / "tools/work.py").write_text(TOOLS)
    modes = {"review": {"tools": ["look"]}, "both": {"tools": ["look", "change"]}}
    (place / "mcp.json").write_text(json.dumps({"name": "sorted", "modes": modes}))
    return place


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=10
        ) as answer:
            found: dict[str, Any] = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            found = json.loads(error.read())
    return found


def listed(url: str) -> list[str]:
    return [tool["name"] for tool in post(url, request("tools/list"))["result"]["tools"]]


def over_stdio(folder: Path, *arguments: str) -> str:
    """Output of `mcpdesk stdio` for a client that lists the tools, and its stderr."""
    lines = (request("initialize", PARAMS), request("tools/list", identifier=2))
    finished = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "stdio", str(folder), *arguments],
        cwd=ROOT, input="".join(f"{json.dumps(each)}\n" for each in lines),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return finished.stdout + finished.stderr


def test_service_in_a_mode_serves_nothing_else(folder: Path) -> None:
    service = Service(str(folder), "--port", "0", "--mode", "review")
    try:
        url = service.says("serving sorted at").rpartition(" ")[2]
        assert listed(url) == listed(f"{url}?mode=review") == ["look"]
        for query in ("", "?mode=review"):
            refused = post(url + query, request("tools/call", {"name": "change"}))
            assert refused["error"]["message"] == "Unknown tool: change"
        refused = post(f"{url}?mode=both", request("tools/list"))
        assert "It is only served in the mode 'review'." in refused["error"]["message"]
        # A client that starts the server by itself meets this one, and gets no more of it.
        assert '"look"' in over_stdio(folder) and '"change"' not in over_stdio(folder)
        assert "only served in the mode 'review'" in over_stdio(folder, "--mode", "both")
    finally:
        assert service.end() == 0
        assert service.process.stderr is not None
        service.process.stderr.close()


def test_desk_in_a_mode_shows_and_serves_its_tools(folder: Path) -> None:
    with Desk([str(folder), "--port", "0", "--mode", "review"], columns=100, rows=30) as desk:
        found = re.search(
            r"http://127\.0\.0\.1:\d+/mcp/sorted", desk.see(r"http://127\.0\.0\.1:\d+/mcp/sorted")
        )
        desk.see("look")
        assert "change" not in desk.text
        assert found is not None
        assert listed(found[0]) == ["look"]
        desk.press("\x11")
        assert desk.end() == 0


def test_mode_nobody_has_is_told_at_the_start(folder: Path) -> None:
    for command in (["serve", str(folder)], ["list", str(folder)], ["stdio", str(folder)]):
        finished = subprocess.run(
            [sys.executable, "-m", "mcpdesk", *command, "--mode", "nope"],
            cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert finished.returncode == 2
        told = "mcpdesk: The server 'sorted' has no mode 'nope'. Its modes: review, both.\n"
        assert finished.stderr.endswith(told), finished.stderr
