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

_IGNORED_MEMBERS = ("jsonrpc", "id")
"""Members of a message that are not compared."""
_MAX_VALUE_LENGTH = 2_000
"""Maximum number of characters of a value that are shown."""
MIN_WIDTH_SIDE_BY_SIDE = 110
"""Minimum width in cells for showing the two values side by side."""
_SEPARATOR = " │ "
_CONTEXT_LINES = 2
"""Number of unchanged lines of a text that are shown before and after changed lines."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """Texts of both values at one position. The text of a value that does not exist is None."""

    before: str | None
    after: str | None


_Line = str | _Pair
"""Line of the comparison: a heading, or a pair."""


class DifferenceList(LineList):
    """List of positions with a difference. Below each position are the first and the second value.

    In a wide list both values are side by side, wrapped, with the different characters in colour. In a narrow
    list `-` marks the first value and `+` the second.
    """

    DEFAULT_CSS = "DifferenceList { height: auto; max-height: 100%; min-height: 1; }"

    def __init__(self, named_differences: Sequence[tuple[str, Difference]]) -> None:
        super().__init__()
        self._lines = list(_comparison_lines(named_differences))
        self._rows: list[list[Span]] = []
        self._width = 0

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """Yield the spans of a row, which was laid out for the width of the list."""
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
            self._rows = list(_side_by_side_rows(self._lines, width))
        else:
            self._rows = list(_stacked_rows(self._lines))


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
        """Create the dialog. `before` and `after` have messages under the names `request` and `response`."""
        super().__init__()
        self.titles = titles
        self.differences: list[tuple[str, Difference]] = []
        for name in dict.fromkeys([*before, *after]):
            first = _without_unique_members(before.get(name, NOTHING))
            second = _without_unique_members(after.get(name, NOTHING))
            self.differences += [(name, difference) for difference in differences(first, second)]

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


def _without_unique_members(message: Any) -> Any:
    """Return a message without the members that always differ."""
    if not isinstance(message, dict):
        return message
    members = {key: value for key, value in message.items() if key not in _IGNORED_MEMBERS}
    match members.get("params"):
        case {"_meta": {"progressToken": _, **meta}, **params}:  # each call has a new token
            members["params"] = {**params, "_meta": meta}
    return members


def _comparison_lines(named_differences: Sequence[tuple[str, Difference]]) -> Iterator[_Line]:
    for name, difference in named_differences:
        yield one_line(f"{name} {path_text(difference.path)}")
        lines = _changed_lines(difference)
        if lines is None:
            yield _Pair(_value_text(difference.before), _value_text(difference.after))
        else:
            yield from lines


def _value_text(value: Any) -> str | None:
    return None if value is NOTHING else one_line(compact(value)[:_MAX_VALUE_LENGTH])


def _changed_lines(difference: Difference) -> Iterator[_Line] | None:
    """Return the changed lines of two multi-line texts, or None for other values and very long texts."""
    before, after = difference.before, difference.after
    if not isinstance(before, str) or not isinstance(after, str):
        return None
    if "\n" not in before and "\n" not in after:
        return None
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > _MAX_LINES:
        return None
    return islice(_changed_pairs(old, new), _MAX_LINES)


def _changed_pairs(old: list[str], new: list[str]) -> Iterator[_Line]:
    """Yield the changed lines of two texts with their context, each group below its line number."""
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT_LINES):
        yield f"  line {group[0][3] + 1:,}"
        for _, start, stop, new_start, new_stop in group:
            for old_line, new_line in zip_longest(old[start:stop], new[new_start:new_stop]):
                yield _Pair(_shortened_line(old_line), _shortened_line(new_line))


def _shortened_line(text: str | None) -> str | None:
    return None if text is None else one_line(text[:_MAX_VALUE_LENGTH])


def _is_changed(line: _Line) -> bool:
    return isinstance(line, _Pair) and line.before != line.after


def _stacked_rows(lines: Sequence[_Line]) -> Iterator[list[Span]]:
    for is_changed, group in groupby(lines, _is_changed):
        group_lines = list(group)
        if is_changed:
            pairs = [pair for pair in group_lines if isinstance(pair, _Pair)]
            for pair in pairs:
                if pair.before is not None:
                    yield [("  - ", "lines--bad"), (pair.before, "lines--bad")]
            for pair in pairs:
                if pair.after is not None:
                    yield [("  + ", "lines--good"), (pair.after, "lines--good")]
            continue
        for line in group_lines:
            if isinstance(line, _Pair):
                yield [(f"    {line.after}", "lines--muted")]
            else:
                yield [_heading(line)]


def _side_by_side_rows(lines: Sequence[_Line], width: int) -> Iterator[list[Span]]:
    half_width = (width - len(_SEPARATOR)) // 2
    for line in lines:
        if isinstance(line, str):
            yield [_heading(line)]
            continue
        left_rows, right_rows = _cells(line, half_width)
        for index in range(max(len(left_rows), len(right_rows))):
            left_row = _padded(left_rows[index] if index < len(left_rows) else [], half_width)
            right_row = right_rows[index] if index < len(right_rows) else []
            yield [*left_row, (_SEPARATOR, "lines--muted"), *right_row]


def _heading(text: str) -> Span:
    """Return the span of a heading. A line number, which starts with a space, is muted."""
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
        left_spans: list[Span] = [(before or "", "lines--bad")]
        right_spans: list[Span] = [(after or "", "lines--good")]
    else:
        start = _common_prefix_length(before, after)
        suffix_length = _common_prefix_length(before[start:][::-1], after[start:][::-1])
        left_spans = _highlighted(before, start, len(before) - suffix_length, "lines--bad")
        right_spans = _highlighted(after, start, len(after) - suffix_length, "lines--good")
    return _wrapped(left_spans, width), _wrapped(right_spans, width)


def _common_prefix_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (left, right) in pairs if left != right), min(len(one), len(other)))


def _highlighted(text: str, start: int, stop: int, style: str) -> list[Span]:
    return [(text[:start], ""), (text[start:stop], style), (text[stop:], "")]


def _wrapped(spans: Sequence[Span], width: int) -> list[list[Span]]:
    """Break spans into rows of at most `width` cells. If there is no text, return one empty row."""
    rows: list[list[Span]] = [[]]
    remaining_width = width
    for text, style in spans:
        while text:
            part = next(iter(chop_cells(text, remaining_width)), "") if remaining_width > 1 else ""
            if cell_len(part) > remaining_width or not part:
                rows.append([])
                remaining_width = width
                continue
            rows[-1].append((part, style))
            text, remaining_width = text[len(part) :], remaining_width - cell_len(part)
    return rows


def _padded(row: Sequence[Span], width: int) -> list[Span]:
    return [*row, (" " * (width - sum(cell_len(text) for text, _ in row)), "")]


_MAX_LINES: Final = 5_000
"""Maximum number of lines of a text whose lines are compared. A longer text is compared as one value."""
MAX_DIFFERENCES: Final = 1_000
"""Maximum number of differences."""
_MAX_ALIGNED_ITEMS: Final = 300
"""Maximum number of items of two lists that are aligned. Items of longer lists are compared by index."""


NOTHING: Final = object()
"""Placeholder for a value that does not exist at a position."""


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
    return list(islice(_value_differences((), before, after), MAX_DIFFERENCES))


def _value_differences(path: Path, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _value_differences((*path, key), before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _list_differences(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)


def _list_differences(path: Path, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    if max(len(before), len(after)) > _MAX_ALIGNED_ITEMS:
        yield from _item_differences(path, 0, before, after)
        return
    before_texts, after_texts = [compact(item) for item in before], [compact(item) for item in after]
    matcher = SequenceMatcher(None, before_texts, after_texts, autojunk=False)
    for operation, start, stop, new_start, new_stop in matcher.get_opcodes():
        if operation != "equal":
            start_index = start if operation == "delete" else new_start
            yield from _item_differences(path, start_index, before[start:stop], after[new_start:new_stop])


def _item_differences(
    path: Path, start_index: int, before: list[Any], after: list[Any]
) -> Iterator[Difference]:
    """Compare items with the same index. The indexes in the paths begin with `start_index`."""
    for offset, (old_item, new_item) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
        yield from _value_differences((*path, start_index + offset), old_item, new_item)
