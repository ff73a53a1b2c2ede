"""Report of a login check as lines of text, without unsafe characters, for the shell and the screen."""

from __future__ import annotations

from collections.abc import Iterator

from mcpdesk.features.doctor.login_report import LoginReport, LoginStep, RuleState
from mcpdesk.plain_text import clean

MARKS = {RuleState.FOLLOWED: "✓", RuleState.WARNING: "!", RuleState.BROKEN: "✗"}


def login_lines(report: LoginReport) -> list[str]:
    """Return the whole report. The last lines are the summary."""
    lines = [f"{report.target}  {report.url}" if report.target != report.url else report.url, ""]
    for number, step in enumerate(report.steps, start=1):
        lines += [*_step_lines(number, step), ""]
    lines += _summary(report)
    return [clean(line, newlines=False) for line in lines]


def _step_lines(number: int, step: LoginStep) -> Iterator[str]:
    yield f"{number}. {step.name.value}: {step.state.value}"
    for name, text in step.values.items():
        yield f"     {name}: {text}"
    for rule in step.rules:
        source = f" ({rule.source})" if rule.source else ""
        yield f"   {MARKS[rule.state]} {rule.rule}{source}"
        if rule.state is not RuleState.FOLLOWED:
            yield f"     {rule.state.value}: {rule.observed}"
            if rule.hint:
                yield f"     {rule.hint}"


def _summary(report: LoginReport) -> Iterator[str]:
    rules = [rule for step in report.steps for rule in step.rules]
    counts = {state: sum(each.state is state for each in rules) for state in RuleState}
    names = {RuleState.FOLLOWED: "followed", RuleState.WARNING: "with a warning", RuleState.BROKEN: "broken"}
    parts = ", ".join(f"{counts[state]} {name}" for state, name in names.items() if counts[state])
    if report.ok:
        verdict = "The login works"
    elif report.needs_person and not counts[RuleState.BROKEN]:
        verdict = "There is no login yet"
    else:
        verdict = "The login does not work"
    yield f"{verdict}: {len(rules)} rules, {parts or 'none checked'}."
    if report.needs_person:
        yield f"A person must log in: {report.next}"
