"""A server that offers what fits its client offers the same to a command in a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.features import needs_feature
from tests.support.patience import WITHIN_S
from tests.support.tiers import open_terminal

pytestmark = pytest.mark.process
SERVER = """
import json, sys
era, known = sys.argv[1], {}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, params = asked["method"], asked.get("params", {})
    if era == "stateless":
        known = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "adaptive", "version": "1"}}
    reply = {"error": {"code": -32601, "message": "no"}}
    if method == "server/discover" and era == "stateless":
        reply = {"result": {**about, "supportedVersions": ["2026-07-28"], "resultType": "complete"}}
    elif method == "initialize" and era == "handshake":
        known = params["capabilities"]
        reply = {"result": {**about, "protocolVersion": "2025-11-25"}}
    elif method == "tools/list":
        names = ["always", *sorted(known), *("elicitation-" + each for each in known.get("elicitation", {}))]
        tools = [{"name": each, "description": each, "inputSchema": {"type": "object"}} for each in names]
        reply = {"result": {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
"""


def in_a_terminal(*command: str) -> str:
    """The output of a command whose standard streams are a terminal."""
    ours, theirs = open_terminal()
    process = subprocess.Popen(
        [sys.executable, "-m", "mcpdesk", *command],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while True:
            assert select.select([ours], [], [], WITHIN_S)[0], shown[-500:]
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the last process that had it has ended
                piece = b""
            if not piece:
                break
            shown += piece
        assert process.wait(WITHIN_S) == 0, shown
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r", "")


def in_a_pipe(*command: str) -> str:
    """The output of a command whose standard streams are pipes."""
    finished = subprocess.run(
        [sys.executable, "-m", "mcpdesk", *command],
        input="",
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@needs_feature("contract")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_a_lock_is_the_same(era: str, tmp_path: Path, own_folders: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    target = ("--", sys.executable, str(server), era)
    locks = [tmp_path / "terminal.json", tmp_path / "pipe.json"]
    for run, lock in zip((in_a_terminal, in_a_pipe), locks, strict=True):
        run("check", "--update", "--lock-file", str(lock), *target)
    assert locks[0].read_bytes() == locks[1].read_bytes()
    written = locks[0].read_text()
    assert "always" in written and "elicitation" in written, "the server sees what the client can do"


@pytest.mark.parametrize("era", ["handshake", "stateless"])
def test_every_read_of_the_catalogue_is_the_same(era: str, tmp_path: Path, own_folders: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    target = ("--", sys.executable, str(server), era)
    for command in (("list", "--json"), ("schemas", "--for", "openai")):
        shown = in_a_terminal(*command, *target)
        begin = re.search(r"^[{\[]", shown, re.MULTILINE)
        assert begin is not None, shown
        assert json.loads(shown[begin.start() :]) == json.loads(in_a_pipe(*command, *target))
