"""Names of servers, derived from the command or the name in a configuration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

RUNNERS = frozenset({"npx", "uvx", "uv", "node", "python", "python3", "deno", "bun", "docker", "run", "exec"})
"""Words in commands that do not name a server."""


def program_name(argv: Sequence[str]) -> str:
    """Derive a server name from its command."""
    words = [word for word in argv if not word.startswith("-") and Path(word).name not in RUNNERS]
    file_name = re.sub(r"\.(py|[cm]?[jt]s|sh|exe)$", "", Path(words[0] if words else argv[0]).name)
    return plain_name(file_name.partition("@")[0] or file_name)


def plain_name(name: str) -> str:
    """Replace the characters of a name that are not valid in a URL."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "server"
