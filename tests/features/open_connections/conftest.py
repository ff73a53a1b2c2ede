"""Commands on open connections, in a state folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.support.patience import WITHIN_S

ROOT = Path(__file__).parents[3]
TEA = str(Path(__file__).with_name("tea_server.py"))
SERVER = ("--", sys.executable, TEA)
"""The server as a target."""


class Shell:
    """A shell of a person whose connections other tests do not see."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            **os.environ,
            "MCPDESK_STATE_DIR": str(folder / "state"),
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
        }

    def run(self, *arguments: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, without a terminal."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "mcpdesk", *arguments],
            cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=WITHIN_S, check=False,
            env=self.environ | environ,
        )  # fmt: skip

    def succeed(self, *arguments: str) -> str:
        """Output of a command that must succeed."""
        ended = self.run(*arguments)
        assert ended.returncode == 0, ended
        return ended.stdout.strip()

    def terminal(self, *arguments: str) -> pexpect.spawn:
        """Start a command in a terminal."""
        return pexpect.spawn(
            sys.executable, ["-P", "-m", "mcpdesk", *arguments], cwd=str(self.folder), timeout=WITHIN_S,
            env={**self.environ, "TERM": "xterm-256color"}, encoding="utf-8", echo=False,
        )  # fmt: skip

    def connections(self) -> list[dict[str, Any]]:
        """The list of `mcpdesk ps`."""
        listed: list[dict[str, Any]] = json.loads(self.succeed("ps", "--json"))["connections"]
        return listed


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made.run("down", "--all")
