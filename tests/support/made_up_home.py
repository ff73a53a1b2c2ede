"""A home folder with the configurations of six clients: 14 servers, two of which are broken."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support import odd_server

SECRET = "hunter2-in-an-argument"
WORKING = {"command": sys.executable, "args": [odd_server.PROGRAM, "--token", SECRET]}
REMOTE = {"url": f"https://user:{SECRET}@mcp.example.com/mcp?key={SECRET}"}


def make_home(tmp_path: Path) -> tuple[Path, Path, dict[str, str]]:
    """Return a home folder, the folder of a project in it, and the environment that names the home folder."""
    home, project = tmp_path / "home", tmp_path / "home" / "code" / "shop"
    (project / "src").mkdir(parents=True)
    environment = {
        "HOME": str(home),
        "USERPROFILE": str(home),
        "XDG_CONFIG_HOME": str(home / "xdg"),
        "APPDATA": str(home / "roaming"),
    }
    desktop = "Library/Application Support" if sys.platform == "darwin" else "xdg"
    _json(home / ".cursor/mcp.json", {"mcpServers": {"github": WORKING, "files": WORKING, "both": {
        "command": "x", "url": "https://x.test"}}})  # fmt: skip
    _json(project / ".cursor/mcp.json", {"mcpServers": {"github": REMOTE}})
    _json(
        home / ".claude.json",
        {
            "numStartups": 5,
            "mcpServers": {"notes": WORKING, "linear": {"type": "sse", "url": "https://mcp.linear.test/sse"}},
            "projects": {str(project): {"mcpServers": {"database": WORKING}}},
        },
    )
    _json(home / desktop / "Claude/claude_desktop_config.json", {"mcpServers": {"git": WORKING}})
    _text(
        home / ".codex/config.toml",
        f"[mcp_servers.search]\ncommand = {json.dumps(sys.executable)}\nargs = []\n"
        '[mcp_servers.docs]\nurl = "https://docs.example.com/mcp"\n',
    )
    _text(
        home / "xdg/goose/config.yaml",
        "GOOSE_MODE: auto\nextensions:\n  fetch: {type: stdio, cmd: uvx, args: [mcp-server-fetch]}\n"
        "  developer: {type: builtin, enabled: true}\n",
    )
    _json(
        home / "xdg/opencode/opencode.json",
        {"mcp": {"servers": {"memory": {"type": "local", "command": ["npx", "-y", "@x/server-memory"]}}}},
    )
    _json(project / "opencode.json", {"mcp": {"time": {"type": "local", "command": ["uvx", "mcp-time"]}}})
    _json(home / ".gemini/settings.json", {"theme": "dark"})
    return home, project, environment


def _json(path: Path, content: object) -> None:
    _text(path, json.dumps(content))


def _text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
