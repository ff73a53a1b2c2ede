"""A release: `python -m tests.support.release VERSION` writes the version and the heading of its changes.

`--notes FILE` also writes the notes of the release. It needs nothing but Python, and changes
`mcpdesk/version.py` and `CHANGELOG.md` alone. `.github/workflows/release.yml` runs it, commits the two files
and makes the tag.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## [Unreleased]"
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
ASSIGNED = re.compile(r'__version__ = "([^"]+)"')


class NoRelease(Exception):
    """The reason why a version cannot be released."""


def numbers(version: str) -> tuple[int, ...]:
    """Parts of a version such as 1.2.3. Raises: NoRelease for any other text."""
    match = VERSION.fullmatch(version)
    if match is None:
        raise NoRelease(f"{version!r} is not a version; write one like 1.2.3")
    return tuple(int(each) for each in match.groups())


def unreleased(changelog: str) -> str:
    """Changes below the heading `[Unreleased]`. Raises: NoRelease if the list is empty."""
    _, found, rest = changelog.partition(f"{HEADING}\n")
    notes = re.split(r"(?m)^## ", rest, maxsplit=1)[0].strip()
    if not found or not re.search(r"(?m)^[-*] ", notes):
        raise NoRelease(f"CHANGELOG.md has no changes below {HEADING}")
    return notes


def release(root: Path, version: str, day: str) -> str:
    """Write the version and the heading of its changes, and return the notes.

    Raises: NoRelease, in which case no file is changed.
    """
    file, changes = root / "mcpdesk" / "version.py", root / "CHANGELOG.md"
    text, changelog = file.read_text(), changes.read_text()
    match = ASSIGNED.search(text)
    if match is None:
        raise NoRelease(f"{file} has no version")
    if numbers(version) <= numbers(match[1]):
        raise NoRelease(f"{version} is not newer than {match[1]}")
    notes = unreleased(changelog)
    file.write_text(text.replace(match[0], f'__version__ = "{version}"'))
    changes.write_text(changelog.replace(HEADING, f"{HEADING}\n\n## [{version}] - {day}", 1))
    return f"{notes}\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line. Return 1, with the reason on stderr, if the version cannot be released."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.release", description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--notes", type=Path, metavar="FILE", help="where the notes are written")
    asked = parser.parse_args(arguments)
    try:
        notes = release(ROOT, asked.version, datetime.now(UTC).date().isoformat())
    except NoRelease as reason:
        print(f"no release: {reason}", file=sys.stderr)
        return 1
    if asked.notes is not None:
        asked.notes.write_text(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
