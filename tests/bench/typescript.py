"""The TypeScript SDK of npm, in a cache folder of the user. It is not available on every machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

PACKAGES = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2")
FETCH_S = 120.0


class NotHere(Exception):
    """Reason the peer cannot be measured."""


def node() -> tuple[str, ...]:
    """Command that runs Node. Raises: NotHere"""
    found = shutil.which("node")
    if found is None:
        raise NotHere("Node is not installed")
    return (found,)


def missing() -> str:
    """Reason the peer cannot be measured; "" if it can."""
    try:
        modules()
    except NotHere as reason:
        return str(reason)
    return ""


@cache
def modules() -> Path:
    """Folder of the installed SDK; installs it if it is missing.

    Raises: NotHere
    """
    node()
    npm = shutil.which("npm")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "mcpdesk-bench" / "-".join(name.rpartition("/")[2] for name in PACKAGES)
    done = folder / "installed"
    if done.exists():
        return folder
    if npm is None:
        raise NotHere("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-save", "--no-package-lock", "--fetch-retries=0", "--prefix", str(folder)]
    try:
        told = subprocess.run(
            [*command, *PACKAGES],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"npm did not deliver it within {FETCH_S:.0f} s") from None
    if told.returncode:
        lines = [line for line in told.stderr.splitlines() if "error" in line] or ["npm failed"]
        raise NotHere(f"npm did not deliver it: {lines[0]}")
    done.touch()
    return folder
