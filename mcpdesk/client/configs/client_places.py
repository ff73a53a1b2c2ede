"""Paths of the configuration files of known clients."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

CLIENTS = (
    "claude-desktop", "claude-code", "codex", "continue", "cursor", "gemini", "goose", "opencode", "vscode",
    "zed",
)  # fmt: skip


def config_places(client: str, home: Path, folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return the possible paths of a client's configuration, those in the project's `folder` first.

    A name that is not in `CLIENTS` is the path of a file.
    """
    xdg = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    settings = home / "Library" / "Application Support" if sys.platform == "darwin" else xdg
    codex = Path(environ.get("CODEX_HOME") or home / ".codex")
    zed = home / ".config" if sys.platform == "darwin" else xdg
    opencode = ("opencode.json", "opencode.jsonc")
    known = {
        "claude-code": [folder / ".mcp.json", home / ".claude.json"],
        "claude-desktop": [settings / "Claude" / "claude_desktop_config.json"],
        "codex": [folder / ".codex" / "config.toml", codex / "config.toml"],
        "continue": [home / ".continue" / "config.yaml"],
        "cursor": [folder / ".cursor" / "mcp.json", home / ".cursor" / "mcp.json"],
        "gemini": [folder / ".gemini" / "settings.json", home / ".gemini" / "settings.json"],
        "goose": [xdg / "goose" / "config.yaml"],
        "opencode": [
            config_folder / name for config_folder in (folder, xdg / "opencode") for name in opencode
        ],
        "vscode": [folder / ".vscode" / "mcp.json", settings / "Code" / "User" / "mcp.json"],
        "zed": [folder / ".zed" / "settings.json", zed / "zed" / "settings.json"],
    }
    return known.get(client) or [Path(client).expanduser()]
