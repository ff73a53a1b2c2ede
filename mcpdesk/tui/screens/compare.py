"""Comparison of two exchanges: a list of differences, with both values of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, islice, zip_longest
from typing import Any, ClassVar, Final

from rich.cells import cell_len, chop_cells
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.widgets import Static

from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.json_text import Path, compact, path_text
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.menu import Dialog

_NEVER_COMPARED = ("jsonrpc", "id")
_MAX_VALUE_LENGTH = 2_000
"""Maximum number of characters of a value that are shown."""
MIN_WIDTH_SIDE_BY_SIDE = 110
"""Minimum width in cells for showing the two values side by side."""
_BETWEEN = " │ "
_CONTEXT = 2
"""Number of unchanged lines of a text that are shown before and after changed lines."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both values at one position, or None if a value does not exist."""

    before: str | None
    after: str | None


_Line = str | _Pair
"""Line of the comparison: a heading, or a pair."""


class DifferenceList(LineList):
    """List of headings. Below each heading are the first and the second value at that position.

    In a wide list both values are side by side, wrapped, with the different characters in colour. In a narrow
    list `-` marks the first value and `+` the second.
    """

    DEFAULT_CSS = "DifferenceList { height: auto; max-height: 100%; min-height: 1; }"

    def __init__(self, pairs: Sequence[tuple[str, Difference]]) -> None:
        super().__init__()
        self._lines = list(_lines(pairs))
        self._rows: list[list[Span]] = []
        self._width = 0

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """Return a row as laid out for the width of the list."""
        yield from self._rows[index]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows at this width."""
        self._lay_out(width)
        return super().get_content_height(container, viewport, width)

    def on_resize(self) -> None:
        """Lay the rows out for the new width."""
        self._lay_out(self.size.width)
        self.cursor = self.validate_cursor(self.cursor)
        super().on_resize()

    def _lay_out(self, width: int) -> None:
        if width == self._width:
            return
        self._width = width
        if not self._lines:
            self._rows = [[("no difference", "lines--good")]]
        elif width >= MIN_WIDTH_SIDE_BY_SIDE:
            self._rows = list(_side_by_side(self._lines, width))
        else:
            self._rows = list(_one_below_the_other(self._lines))


class CompareScreen(Dialog[None]):
    """Dialog with the differences between the messages of two exchanges."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("compare")
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]
    DEFAULT_CSS = """
    CompareScreen { align: center middle; }
    CompareScreen > .box { width: 110; }
    CompareScreen.-wide > .box { width: 96%; }
    CompareScreen .titles { height: 2; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, titles: tuple[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Create the dialog. `before` and `after` contain the messages by side: `request` and `response`."""
        super().__init__()
        self.titles = titles
        self.differences = [
            (side, each)
            for side in dict.fromkeys([*before, *after])
            for each in differences(_compared(before.get(side, NOTHING)), _compared(after.get(side, NOTHING)))
        ]

    def compose(self) -> ComposeResult:
        """Compose the titles of both exchanges, then the differences."""
        box = Vertical(classes="box")
        count = (
            f"{MAX_DIFFERENCES:,} or more"
            if len(self.differences) >= MAX_DIFFERENCES
            else f"{len(self.differences):,}"
        )
        box.border_title = f"{count} difference{'' if len(self.differences) == 1 else 's'}"
        box.border_subtitle = "esc close"
        with box:
            first, second = (one_line(title) for title in self.titles)
            yield Static(f"- {first}\n+ {second}", classes="titles", markup=False)
            yield DifferenceList(self.differences)

    def on_mount(self) -> None:
        """Focus the list, so that arrow keys work immediately."""
        self.query_one(DifferenceList).focus()


def _compared(message: Any) -> Any:
    """Return a message without the members that always differ."""
    if not isinstance(message, dict):
        return message
    compared = {key: value for key, value in message.items() if key not in _NEVER_COMPARED}
    match compared.get("params"):
        case {"_meta": {"progressToken": _, **meta}, **params}:  # each call has a new token
            compared["params"] = {**params, "_meta": meta}
    return compared


def _lines(pairs: Sequence[tuple[str, Difference]]) -> Iterator[_Line]:
    for side, each in pairs:
        yield one_line(f"{side} {path_text(each.path)}")
        lines = _changed_lines(each)
        if lines is None:
            yield _Pair(_value(each.before), _value(each.after))
        else:
            yield from lines


def _value(value: Any) -> str | None:
    return None if value is NOTHING else one_line(compact(value)[:_MAX_VALUE_LENGTH])


def _changed_lines(difference: Difference) -> Iterator[_Line] | None:
    """Yield the changed lines of two multi-line texts. Return None for other values and very long texts."""
    before, after = difference.before, difference.after
    if not (isinstance(before, str) and isinstance(after, str) and ("\n" in before or "\n" in after)):
        return None
    old, new = before.split("\n"), after.split("\n")
    return None if max(len(old), len(new)) > _MAX_LINES else islice(_pairs(old, new), _MAX_LINES)


