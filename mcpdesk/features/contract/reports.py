"""Remarks of `mcpdesk check`, and its JUnit and SARIF reports."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from mcpdesk.cli.printing import JUnitCase, junit_report
from mcpdesk.client.targets import COMMAND
from mcpdesk.protocol.catalogue.contract import ContractVerdict
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.link.values import CatalogueItem


class Remark(NamedTuple):
    """Finding of a check, or difference from the lock."""

    word: str
    """Level or verdict, such as `error` or `breaking`."""
    message: str
    location: str
    """File and line, or "" if they are unknown."""
    subject: str
    """Kind and name of an item, such as `tool greet`."""
    is_error: bool
    rule: str = ""
    """Name of the rule in reports. Empty to use `word`."""
    origin: Mapping[str, Any] = MappingProxyType({})
    """Data of the claim, for a remark about a client.

    The keys are `client`, `version`, `fact`, `effect`, `source`, `date`, `limit` and `stale`.
    """

    def __str__(self) -> str:
        return ": ".join(part for part in (self.location, self.word, self.subject, self.message) if part)

    def facts(self, key: str) -> dict[str, str]:
        """Return the remark as a JSON object. `key` is the member with `word`: `level` or `verdict`."""
        return {key: self.word, "place": self.location, "subject": self.subject, "message": self.message}


def junit_of(remarks: Sequence[Remark], items: Sequence[CatalogueItem]) -> str:
    """Return a JUnit report with a case for each item and each other subject. A case with an error fails."""
    item_subjects = (f"{item.kind} {item.name}" for item in items)
    subjects = dict.fromkeys([*item_subjects, *(remark.subject for remark in remarks)])
    cases = list[JUnitCase]()
    for subject in subjects:
        kind, _, name = subject.partition(" ")
        own_remarks = [each for each in remarks if each.subject == subject]
        errors = "\n".join(str(each) for each in own_remarks if each.is_error)
        other_remarks = "\n".join(str(each) for each in own_remarks if not each.is_error)
        cases.append(JUnitCase(kind, name or "server", errors, output=other_remarks))
    return junit_report("mcpdesk check", cases)


PROJECT_URL = "https://github.com/mcpdesk/mcpdesk"
_SARIF_LEVELS = {"error": "error", "warning": "warning", ContractVerdict.BREAKING: "error"}
"""Level of a result by the word of the remark. Other words have the level `note`."""
_RULE_DESCRIPTIONS = {
    "error": "An offered item has an error",
    "warning": "Models or clients may fail with it",
    "note": "Possibly unintended",
    ContractVerdict.BREAKING: "A client that works today would fail",
    ContractVerdict.COMPATIBLE: "The contract has changed; existing clients continue to work",
    ContractVerdict.WORDING: "A text that models and people read has changed",
}


def sarif_of(remarks: Sequence[Remark], target: str, lock: Path | None, report: Path) -> str:
    """Return a SARIF 2.1.0 report with a result for each remark.

    `lock` is the lock file, or None. `report` is the file to which the text is written. Each result names a
    line of an existing file, because programs that show results in the code require one.
    """
    rules = {each.rule or each.word: each for each in remarks}
    driver = {
        "name": "mcpdesk",
        "version": __version__,
        "informationUri": PROJECT_URL,
        "rules": [_sarif_rule(rule, rules[rule]) for rule in sorted(rules)],
    }
    folder = Path(target).expanduser()
    fallback = next((each for each in (*_named_files(target), *_known_files()) if each.is_file()), report)
    results = []
    for remark in remarks:
        path, line = _file_and_line(remark, folder, lock) if folder.is_dir() else (lock, 1)
        if path is None or not path.is_file():
            folder_file = _folder_file(folder) if folder.is_dir() else None
            path = folder_file or fallback
            line = 1
        results.append(_sarif_result(remark, path, line))
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _file_and_line(remark: Remark, folder: Path, lock: Path | None) -> tuple[Path | None, int]:
    """Return the file and line of a remark about a folder. The file is None if the remark names no file."""
    file, _, line = remark.location.rpartition(":")
    if not line.isdecimal():
        file, line = remark.location, "1"
    if lock is not None and file == lock.name:
        return lock, 1
    return (folder / file if file else None), max(1, int(line))


def _folder_file(folder: Path) -> Path | None:
    """Return the file that represents a complete server folder, or None if the folder has no visible file."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name[:1] not in "._")
    return folder / "mcp.json" if (folder / "mcp.json").is_file() else next(files, None)


def _named_files(target: str) -> Iterator[Path]:
    """Yield paths below the current directory that occur in a target, directly or as words of a command."""
    words = shlex.split(target.removeprefix(COMMAND)) if target.startswith(COMMAND) else [target]
    current_folder = Path().resolve()
    for word in reversed(words):
        for text in (word, word.rpartition(":")[0]):  # a word may also be FILE:NAME
            path = Path(text).expanduser()
            if text and "\0" not in text and path.resolve().is_relative_to(current_folder):
                yield path


def _known_files() -> Iterator[Path]:
    """Yield files of the current directory that can represent a complete project."""
    yield from map(Path, ("mcp.json", ".mcp.json", "pyproject.toml", "package.json", "README.md"))
    yield from sorted(path for path in Path().glob("*") if path.name[:1] not in "._")


def _sarif_rule(rule: str, remark: Remark) -> dict[str, Any]:
    """Return the description of a rule, with the members that GitHub code scanning requires."""
    origin = remark.origin
    message = f"{origin['client']}: {origin['effect']}" if origin else _RULE_DESCRIPTIONS[remark.word]
    help_text = (
        f"Known since {origin['date']}: {origin['source']}"
        if origin
        else f"See mcpdesk check, {PROJECT_URL}."
    )
    texts = {"shortDescription": message, "fullDescription": f"{message}.", "help": help_text}
    description = {"id": rule, **{member: {"text": text} for member, text in texts.items()}}
    return description | ({"helpUri": origin["source"]} if origin else {})


def _sarif_result(remark: Remark, path: Path, line: int) -> dict[str, Any]:
    message = ": ".join(part for part in (remark.subject, remark.message) if part)
    location = {
        "artifactLocation": {"uri": quote(Path(os.path.relpath(path)).as_posix())},
        "region": {"startLine": line},
    }
    return {
        "ruleId": remark.rule or remark.word,
        "level": _SARIF_LEVELS.get(remark.word, "note"),
        "message": {"text": message},
        "locations": [{"physicalLocation": location}],
    }
