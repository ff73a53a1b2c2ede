"""Packages that tests download from registries: the reason if one is unavailable, and servers in packages."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest

FETCH_S = 60.0
_silent: set[str] = set()
"""Programs whose registry did not answer; they are not tried again."""


@cache
def why_not(*command: str) -> str:
    """Reason a command that downloads test programs cannot be used here; empty if it can."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    if command[0] in _silent:
        return f"{command[0]} gets no answer from its registry"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        _silent.add(command[0])
        return f"{command[0]} gave nothing in {FETCH_S:.0f} s"
    return done.stderr[-200:] if done.returncode else ""


def needs_package(package: str) -> None:
    """Skip the test if npm cannot download a package."""
    if reason := why_not("npm", "exec", "--yes", "--package", package, "--", "node", "--version"):
        pytest.skip(f"{package}: {reason}")


def needs_python_package(requirement: str) -> None:
    """Skip the test if uv cannot download a package."""
    if reason := why_not("uv", "run", "--no-project", "-q", "--with", requirement, "python", "--version"):
        pytest.skip(f"{requirement}: {reason}")
