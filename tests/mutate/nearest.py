"""Tests that are likely to notice a fault in a module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MOST_NEAR = 5
"""Maximum number of files."""
ALWAYS = ("tests/test_bounds.py", "tests/test_settings.py")
"""Tests of every module's constants."""
IMPORT = re.compile(r"^ *from ([\w.]+) import (\(.*?\)|.*?)$|^ *import ([\w.]+)", re.MULTILINE | re.DOTALL)


def nearest(root: Path, module: Path) -> list[str]:
    """Test files for a module, the likeliest first. All paths are relative to `root`.

    Likely are files that are named after the module, that import it or one of its users, or that are in the
    folder of its package.
    """
    name = dotted(module)
    users = {dotted(file.relative_to(root)) for file in _sources(root) if name in imported(file)}
    folder = Path("tests", *module.parts[1:-1])
    while not (root / folder).is_dir():
        folder = folder.parent
    scores = {
        file.relative_to(root): _score(file.relative_to(root), imported(file), name, users, folder)
        for file in (root / "tests").rglob("test_*.py")
    }
    near = sorted((file for file, score in scores.items() if score), key=lambda file: (-scores[file], file))
    likely = [str(file) for file in near[:MOST_NEAR]]
    return [*(file for file in ALWAYS if (root / file).exists() and file not in likely), *likely]


def _score(file: Path, imports: set[str], name: str, users: set[str], folder: Path) -> int:
    in_folder = folder in file.parents and len(folder.parts) > 1
    in_package = file.parts[:2] == folder.parts[:2]
    is_namesake = file.stem == f"test_{name.rpartition('.')[2]}"
    is_near = bool(name in imports or imports & users)
    return (
        16 * (is_namesake and in_package)
        + 8 * (name in imports)
        + 4 * bool(imports & users)
        + (2 * in_folder + in_package if is_near or in_folder else 0)
    )


def _sources(root: Path) -> Iterator[Path]:
    yield from (root / "mcpdesk").rglob("*.py")


def dotted(module: Path) -> str:
    """Name of a module as in an import."""
    return ".".join(module.with_suffix("").parts).removesuffix(".__init__")


def imported(file: Path) -> set[str]:
    """Names in the imports of a file: of modules, and of what is imported from them."""
    names: set[str] = set()
    for origin, members, alone in IMPORT.findall(file.read_text("utf-8")):
        names.add(origin or alone)
        names |= {f"{origin}.{member}" for member in re.findall(r"\w+", members)}
    return names
