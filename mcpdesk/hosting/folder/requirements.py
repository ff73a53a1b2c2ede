"""Packages a server folder needs: `requires` in `mcp.json`, and PEP 723 blocks in its Python files.

They have to be in the environment of this program, which runs the folder's code. Nothing is fetched here: who
opens a folder has not agreed to run a stranger's packages. What is missing is told with the command for it.
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

_BLOCK = re.compile(rb"(?m)^# /// script[ \t]*\r?\n((?:#(?: .*)?\r?\n)+?)# ///[ \t]*\r?$")


def requirement(text: str) -> Requirement:
    """A requirement such as `httpx>=0.27`. Raises: ValueError saying what is none."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement:
        raise ValueError(f'{text!r} is no requirement; write one like "httpx>=0.27"') from None


def lack(texts: Iterable[str]) -> str:
    """What is told of requirements that are not met here, with the command that helps; empty where all are.

    Raises: ValueError for what is no requirement.
    """
    needed = [requirement(text) for text in texts]
    missing = [str(each) for each in needed if not _is_there(each)]
    if not missing:
        importlib.invalidate_caches()  # what was installed since the last import is found
        return ""
    pip = ["uv", "pip", "install", "--python", sys.executable]
    command = pip if shutil.which("uv") else [sys.executable, "-m", "pip", "install"]
    what = "which are not installed" if len(missing) > 1 else "which is not installed"
    return f"needs {', '.join(missing)}, {what}: run `{shlex.join([*command, *missing])}`, then save"


def check_script(data: bytes, place: str) -> None:
    """Check the PEP 723 block of a Python file, if it has one. `place` is the file's.

    Raises: RegistrationError for a block with a mistake, and for what is not installed.
    """
    found = _BLOCK.search(data)
    if found is None:
        return
    line = data.count(b"\n", 0, found.start()) + 1
    source = f"{place}:{line}"
    try:
        told = lack(script_requirements(data))
    except ValueError as error:
        raise RegistrationError(f"the `# /// script` block cannot be read: {error}", source) from None
    if told:
        raise RegistrationError(told, source)


def script_requirements(data: bytes) -> list[str]:
    """What the PEP 723 block of a Python file asks for; nothing without one. Raises: ValueError."""
    import tomllib

    found = _BLOCK.search(data)
    lines = found[1].decode("utf-8", "replace").splitlines() if found is not None else []
    texts = tomllib.loads("\n".join(line[2:] for line in lines)).get("dependencies", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("dependencies is a list of texts")
    return texts


def _is_there(needed: Requirement) -> bool:
    if needed.marker is not None and not needed.marker.evaluate():
        return True
    try:
        return needed.specifier.contains(metadata.version(needed.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False
