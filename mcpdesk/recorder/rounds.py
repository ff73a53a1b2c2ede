"""What belongs to an operation besides its first request: rounds, questions on the way, looks at its task."""

from __future__ import annotations

from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.index import Index


def is_round(one: Exchange, whole: Exchange) -> bool:
    """Whether a part of an operation, or itself, is one of its rounds: each repeats the same method."""
    return one.direction is whole.direction and one.method == whole.method


def last_round(index: Index, whole: Exchange) -> Exchange:
    """The round that gave the operation its result, or is about to."""
    if whole.rounds == 1:
        return whole
    rounds = (index.exchange(row) for row in reversed(whole.parts))
    return next((one for one in rounds if is_round(one, whole)), whole)


def parts_in_words(whole: Exchange) -> str:
    """`3 rounds · 1 question · 2 polls`; empty where the request and its response are all."""
    counts = (
        (whole.rounds if whole.parts and whole.rounds > 1 else 0, "round"),
        (whole.questions, "question"),
        (whole.looks, "poll"),
    )
    return " · ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count)
