"""A home folder with client configurations that a test writes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support import odd_server

HOSTILE = str(Path(__file__).with_name("hostile_server.py"))


def odd(habit: str = "", **more: Any) -> dict[str, Any]:
    """Entry that starts the odd server."""
    return {"command": sys.executable, "args": [odd_server.PROGRAM, *([habit] if habit else [])], **more}


def hostile(habit: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """Entry that starts the hostile server."""
    return {"command": sys.executable, "args": [HOSTILE, habit, *arguments], **more}


class Home:
    """A home folder, and the folder of a project in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.project = path / "shop"
        self.project.mkdir(parents=True)
        self.state = path / "state"

    def cursor(self, servers: Mapping[str, Any]) -> Path:
        """Write the user's file of Cursor."""
        return write(self.path / ".cursor" / "mcp.json", {"mcpServers": servers})

    def claude(self, servers: Mapping[str, Any]) -> Path:
        """Write the user's file of Claude Code."""
        return write(self.path / ".claude.json", {"mcpServers": servers})


def write(path: Path, content: object) -> Path:
    """Write a text, or a value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home folder. The working folder is the project in it."""
    made = Home(tmp_path / "home")
    variables = {"HOME": "", "USERPROFILE": "", "XDG_CONFIG_HOME": "xdg", "APPDATA": "roaming"}
    for name, folder in {**variables, "MCPDESK_STATE_DIR": "state"}.items():
        monkeypatch.setenv(name, str(made.path / folder))
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "MCPDESK_TRUST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(made.project)
    return made
