"""The relay of `mcpdesk stdio -- COMMAND` works without a feature that records its traffic."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpdesk.features import VARIABLE


@pytest.mark.process
def test_messages_pass_although_nothing_records_them(tmp_path: Path) -> None:
    environment = {**os.environ, VARIABLE: "tap", "MCPDESK_STATE_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "mcpdesk", "stdio", "--", "cat"]
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 100
    done = subprocess.run(words, input=message, env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, message, b"")
    assert list(tmp_path.rglob("*.jsonl")) == []