def _pairs(old: list[str], new: list[str]) -> Iterator[_Line]:
    """Yield the changed lines of two texts with their context, each group below its line number."""
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        yield f"  line {group[0][3] + 1:,}"
        for _, start, stop, new_start, new_stop in group:
            for one, other in zip_longest(old[start:stop], new[new_start:new_stop]):
                yield _Pair(_line(one), _line(other))


def _line(text: str | None) -> str | None:
    return None if text is None else one_line(text[:_MAX_VALUE_LENGTH])


def _one_below_the_other(lines: Sequence[_Line]) -> Iterator[list[Span]]:
    for is_changed, group in groupby(lines, lambda one: isinstance(one, _Pair) and one.before != one.after):
        members = list(group)
        if is_changed:
            changed = [each for each in members if isinstance(each, _Pair)]
            for each in changed:
                if each.before is not None:
                    yield [("  - ", "lines--bad"), (each.before, "lines--bad")]
            for each in changed:
                if each.after is not None:
                    yield [("  + ", "lines--good"), (each.after, "lines--good")]
            continue
        for one in members:
            yield [(f"    {one.after}", "lines--muted")] if isinstance(one, _Pair) else [_heading(one)]


def _side_by_side(lines: Sequence[_Line], width: int) -> Iterator[list[Span]]:
    half = (width - len(_BETWEEN)) // 2
    for one in lines:
        if isinstance(one, str):
            yield [_heading(one)]
            continue
        left, right = _cells(one, half)
        for at in range(max(len(left), len(right))):
            row = _filled(left[at] if at < len(left) else [], half)
            yield [*row, (_BETWEEN, "lines--muted"), *(right[at] if at < len(right) else [])]


def _heading(text: str) -> Span:
    """Return a heading: the path of a value, or the number of a line of its text in a muted style."""
    return text, "lines--muted" if text.startswith(" ") else "lines--key"


def _cells(pair: _Pair, width: int) -> tuple[list[list[Span]], list[list[Span]]]:
    """Return both values of a pair as rows of at most `width` cells.

    Only different characters are coloured.
    """
    before, after = pair.before, pair.after
    if before == after:
        rows = _wrapped([(before or "", "lines--muted")], width)
        return rows, rows
    if before is None or after is None:
        return _wrapped([(before or "", "lines--bad")], width), _wrapped(
            [(after or "", "lines--good")], width
        )
    start = _same_letters(before, after)
    end = _same_letters(before[start:][::-1], after[start:][::-1])
    return (
        _wrapped(_middle(before, start, len(before) - end, "lines--bad"), width),
        _wrapped(_middle(after, start, len(after) - end, "lines--good"), width),
    )


def _same_letters(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (left, right) in pairs if left != right), min(len(one), len(other)))


def _middle(text: str, start: int, stop: int, style: str) -> list[Span]:
    return [(text[:start], ""), (text[start:stop], style), (text[stop:], "")]


def _wrapped(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """Break spans into rows of at most `width` cells. If there is no text, return one empty row."""
    rows: list[list[Span]] = [[]]
    left = width
    for text, style in spans:
        while text:
            part = next(iter(chop_cells(text, left)), "") if left > 1 else ""
            if cell_len(part) > left or not part:
                rows.append([])
                left = width
                continue
            rows[-1].append((part, style))
            text, left = text[len(part) :], left - cell_len(part)
    return rows


def _filled(row: Sequence[Span], width: int) -> list[Span]:
    return [*row, (" " * (width - sum(cell_len(text) for text, _ in row)), "")]


_MAX_LINES: Final = 5_000
"""Maximum number of lines of a text in which changed lines are searched."""
MAX_DIFFERENCES: Final = 1_000
"""Maximum number of differences."""
_MAX_ALIGNED_ITEMS: Final = 300
"""Maximum number of items of two lists that are aligned. Items of longer lists are compared by index."""


NOTHING: Final = object()
"""Marks a position that one of the values does not have."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference at one position. A value that does not exist there is `NOTHING`.

    Indexes in the path are those of the second value. For removed items, they are those of the first value.
    """

    path: Path
    before: Any
    after: Any


def differences(before: Any, after: Any) -> list[Difference]:
    """Return the first `MAX_DIFFERENCES` differences of two values, in the order of the first value."""
    return list(islice(_differ((), before, after), MAX_DIFFERENCES))


def _differ(path: Path, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differ((*path, key), before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _differ_in_lists(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)


def _differ_in_lists(path: Path, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    if max(len(before), len(after)) > _MAX_ALIGNED_ITEMS:
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
