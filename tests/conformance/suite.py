"""The official conformance suite: locate it, run its two legs, and read its results."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE = 22
"""The major version of Node the suite needs at least."""
JUDGED = ("2025-11-25", "2026-07-28")
"""Revisions the suite has a requirement set for."""
OLDER = ("2025-03-26", "2025-06-18")
"""Revisions it has scenarios for; all that apply are run, and all count."""
REVISIONS = OLDER + JUDGED
BESIDES = {
    "server": tuple(f"sep-2640-skills-{each}" for each in ("enumeration", "manifest", "directory")),
    "client": tuple(
        f"sep-2640-client-{each}"
        for each in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
    ),
}
"""Scenarios of the skills extension, which no requirement set has; run at the judged revisions, and count."""
FETCH_S = 60.0
RUN_S = 300.0
"""Much more than a run takes, even on a busy machine."""
GENERIC = "wire-schema-valid"
"""A check that every scenario has; alone it proves nothing about the scenario."""


class NotHere(Exception):
    """The suite cannot run on this machine, and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one scenario."""

    scenario: str
    is_scored: bool
    failures: tuple[str, ...]
    """Check and message, one line each; FAILURE, and WARNING too, which the strictest gate counts."""
    is_skipped: bool = False
    """True if the suite reports that it checked nothing."""

    @property
    def passes(self) -> bool:
        """True if something was checked and nothing failed."""
        return not self.failures and not self.is_skipped


@dataclass(frozen=True, slots=True)
class Suite:
    """The suite, ready to run."""

    command: tuple[str, ...]

    def required(self, revision: str, leg: str = "Server") -> frozenset[str]:
        """The scored scenarios of a revision that has a requirement set; `leg` is Server or Client."""
        text = self._run("list", "--requirements", revision).partition(f"{leg} scenarios")[2]
        if leg == "Server":
            text = text.partition("Client scenarios")[0]
        return frozenset(re.findall(r"^  - (\S+)$", text, re.MULTILINE))

    def server(self, url: str, revision: str, scenario: str, folder: Path) -> list[Outcome]:
        """Run all server scenarios of a revision, or one, against a URL; `folder` takes its papers."""
        self._run("server", "--url", url, *_chosen(revision, scenario), "-o", str(folder))
        scored = self._scored(revision, "Server") if revision in JUDGED else None
        ran = [outcome_at(path, scored) for path in sorted(folder.glob("server-*/checks.json"))]
        return [*ran, *missing(ran, {scenario} if scenario else scored or ())]

    def client(self, command: str, revision: str, scenario: str, folder: Path) -> list[Outcome]:
        """Run all client scenarios of a revision, or one, on a command; `folder` takes its papers."""
        given = ("--command", command, "--timeout", "60000")
        chosen = _chosen(revision, scenario)
        if scenario and scenario not in BESIDES["client"]:
            chosen = chosen[:-1]
        self._run("client", *given, *chosen, "-o", str(folder))
        scored = self._scored(revision, "Client")
        papers = sorted([*folder.glob("*/checks.json"), *folder.glob("auth/*/checks.json")])
        ran = [outcome_at(path, scored, folder) for path in papers]
        return [*ran, *missing(ran, {scenario} if scenario else scored)]

    def _scored(self, revision: str, leg: str) -> frozenset[str]:
        return self.required(revision, leg) | frozenset(BESIDES[leg.lower()])

    def _run(self, *arguments: str) -> str:
        ran = subprocess.run(
            [*self.command, *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        if "SyntaxError" in ran.stderr or ran.returncode not in (0, 1):
            raise RuntimeError(f"the suite broke down: {ran.stderr.strip() or ran.stdout.strip()}")
        return ran.stdout


def _chosen(revision: str, scenario: str) -> tuple[str, ...]:
    if scenario:
        return "--scenario", scenario, "--spec-version", revision, "--force"
    if revision in JUDGED:
        return "--requirements", revision
    return "--suite", "all", "--spec-version", revision


def find() -> Suite:
    """The suite at `CONFORMANCE_SUITE` (its index.js), or from npm, with a newer Node if needed.

    Raises: NotHere.
    """
    given = os.environ.get("CONFORMANCE_SUITE")
    if given:
        return Suite((shutil.which("node") or "node", given))
    npx = shutil.which("npx")
    if npx is None:
        raise NotHere("npx (Node) is not installed")
    packages = ["-p", PACKAGE]
    if _node_version() < NODE:
        packages += ["-p", _node_package()]
    asking = [npx, "--yes", "--fetch-retries=0", "--loglevel=error", *packages]
    asking += ["-c", "command -v node && command -v conformance"]
    try:
        told = subprocess.run(
            asking, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotHere(f"npm did not deliver {PACKAGE} within {FETCH_S:.0f} s") from None
    lines = told.stdout.split()
    if told.returncode != 0 or len(lines) != 2:
        raise NotHere(f"npm did not deliver {PACKAGE}: {_first_line(told.stderr)}")
    return Suite((lines[0], lines[1]))


def _node_version() -> int:
    node = shutil.which("node")
    if node is None:
        return 0
    told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=120, check=False)
    found = re.match(r"v(\d+)", told.stdout)
    return int(found.group(1)) if found else 0


def _node_package() -> str:
    """The npm package that contains only the Node binary for this machine."""
    machine = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    return f"node-{sys.platform}-{machine}@{NODE}"


def outcome_at(path: Path, scored: frozenset[str] | None, folder: Path | None = None) -> Outcome:
    """Outcome of one scenario, from its result file. `scored` names the scenarios that count; None: all.

    `folder` holds the results of clients, whose names may contain a folder.
    """
    place = path.parent.name if folder is None else str(path.parent.relative_to(folder))
    name = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", place.removeprefix("server-"))
    checks = json.loads(path.read_text())
    failures = tuple(
        f"{check.get('id')}: {_first_line(check.get('errorMessage') or check.get('description'))}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    )
    own = {check["status"] for check in checks if check.get("id") != GENERIC}
    is_required = scored is not None and name in scored
    is_skipped = not is_required and "SKIPPED" in own and own <= {"SKIPPED", "INFO"}
    if not is_skipped and not failures and "SUCCESS" not in own:
        failures = ("nothing was proven",)
    return Outcome(name, scored is None or name in scored, failures, is_skipped)


def missing(ran: Iterable[Outcome], due: Iterable[str]) -> list[Outcome]:
    """A failure for each scenario that must run and has no result."""
    seen = {each.scenario for each in ran}
    return [Outcome(name, True, ("it did not run",)) for name in sorted(set(due) - seen)]


def _first_line(text: object) -> str:
    lines = (line for line in str(text).splitlines() if line.strip())
    return next(lines, "no reason given")[:200]
