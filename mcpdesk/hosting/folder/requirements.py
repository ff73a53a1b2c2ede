"""Python packages that a server folder needs.

They are named by `requires` in `mcp.json` and by PEP 723 blocks in Python files. They must be installed in
the environment of this program, which runs the folder's code. This program never installs them, because a
person who opens a folder has not agreed to run third-party packages. Messages about missing packages contain
the command that installs them.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import TYPE_CHECKING

from mcpdesk.errors import RegistrationError

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_SCRIPT_BLOCK = re.compile(rb"(?m)^# /// script[ \t]*\r?\n((?:#(?: .*)?\r?\n)+?)# ///[ \t]*\r?$")
"""PEP 723 block of a Python file. Its group has the lines of the block."""


def requirement(text: str) -> Requirement:
    """Parse a requirement such as `httpx>=0.27`. Raises: ValueError for an invalid one."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        raise ValueError(f'{text!r} is not a requirement; write one like "httpx>=0.27"') from None


def missing_packages(texts: Iterable[str]) -> str:
    """Return a message about missing requirements, with the command that installs them, or "" if nothing is
    missing. Raises: ValueError for an invalid requirement.
    """
    requirements = [requirement(text) for text in texts]
    missing = [str(package) for package in requirements if not _is_installed(package)]
    if not missing:
        importlib.invalidate_caches()  # finds packages that were installed in the meantime
        return ""
    pip = ["uv", "pip", "install", "--python", sys.executable]
    installer = pip if shutil.which("uv") else [sys.executable, "-m", "pip", "install"]
    clause = "which are not installed" if len(missing) > 1 else "which is not installed"
    return f"needs {', '.join(missing)}, {clause}: run `{shlex.join([*installer, *missing])}`, then save"


def check_script(data: bytes, location: str) -> None:
    """Check the PEP 723 block of a Python file, if it has one. `location` is the path of the file.

    Raises: RegistrationError for an invalid block, and for packages that are not installed.
    """
    match = _SCRIPT_BLOCK.search(data)
    if match is None:
        return
    line = data.count(b"\n", 0, match.start()) + 1
    source = f"{location}:{line}"
    try:
        missing = missing_packages(script_requirements(data))
    except ValueError as error:
        raise RegistrationError(f"the `# /// script` block cannot be read: {error}", source) from None
    if missing:
        raise RegistrationError(missing, source)


def script_requirements(data: bytes) -> list[str]:
    """Return the requirements in the PEP 723 block of a Python file, if any. Raises: ValueError."""
    import tomllib

    match = _SCRIPT_BLOCK.search(data)
    lines = match[1].decode("utf-8", "replace").splitlines() if match is not None else []
    texts = tomllib.loads("\n".join(line[2:] for line in lines)).get("dependencies", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("dependencies must be a list of texts")
    return texts


def _is_installed(package: Requirement) -> bool:
    """Return True if a requirement is met, or does not apply to this platform."""
    if package.marker is not None and not package.marker.evaluate():
        return True
    try:
        return package.specifier.contains(metadata.version(package.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False
