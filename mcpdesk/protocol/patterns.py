"""Matching of texts against the regular expressions of JSON Schemas, with a bound on time.

Schemas come from servers, documents and authors, and texts come from callers. Both may be hostile. Small
patterns are matched in linear time against texts of any length. The larger a pattern is, the shorter a text
must be. For a pattern with look-around or back references, the number of steps is limited, too.

jsonschema_rs is imported when the first pattern is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:
    import jsonschema_rs

MAX_BACKTRACKS = 10_000
"""Maximum backtracking steps in one text."""
MAX_BACKTRACKING_PATTERN = 1_000
"""Maximum characters of a pattern with look-around or back references."""
MAX_PATTERN_BYTES = 4 << 20
"""Maximum bytes of a compiled pattern."""
MAX_COMPILED_PATTERNS = 64
"""Maximum number of compiled patterns in memory."""
MAX_COST = 1_200_000
"""Maximum total cost of the texts of one value.

One unit is about a microsecond for the worst pattern and text.
"""
TEXT_COST = 2
"""Cost of each text in addition to the cost of its characters."""


class Tier(NamedTuple):
    """Limits of patterns of one size."""

    pattern_bytes: int
    """Maximum bytes of the compiled pattern."""
    max_length: int
    """Maximum characters of a text."""
    cost: Callable[[int], int]
    """Function that returns the cost of a text from its number of characters."""


TINY = Tier(1_344, 1 << 62, lambda length: 0)
"""Patterns whose automaton remains small for every text."""
LINEAR_TIERS = (
    TINY,
    Tier(8 << 10, 250_000, lambda length: 4 * length),
    Tier(64 << 10, 100_000, lambda length: 10 * length),
    Tier(MAX_PATTERN_BYTES, 4_000, lambda length: length * length // 16),
)
"""Patterns without look-around and back references, from small to large."""
BACKTRACKING = Tier(MAX_PATTERN_BYTES, 1_000, lambda length: length * length // 2)


class PatternMatch(Enum):
    """Outcome of matching a text."""

    MATCHES = "matches"
    DIFFERS = "differs"
    TOO_LONG = "too long"
    """The text is too long for this pattern and was not matched."""
    TOO_SLOW = "too slow"
    """The step limit was reached before the outcome was known."""


class Pattern(Struct, frozen=True):
    """Compiled regular expression."""

    source: str
    tier: Tier
    validator: Any
    """The `jsonschema_rs.Validator` of a schema with this pattern."""

    def verdict(self, text: str) -> PatternMatch:
        """Match a text. The pattern may match anywhere in it."""
        if len(text) > self.tier.max_length:
            return PatternMatch.TOO_LONG
        if self.validator.is_valid(text):
            return PatternMatch.MATCHES
        if self.tier is TINY:
            return PatternMatch.DIFFERS
        # `is_valid` is also False if the step limit was reached. The kind of the error distinguishes
        # the two cases.
        error_kinds = [error.kind.as_dict() for error in self.validator.iter_errors(text)]
        if all("pattern" in kind for kind in error_kinds):
            return PatternMatch.DIFFERS
        return PatternMatch.TOO_SLOW


def tiny_engine() -> jsonschema_rs.RegexOptions:
    """Return the options of the linear engine for patterns that need no limit."""
    return _linear_engine(TINY)


def backtracking_engine() -> jsonschema_rs.FancyRegexOptions:
    """Return the options of the engine that supports every pattern."""
    import jsonschema_rs

    return jsonschema_rs.FancyRegexOptions(
        backtrack_limit=MAX_BACKTRACKS, size_limit=BACKTRACKING.pattern_bytes
    )


def _linear_engine(tier: Tier) -> jsonschema_rs.RegexOptions:
    import jsonschema_rs

    return jsonschema_rs.RegexOptions(size_limit=tier.pattern_bytes)


@lru_cache(maxsize=MAX_COMPILED_PATTERNS)
def compiled(source: str) -> Pattern | None:
    """Return a compiled pattern, or None if it is invalid or too large."""
    import jsonschema_rs

    engines: list[tuple[Tier, jsonschema_rs.PatternOptionsType]] = [
        (tier, _linear_engine(tier)) for tier in LINEAR_TIERS
    ]
    if len(source) <= MAX_BACKTRACKING_PATTERN:
        engines.append((BACKTRACKING, backtracking_engine()))
    schema: dict[str, Any] = {"type": "string", "pattern": source}
    for tier, engine in engines:
        try:
            validator = jsonschema_rs.validator_for(schema, offline=True, pattern_options=engine)
        except ValueError:
            continue
        return Pattern(source, tier, validator)
    return None
