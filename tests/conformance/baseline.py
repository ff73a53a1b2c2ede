"""Scenarios that need not pass, each with its reason, in the suite's own format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.suite import Outcome

ENTRY = re.compile(r"  - (?P<name>\S+)  # (?P<reason>\S.*)")
PLAIN = re.compile(r"(server|client):( \[\])?|#.*|\s*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcomes compared with a baseline."""

    unexpected: tuple[Outcome, ...]
    """Failed, or were skipped, without being expected to."""
    expected: tuple[Outcome, ...]
    stale: tuple[str, ...]
    """Expected not to pass, and did."""

    @property
    def is_good(self) -> bool:
        """True if the outcomes match the baseline exactly."""
        return not self.unexpected and not self.stale


def read(revision: str) -> dict[str, str]:
    """Scenario to reason. Raises: ValueError for a line without a reason."""
    path = Path(__file__).with_name(f"expected-failures.{revision}.yml")
    expected: dict[str, str] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        entry = ENTRY.fullmatch(line)
        if entry is not None:
            expected[entry["name"]] = entry["reason"]
        elif PLAIN.fullmatch(line) is None:
            raise ValueError(f"{path.name}:{number}: not `  - scenario  # reason`: {line!r}")
    return expected


def judge(outcomes: Iterable[Outcome], expected: Mapping[str, str]) -> Verdict:
    """Hold outcomes against a baseline; what did not run is not stale."""
    ran = list(outcomes)
    left = [each for each in ran if not each.passes]
    return Verdict(
        tuple(each for each in left if each.scenario not in expected),
        tuple(each for each in left if each.scenario in expected),
        tuple(each.scenario for each in ran if each.passes and each.scenario in expected),
    )
