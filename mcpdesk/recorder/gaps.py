"""What is said of the frames that are missing in a capture, on the screen and in what is exported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mcpdesk.recorder.index import Index
from mcpdesk.recorder.record import Gap

_REASONS = 20
"""Gaps whose reasons are told together."""


def gaps_in_words(index: Index) -> str:
    """One sentence on all gaps; empty when nothing is missing."""
    gaps = index.gaps
    missing = sum(gap.frames for gap in gaps)
    if not missing:
        return ""
    reasons = ", ".join(dict.fromkeys(islice((gap.why for gap in gaps if gap.why), _REASONS)))
    return _sentence(missing, reasons)


def gap_in_words(gap: Gap) -> str:
    """One sentence on one gap."""
    return _sentence(gap.frames, gap.why)


def _sentence(frames: int, why: str) -> str:
    said = "1 frame is" if frames == 1 else f"{frames:,} frames are"
    return f"{said} missing in the capture{f': {why}' if why else ''}"


def with_gaps(index: Index, numbers: Iterable[int]) -> Iterator[int | Gap]:
    """Exchanges, and before each the gaps that lie between it and the one before it."""
    gaps = iter(index.gaps)
    gap = next(gaps, None)
    for number in numbers:
        first = index.table.first[number]
        while gap is not None and gap.before <= first:
            yield gap
            gap = next(gaps, None)
        yield number
    while gap is not None:
        yield gap
        gap = next(gaps, None)
