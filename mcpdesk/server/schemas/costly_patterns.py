"""Checks of costly regular expressions in a schema, with a limit on the number of steps.

They replace the `pattern` keyword of the validator. If a check reaches the limit, the validator treats the
text as one that does not match. Under `not`, `if` or `patternProperties` this would accept the value, so such
a value is rejected as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mcpdesk.protocol.patterns import (
    MAX_BACKTRACKING_PATTERN,
    MAX_COST,
    MAX_PATTERN_BYTES,
    TEXT_COST,
    TINY,
    Pattern,
    PatternMatch,
    compiled,
)


class PatternBudget:
    """Steps that remain for the patterns in one check of a value, and the first limit that was exceeded."""

    def __init__(self) -> None:
        self.remaining_steps = MAX_COST
        self.problem = ""
        """Text about the first limit that was exceeded, or "" if the result of the check is reliable."""

    def problem_of(self, pattern: Pattern, text: str) -> str:
        """Return the reason why a text is rejected, or "" if the text matches."""
        length, max_length = len(text), pattern.tier.max_length
        if length <= max_length:
            self.remaining_steps -= TEXT_COST + pattern.tier.cost(length)
        verdict = pattern.verdict(text) if self.remaining_steps >= 0 else None
        if verdict is PatternMatch.MATCHES:
            return ""
        if verdict is PatternMatch.DIFFERS:
            return f"must match the pattern {pattern.source}"
        if verdict is PatternMatch.TOO_LONG:
            problem = f"must have at most {max_length:,} characters to be checked against the pattern"
        elif verdict is PatternMatch.TOO_SLOW:
            problem = "takes too many steps to check against the pattern"
        else:
            problem = "has too many or too long texts to check against the pattern"
        problem = f"{problem} {pattern.source}"
        self.problem = self.problem or problem
        return problem


_budget: ContextVar[PatternBudget] = ContextVar("pattern budget")


@contextmanager
def pattern_budget() -> Iterator[PatternBudget]:
    """Limit the steps of all `BoundedPattern` checks in the block."""
    budget = PatternBudget()
    token = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(token)


class BoundedPattern:
    """Keyword `pattern` for schemas with costly patterns. It must run within `pattern_budget`."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        pattern = compiled(value)
        if pattern is None:
            raise ValueError(_too_large(value))
        self._pattern = pattern

    def validate(self, instance: Any) -> None:
        """Raise ValueError if a text does not match, or if this cannot be determined."""
        if isinstance(instance, str) and (problem := _budget.get().problem_of(self._pattern, instance)):
            raise ValueError(problem)


def check_long_patterns(schema: dict[str, Any]) -> None:
    """Reject a long pattern that only the backtracking engine supports, or no engine. Raises: ValueError."""
    for source in _sources(schema):
        if len(source) > MAX_BACKTRACKING_PATTERN and compiled(source) is None:
            raise ValueError(_too_large(source))


def costly_name_patterns(schema: dict[str, Any]) -> list[Pattern]:
    """Return the costly patterns for member names in a schema. All its patterns must be valid."""
    names = dict.fromkeys(source for node in _objects(schema) for source in _name_patterns(node))
    return [
        pattern for source in names if (pattern := compiled(source)) is not None and pattern.tier is not TINY
    ]


def _too_large(source: str) -> str:
    return (
        f"the pattern {source[:100]} is invalid or too large: at most {MAX_PATTERN_BYTES:,} bytes when "
        f"compiled, and {MAX_BACKTRACKING_PATTERN:,} characters with look-around or back references"
    )


def _sources(schema: dict[str, Any]) -> Iterator[str]:
    for node in _objects(schema):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        yield from _name_patterns(node)


def _name_patterns(node: dict[str, Any]) -> Iterator[str]:
    pattern_properties = node.get("patternProperties")
    if isinstance(pattern_properties, dict):
        yield from pattern_properties


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    pending: list[Any] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(child for child in node.values() if isinstance(child, dict | list))
        elif isinstance(node, list):
            pending.extend(child for child in node if isinstance(child, dict | list))


def name_problem(value: Any, patterns: list[Pattern]) -> str:
    """Return the limit that the member names in a value exceed, or "" if the names are within all limits."""
    budget = PatternBudget()
    for node in _objects(value) if patterns else ():
        for name in node:
            for pattern in patterns:
                budget.problem_of(pattern, name)
        if budget.problem:
            break
    return budget.problem
