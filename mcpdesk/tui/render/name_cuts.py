"""Shortening of long names in a list, so that different names stay different."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from rich.cells import cell_len, set_cell_size

from mcpdesk.tui.render.safe_text import MIN_WIDTH_WITH_ENDS, one_line, shortened


def distinct_cuts(names: Iterable[str], width: int) -> dict[str, str]:
    """Return each name cleaned, on one line, and cut in the middle to `width` cells.

    For names that would then look equal, the part in which they differ is shown instead of their ends.
    """
    cut_names = {name: shortened(name, width) for name in names}
    names_by_text: dict[str, list[str]] = {}
    for name, text in cut_names.items():
        names_by_text.setdefault(text, []).append(name)
    if width >= MIN_WIDTH_WITH_ENDS:
        for similar_names in names_by_text.values():
            if len(similar_names) > 1:
                texts = [one_line(name) for name in similar_names]
                start = _common_length(texts)
                cut_names |= {
                    name: _beginning_and_rest(text, start, width)
                    for name, text in zip(similar_names, texts, strict=True)
                }
    return cut_names


def _common_length(texts: Sequence[str]) -> int:
    """Return the number of characters at the beginning that all texts have in common."""
    return sum(1 for _ in takewhile(lambda characters: len(set(characters)) == 1, zip(*texts, strict=False)))


def _beginning_and_rest(text: str, start: int, width: int) -> str:
    """Return the beginning of a text, and its characters from `start`, in `width` cells."""
    rest = text[start:]
    head_width = max(width // 3, width - cell_len(rest))
    return f"{set_cell_size(text, head_width - 1).rstrip()}…{one_line(rest, width - head_width)}"
