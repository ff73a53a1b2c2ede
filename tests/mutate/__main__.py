"""`python -m tests.mutate N --seed S`: put one-line faults into a copy and list those that no test notices.

For each fault the nearest quick tests run first (`nearest.py`), with `--slow` the nearest slow ones then, and
all quick tests at last, unless `--nearest-only` is given. A fault is noticed when a test fails that passes
without it, or when the tests do not end in time.
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
from tests.mutate.nearest import ALWAYS, nearest

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
WITHIN_S = 900.0
"""Time after which tests that still run have noticed the fault: something waits for ever."""
MAX_SLOW = 3
"""Number of files whose slow tests are run."""
TEST_S = 60
"""Time limit of one test."""
QUICK = "not slow and not process and not browser"
SLOW = "(slow or process) and not browser"


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
    parser.add_argument("--slow", action="store_true", help="run the slow tests of the nearest files as well")
    parser.add_argument("--nearest-only", action="store_true", help="do not run all quick tests at last")
    parser.add_argument("--workers", default="auto", metavar="N", help="processes of pytest (auto)")
    given = parser.parse_args()
    survivors = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(Path(folder) / "checkout", given.workers)
        for path, fault in chosen(checkout.root, given.number, random.Random(given.seed), given.under):
            noticed_by = checkout.noticed_by(path, fault, slow=given.slow, all_quick=not given.nearest_only)
            survivors += not noticed_by
            tried += 1
            print(described(checkout.root / path, path, fault, noticed_by), flush=True)
    print(f"{survivors} of {tried} survived")
    return int(survivors * 10 > tried)


def chosen(root: Path, number: int, choice: random.Random, under: str) -> Iterator[tuple[Path, Fault]]:
    """Random faults; a module is chosen as often as it has lines to change."""
    place = root / under
    modules = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    every = [(path.relative_to(root), fault) for path in modules for fault in faults(path.read_text("utf-8"))]
    yield from choice.sample(every, min(number, len(every)))


class Checkout:
    """Copy of the repository that gets the faults."""

    def __init__(self, root: Path, workers: str) -> None:
        """`workers` is the number of pytest's processes, or `auto`."""
        shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
        self.root = root
        self._workers = workers
        self._sound = set[str]()
        """Tests that pass without a fault."""
        self._unsound = set[str]()
        """Tests that fail without a fault, which are left out."""

    def noticed_by(self, path: Path, fault: Fault, *, slow: bool, all_quick: bool) -> str:
        """Run the tests with the fault put in. Returns the test that noticed it, "" if none did."""
        near = nearest(self.root, path)
        likeliest = [file for file in near if file not in ALWAYS][:MAX_SLOW]
        return (
            self._noticed_among(near, QUICK, path, fault)
            or (slow and self._noticed_among(likeliest, SLOW, path, fault))
            or (all_quick and self._noticed_among([], QUICK, path, fault))
            or ""
        )

    def _noticed_among(self, files: list[str], marks: str, path: Path, fault: Fault) -> str:
        source = (self.root / path).read_text("utf-8")
        while True:
            (self.root / path).write_text(fault.put_into(source), "utf-8")
            try:
                failed = self._failing(files, marks, self._workers)
            finally:
                (self.root / path).write_text(source, "utf-8")
            if "::" not in failed or failed in self._sound:
                return failed
            if not self._failing([failed], marks, "0"):
                self._sound.add(failed)
                return failed
            self._unsound.add(failed)

    def _failing(self, files: list[str], marks: str, workers: str) -> str:
        """The first test that fails; "" if all pass or no test is selected."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-n", workers, "--timeout", str(TEST_S), "-m", marks, *files]
        command += [f"--deselect={test}" for test in sorted(self._unsound)]
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "the tests, which did not end"
        if done.returncode in (0, 5):  # 5: no tests were collected
            return ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - |$)", done.stdout, re.M)
        return failed.group(1) if failed else f"pytest, which ended with code {done.returncode}"


def described(file: Path, path: Path, fault: Fault, noticed_by: str) -> str:
    """Lines with the verdict, and with the line before and after. `file` has no fault."""
    source = file.read_text("utf-8")
    changed = fault.put_into(source).splitlines()[fault.line - 1].strip()
    verdict = f"noticed by {noticed_by}" if noticed_by else "SURVIVED"
    return (
        f"{verdict}\n    {path}:{fault.line}  {source.splitlines()[fault.line - 1].strip()}\n    -> {changed}"
    )


if __name__ == "__main__":
    sys.exit(main())
