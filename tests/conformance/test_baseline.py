"""The baselines name each scenario with its reason, and a run is held against them exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance import baseline
from tests.conformance.suite import REVISIONS, NotHere, Outcome, find, missing, outcome_at


def ran(scenario: str, *failures: str) -> Outcome:
    return Outcome(scenario, True, failures)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_expected_failure_has_a_reason(revision: str) -> None:
    assert all(len(reason) > 10 for reason in baseline.read(revision).values())


def test_a_run_has_to_be_what_the_baseline_says() -> None:
    assert baseline.judge([ran("a"), ran("b", "broken")], {"b": "because"}).is_good
    assert not baseline.judge([ran("a", "broken")], {}).is_good
    assert baseline.judge([ran("a")], {"a": "because"}).stale == ("a",)
    assert baseline.judge([ran("a")], {"b": "did not run"}).is_good


def test_a_scenario_that_is_skipped_is_named_too() -> None:
    skipped = Outcome("a", False, (), is_skipped=True)
    assert baseline.judge([skipped], {}).unexpected == (skipped,)
    assert baseline.judge([skipped], {"a": "because"}).is_good


def write(folder: Path, *checks: dict[str, str]) -> Path:
    path = folder / "server-tools-list-2026-01-02T03-04-05-678Z" / "checks.json"
    path.parent.mkdir()
    path.write_text(json.dumps(checks))
    return path


def test_a_warning_counts_as_a_failure(tmp_path: Path) -> None:
    checks = (
        {"id": "a", "status": "SUCCESS"},
        {"id": "b", "status": "WARNING", "errorMessage": "odd\nlines"},
    )
    outcome = outcome_at(write(tmp_path, *checks), frozenset({"tools-list"}))
    assert outcome == Outcome("tools-list", True, ("b: odd",))
    assert not outcome.passes


def test_the_check_every_scenario_has_proves_nothing(tmp_path: Path) -> None:
    checks = ({"id": "wire-schema-valid", "status": "SUCCESS"}, {"id": "b", "status": "INFO"})
    outcome = outcome_at(write(tmp_path, *checks), frozenset())
    assert outcome.failures == ("nothing was proven",)


def test_what_is_skipped_neither_passes_nor_fails(tmp_path: Path) -> None:
    outcome = outcome_at(write(tmp_path, {"id": "b", "status": "SKIPPED"}), frozenset())
    assert (outcome.is_skipped, outcome.passes, outcome.failures) == (True, False, ())


def test_what_is_required_has_to_run_and_prove_something(tmp_path: Path) -> None:
    outcome = outcome_at(write(tmp_path, {"id": "b", "status": "SKIPPED"}), frozenset({"tools-list"}))
    assert (outcome.is_skipped, outcome.failures) == (False, ("nothing was proven",))
    assert missing([outcome], {"tools-list", "ping"}) == [Outcome("ping", True, ("it did not run",))]


def test_without_node_the_suite_is_not_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONFORMANCE_SUITE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotHere, match=r"npx \(Node\) is not installed"):
        find()
