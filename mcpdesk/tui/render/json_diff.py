"""What differs between two JSON values, place by place. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Any, Final

from mcpdesk.tui.render.json_text import Path, compact

MOST: Final = 1_000
"""Differences that are listed."""
_ALIGNED: Final = 300
"""Items of two lists up to which those left out and put in are found; longer ones go item by item."""


class _Nothing:
    """Stands where one of the values has no such place."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = _Nothing()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place; a side without it is `NOTHING`. Indices are those of the second value, or of what left."""

    path: Path
    before: Any
    after: Any


def differences(before: Any, after: Any) -> list[Difference]:
    """Where two values differ, in the order of the first; the first `MOST` of them."""
    return list(islice(_differ((), before, after), MOST))


def _differ(path: Path, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differ((*path, key), before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _differ_in_lists(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)


def _differ_in_lists(path: Path, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    if max(len(before), len(after)) > _ALIGNED:
        yield from _item_by_item(path, 0, before, after)
        return
    matcher = SequenceMatcher(None, [compact(one) for one in before], [compact(one) for one in after], False)
    for what, start, stop, other_start, other_stop in matcher.get_opcodes():
        if what != "equal":
            at = start if what == "delete" else other_start
            yield from _item_by_item(path, at, before[start:stop], after[other_start:other_stop])


def _item_by_item(path: Path, at: int, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    for offset, (one, other) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
        yield from _differ((*path, at + offset), one, other)
