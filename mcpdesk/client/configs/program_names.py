"""Names of servers, derived from the command or the name in a configuration."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from mcpdesk.plain_text import clean

MAX_WORD_LENGTH = 120
"""Maximum number of characters of a name in a message or hint."""
RUNNERS = frozenset({"npx", "uvx", "uv", "node", "python", "python3", "deno", "bun", "docker", "run", "exec"})
"""Words in commands that do not name a server."""


def program_name(argv: Sequence[str]) -> str:
    """Derive a server name from its command."""
    words = [word for word in argv if not word.startswith("-") and Path(word).name not in RUNNERS]
    file_name = re.sub(r"\.(py|[cm]?[jt]s|sh|exe)$", "", Path(words[0] if words else argv[0]).name)
    return plain_name(file_name.partition("@")[0] or file_name)


def shell_word(name: str) -> str:
    """Return a name from an untrusted file, quoted as one shell word for a hint."""
    return shlex.quote(name_excerpt(name))


def name_excerpt(name: str) -> str:
    """Return a name from an untrusted file for a message. A long name is cut.

    Control characters are made visible, and backquotes become apostrophes.
    """
    word = clean(name, newlines=False).replace("`", "'")
    return word if len(word) <= MAX_WORD_LENGTH else f"{word[: MAX_WORD_LENGTH - 1]}…"


def plain_name(name: str) -> str:
    """Replace the characters of a name that are not valid in a URL."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "server"
