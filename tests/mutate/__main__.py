"""`python -m tests.mutate N --seed S`: put one-line faults into a copy and list those that no test notices.

For each fault the tests that import its module run first, or those of its package's folder if none does; then
all quick tests. A fault is noticed when a test fails or when the tests do not end in time.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.mutate.faults import Fault, faults

ROOT = Path(__file__).parents[2]
COPIED = (
    "mcpdesk",
    "tests",
    "themes",
    "sample_servers",
    "docs",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
)
WITHIN_S = 600.0
"""Time after which tests that still run have noticed the fault: something waits for ever."""
MOST_NEAR = 12
"""Files of nearest tests that run before all quick ones."""


def main() -> int:
    """Put the faults in one by one; the exit code is 1 if more than a tenth survives."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutate", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("number", type=int, metavar="N", help="faults")
    parser.add_argument("--seed", type=int, default=1, help="of the random choice (1)")
    parser.add_argument(
        "--under", default="mcpdesk", metavar="PATH", help="a module or folder to change only"
    )
    given = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        _copy(copy)
        for path, fault in _chosen(given.number, random.Random(given.seed), given.under):
            noticed_by = _tried(copy, path, fault)
            survivors += not noticed_by
            print(_line(path, fault, noticed_by), flush=True)
    print(f"{survivors} of {given.number} survived")
    return int(survivors * 10 > given.number)


def _copy(copy: Path) -> None:
    copy.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)


def _chosen(number: int, choice: random.Random, under: str) -> Iterator[tuple[Path, Fault]]:
    """Random faults; a module is chosen as often as it has lines to change."""
    place = ROOT / under
    modules = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    every = [(path.relative_to(ROOT), fault) for path in modules for fault in faults(path.read_text("utf-8"))]
    yield from choice.sample(every, min(number, len(every)))


def _tried(copy: Path, path: Path, fault: Fault) -> str:
    """Run the tests with the fault put in. Returns the test that noticed it, "" if none did."""
    source = (ROOT / path).read_text("utf-8")
    (copy / path).write_text(fault.put_into(source), "utf-8")
    try:
        return _failing(copy, _nearest(copy, path)) or _failing(copy, [])
    finally:
        (copy / path).write_text(source, "utf-8")


def _nearest(copy: Path, path: Path) -> list[str]:
    """Some tests that import the module, or all of the folder that is named as its package."""
    package, _, name = ".".join(path.with_suffix("").parts).removesuffix(".__init__").rpartition(".")
    imports = re.compile(rf"from {package}\.{name} import|from {package} import .*\b{name}\b")
    importing = [
        file
        for file in sorted((copy / "tests").rglob("test_*.py"))
        if imports.search(file.read_text("utf-8"))
    ]
    folder = copy / "tests" / Path(*path.parts[1:-1])
    near = importing[:MOST_NEAR] or (sorted(folder.glob("test_*.py")) if folder.is_dir() else [])
    return [str(file.relative_to(copy)) for file in near]


def _failing(copy: Path, files: list[str]) -> str:
    """The first test that fails; "" if all pass or there is none."""
    quick = ["-m", "not slow and not process and not browser"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-n",
        "auto",
        *quick,
        *files,
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "the tests, which did not end"
    if done.returncode in (0, 5):  # 5: no tests were collected
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed.group(1) if failed else f"pytest, which ended with code {done.returncode}"


def _line(path: Path, fault: Fault, noticed_by: str) -> str:
    source = (ROOT / path).read_text("utf-8")
    changed = fault.put_into(source).splitlines()[fault.line - 1].strip()
    verdict = f"noticed by {noticed_by}" if noticed_by else "SURVIVED"
    return (
        f"{verdict}\n    {path}:{fault.line}  {source.splitlines()[fault.line - 1].strip()}\n    -> {changed}"
    )


if __name__ == "__main__":
    sys.exit(main())
