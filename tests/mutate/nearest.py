"""Tests that are likely to notice a fault in a module."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

MAX_NEAR = 5
"""Maximum number of files."""
ALWAYS = ("tests/test_bounds.py", "tests/test_settings.py")
"""Tests of every module's constants."""
WORD = re.compile(r"[A-Za-z]\w{3,}")
IMPORT = re.compile(r"^ *from ([\w.]+) import (\(.*?\)|.*?)$|^ *import ([\w.]+)", re.MULTILINE | re.DOTALL)


def nearest(root: Path, module: Path) -> list[str]:
    """Test files for a module, the likeliest first. All paths are relative to `root`.

    Likely are files that are named after the module, that import it or one of its users, or that are in the
    folder of its package. Of these, files that have rare words in common with the module come first.
    """
    name = dotted(module)
    users = {dotted(file.relative_to(root)) for file in _sources(root) if name in imported(file)}
    folder = Path("tests", *module.parts[1:-1])
    while not (root / folder).is_dir():
        folder = folder.parent
    words = _words(root / "tests")
    common = _Common(_words_of(root / module), words)
    scores = {
        file: _score(file, imported(root / file), name, users, folder) * (1 + common.with_words(words[file]))
        for file in words
    }
    near = sorted((file for file, score in scores.items() if score), key=lambda file: (-scores[file], file))
    likely = [str(file) for file in near[:MAX_NEAR]]
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


class _Common:
    """Words that a module has in common with test files. A word counts more if few test files have it."""

    def __init__(self, words: set[str], tests: Mapping[Path, set[str]]) -> None:
        counts = Counter(word for each in tests.values() for word in each & words)
        self._weights = {word: math.log(len(tests) / count) for word, count in counts.items()}

    def with_words(self, words: set[str]) -> float:
        """Weight of the common words, lower for long files."""
        return sum(self._weights[word] for word in words & self._weights.keys()) / math.sqrt(len(words) + 200)


@cache
def _words(tests: Path) -> dict[Path, set[str]]:
    """Words of all test files in a folder, by the path relative to the parent of the folder."""
    return {file.relative_to(tests.parent): _words_of(file) for file in tests.rglob("test_*.py")}


def _words_of(file: Path) -> set[str]:
    text = file.read_text("utf-8")
    return {*WORD.findall(text), *WORD.findall(text.replace("_", " "))}


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
