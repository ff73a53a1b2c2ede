"""Outline of a JSON value as foldable rows, and the widget that shows, searches and copies it.

Only unfolded values are laid out, so that large values stay fast.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Any, ClassVar

from rich.cells import chop_cells
from rich.segment import Segment
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.json_text import Path, at_path, compact, path_text, pretty, preview
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.typed_query import TypedQuery

SLICE_ROWS = 200
"""Number of children that are laid out at a time."""
MAX_TEXT_WIDTH = 100
"""Maximum width in cells of a line of an unfolded string. A wider string can be unfolded."""
MIN_TEXT_WIDTH = 20
"""Minimum width in cells to which the lines of an unfolded string are wrapped, even in a narrow tree."""

MAX_LOW_ROWS = 6
"""Maximum height in rows of a low tree, which is scrolled to the row `begin` (see `JsonTree.load`)."""
LONG_TEXT_LENGTH = 65_536
"""Minimum length in characters for which the number of lines of a string is cached."""


class RowKind(Enum):
    """Kind of a row."""

    VALUE = "value"
    TEXT = "text"
    """One line of an unfolded string."""
    MORE = "more"
    """Placeholder for children that are not laid out yet."""


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """One row. `path` is the path of its value.

    A `TEXT` or `MORE` row has the path of the string or container to which it belongs.
    """

    kind: RowKind
    path: Path
    depth: int
    value: Any
    """Value, line of text, or number of remaining children."""

    @property
    def key(self) -> str | int | None:
        """Key or index within the parent. None for the root."""
        return self.path[-1] if self.path else None


class Outline:
    """Rows of a value, the root first. `marks` are messages at paths, such as schema violations.

    Initially, as many levels are unfolded as fit into `max_initial_rows` rows. Values under the keys in
    `folded` stay folded. The lines of a string are at most `text_width` cells wide.
    """

    def __init__(
        self,
        value: Any,
        marks: Mapping[Path, str] | None = None,
        max_initial_rows: int = 60,
        folded: Collection[str] = (),
        text_width: int = MAX_TEXT_WIDTH,
    ) -> None:
        self.value = value
        self._text_width = text_width
        self._max_initial_rows = max_initial_rows
        self._folded_keys = folded
        self.marks = dict(marks or {})
        self._paths_above_marks = {path[:end] for path in self.marks for end in range(len(path))}
        self._child_limits: dict[Path, int] = {}
        """Path of each unfolded value -> maximum number of its children that are laid out."""
        self.rows = [OutlineRow(RowKind.VALUE, (), 0, value)]
        self._unfold_levels(max_initial_rows)
        self._unfold_texts(max_initial_rows)
        for path in list(self.marks)[:20]:
            self.reveal(path)

    def is_unfolded(self, row: OutlineRow) -> bool:
        """Return True if the row's children are laid out."""
        return row.kind is RowKind.VALUE and row.path in self._child_limits

    def can_unfold(self, row: OutlineRow) -> bool:
        """Return True if the row can be unfolded."""
        return row.kind is RowKind.VALUE and self._count_children(row) > 0

    def set_text_width(self, width: int) -> None:
        """Wrap the lines of strings to another width."""
        if width == self._text_width:
            return
        self._text_width = width
        for row in self.rows:
            # Strings that fit on one line at the new width are no longer unfolded.
            if isinstance(row.value, str) and self.is_unfolded(row) and not self.can_unfold(row):
                del self._child_limits[row.path]
        root = self.rows[0]
        self.rows = [root, *(self._children(root, 0) if self.is_unfolded(root) else ())]
        self._unfold_texts(self._max_initial_rows)

    def has_mark_below(self, row: OutlineRow) -> bool:
        """Return True if a value below the row, at any depth, has a message."""
        return row.kind is RowKind.VALUE and row.path in self._paths_above_marks

    def toggle(self, index: int) -> None:
        """Fold or unfold a row. For a `MORE` row, lay out the next slice."""
        row = self.rows[index]
        if row.kind is RowKind.MORE:
            self._add_slice(index)
        elif self.is_unfolded(row):
            self.fold(index)
        else:
            self.unfold(index)

    def unfold(self, index: int) -> None:
        """Unfold a row, and the rows below it that were unfolded before."""
        row = self.rows[index]
        if self.can_unfold(row) and not self.is_unfolded(row):
            self._child_limits[row.path] = SLICE_ROWS
            self.rows[index + 1 : index + 1] = self._children(row, 0)

    def fold(self, index: int) -> None:
        """Fold a row."""
        if self._child_limits.pop(self.rows[index].path, None) is not None:
            del self.rows[index + 1 : self._end_of(index)]

    def _add_slice(self, index: int) -> None:
        """Replace a `MORE` row by the next slice of children."""
        parent = self.rows[self.parent(index)]
        shown_count = self._child_limits[parent.path]
        self._child_limits[parent.path] = shown_count + SLICE_ROWS
        self.rows[index : index + 1] = self._children(parent, shown_count)

    def unfold_below(self, index: int, limit: int = 2000) -> None:
        """Unfold a row and everything in it, until about `limit` rows were added."""
        depth, old_count = self.rows[index].depth, len(self.rows)
        while True:
            self.unfold(index)
            index += 1
            if (
                index >= len(self.rows)
                or self.rows[index].depth <= depth
                or len(self.rows) - old_count >= limit
            ):
                return

    def fold_all(self) -> None:
        """Fold everything except the root."""
        self._child_limits.clear()
        self.rows = self.rows[:1]
        self.unfold(0)

    def parent(self, index: int) -> int:
        """Return the index of the parent of a row. The root is its own parent."""
        depth = self.rows[index].depth
        return next(
            (position for position in range(index - 1, -1, -1) if self.rows[position].depth < depth), 0
        )

    def reveal(self, path: Path) -> int:
        """Unfold the parents of a path. Return the index of its row, or of the nearest parent that exists."""
        index = 0
        for key in path:
            position = _position(self.rows[index].value, key)
            if position is None:
                return index
            self.unfold(index)
            index = self._child(index, position)
        return index

    def find(self, query: str, limit: int = 500, budget: int = 200_000) -> list[Path]:
        """Return the paths whose key or scalar contains `query`, in order. At most `budget` values are
        searched.
        """
        needle = query.casefold()
        walk = islice(_walk(self.value), budget)
        hits = (path for path, value in walk if _matches(path, value, needle))
        return list(islice(hits, limit)) if needle else []

    def _children(self, row: OutlineRow, start: int) -> list[OutlineRow]:
        """Return the rows below an unfolded row, from the child with the index `start` on."""
        end, rows = self._child_limits[row.path], []
        for key, value in islice(_items(row.value, self._width_below(row)), start, end):
            if isinstance(row.value, str):
                rows.append(OutlineRow(RowKind.TEXT, row.path, row.depth + 1, value))
                continue
            child = OutlineRow(RowKind.VALUE, (*row.path, key), row.depth + 1, value)
            rows.append(child)
            if self.is_unfolded(child):
                rows += self._children(child, 0)
        remaining_count = self._count_children(row) - end
        if remaining_count > 0:
            rows.append(OutlineRow(RowKind.MORE, row.path, row.depth + 1, remaining_count))
        return rows

    def _end_of(self, index: int) -> int:
        """Return the index after the last row below a row."""
        depth = self.rows[index].depth
        end = index + 1
        while end < len(self.rows) and self.rows[end].depth > depth:
            end += 1
        return end

    def _child(self, index: int, position: int) -> int:
        """Return the index of the row of a child, by its position in the parent. Lay out slices up to it."""
        depth = self.rows[index].depth + 1
        while True:
            child_indexes = [
                later_index
                for later_index in range(index + 1, self._end_of(index))
                if self.rows[later_index].depth == depth
            ]
            if self.rows[child_indexes[-1]].kind is not RowKind.MORE or position < len(child_indexes) - 1:
                return child_indexes[position]
            self._add_slice(child_indexes[-1])

    def _unfold_levels(self, max_rows: int) -> None:
        """Unfold level after level, while there are at most `max_rows` rows."""
        if _is_container(self.value):
            self.unfold(0)
        for depth in range(1, 20):
            level_indexes = [
                index
                for index, row in enumerate(self.rows)
                if row.depth == depth and _is_container(row.value) and row.key not in self._folded_keys
            ]
            child_counts = (self._count_children(self.rows[index]) for index in level_indexes)
            new_row_count = sum(min(count, SLICE_ROWS) for count in child_counts)
            if not level_indexes or len(self.rows) + new_row_count > max_rows:
                return
            for index in reversed(level_indexes):
                self.unfold(index)

    def _unfold_texts(self, max_rows: int) -> None:
        """Unfold strings of several lines, from the first row, while there are at most `max_rows` rows."""
        # Depth of the current row, or of its ancestor, whose key is in `_folded_keys`.
        folded_depth = inf
        text_indexes = []
        for index, row in enumerate(self.rows):
            if row.depth <= folded_depth:
                folded_depth = row.depth if row.key in self._folded_keys else inf
            if isinstance(row.value, str) and row.kind is RowKind.VALUE and row.depth < folded_depth:
                text_indexes.append(index)
        remaining_rows = max_rows - len(self.rows)
        fitting_indexes = []
        for index in text_indexes:
            if 0 < (new_row_count := self._count_children(self.rows[index])) <= remaining_rows:
                fitting_indexes.append(index)
                remaining_rows -= new_row_count
        for index in reversed(fitting_indexes):
            self.unfold(index)

    def _width_below(self, row: OutlineRow) -> int:
        """Return the width in cells of a line of text below a row."""
        return max(MIN_TEXT_WIDTH, self._text_width - 2 * row.depth)

    def _count_children(self, row: OutlineRow) -> int:
        """Return the number of rows that appear if a row is unfolded.

        Return 0 for a string that fits on the line of its key.
        """
        value = row.value
        if _is_container(value):
            return len(value)
        if not isinstance(value, str):
            return 0
        width = self._width_below(row)
        if len(value) <= width - len(str(row.key or "")) and "\n" not in value:
            return 0
        if len(value) < LONG_TEXT_LENGTH:
            return len(text_lines(value, width))
        return _count_long_text_lines(value, width)


@lru_cache(maxsize=4)  # each drawn row needs the counts of the same few long strings
def _count_long_text_lines(text: str, width: int) -> int:
    return len(text_lines(text, width))


def text_lines(text: str, width: int) -> list[str]:
    """Return the lines of a string. Long lines are broken at a space into pieces of at most `width` cells."""
    return [part for line in text.split("\n") for part in _broken(line, width)]


def _broken(line: str, width: int) -> Iterator[str]:
    if not line.isascii():
        yield from chop_cells(line, width) or [""]
        return
    start = 0
    while len(line) - start > width:
        space = line.rfind(" ", start + width // 2, start + width + 1)
        end = start + width if space < 0 else space
        yield line[start:end]
        start = end + (space >= 0)
    yield line[start:]


def _is_container(value: Any) -> bool:
    return isinstance(value, dict | list)


def _items(value: Any, width: int = MAX_TEXT_WIDTH) -> Iterable[tuple[str | int, Any]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(text_lines(value, width) if isinstance(value, str) else value)


def _position(value: Any, key: str | int) -> int | None:
    if isinstance(value, dict):
        return next((index for index, name in enumerate(value) if name == key), None)
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return key
    return None


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    stack: list[Iterator[tuple[Path, Any]]] = [iter([(path, value)])]
    while stack:
        next_item = next(stack[-1], None)
        if next_item is None:
            stack.pop()
            continue
        yield next_item
        if _is_container(next_item[1]):
            stack.append(_children_of(*next_item))


def _children_of(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    return (((*path, key), item) for key, item in _items(value))


def _matches(path: Path, value: Any, needle: str) -> bool:
    if path and isinstance(path[-1], str) and needle in path[-1].casefold():
        return True
    if _is_container(value):
        return False
    return needle in (value if isinstance(value, str) else compact(value)).casefold()


_FOLDED_GLYPH, _UNFOLDED_GLYPH, _LEAF_GLYPH = "▸ ", "▾ ", "  "
_ROW_OVERHEAD = 6
"""Cells of a row besides key and text: the glyph, the colon and space after the key, and two quotes."""


class JsonTree(TypedQuery, LineList):
    """Tree of one value. Enter folds, `/` searches, and `y` copies the value."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("json")
    DEFAULT_CSS = "JsonTree { height: 1fr; }"

    @dataclass
    class CopyRequested(Message):
        """Request to copy `text` to the clipboard. `what` is a short description of the text."""

        text: str
        what: str

    def __init__(self, value: Any = None, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._outline = Outline(value)
        self._hidden_row_count = self._count_hidden_rows()
        self._hits: list[Path] = []
        self._hit_index = -1
        self._low_start_row = 0
        """First row that a low tree shows."""
        self._is_start_skipped = False
        """True if the rows above `_low_start_row` were scrolled out of view."""

    @property
    def row_count(self) -> int:
        """Number of visible rows. The root is hidden if it is a container without a mark."""
        return len(self._outline.rows) - self._hidden_row_count

    @property
    def selected(self) -> Path:
        """Path of the value under the cursor."""
        return self._row(self.cursor).path if self.row_count else ()

    def load(
        self,
        value: Any,
        marks: Mapping[Path, str] | None = None,
        folded: Collection[str] = (),
        begin: int = 0,
    ) -> None:
        """Show another value. `marks` are messages at paths, drawn in red with a cross.

        Values under the keys in `folded` stay folded until the person unfolds them. A low tree begins with
        the row `begin` if not all rows fit.
        """
        self._outline = Outline(value, marks, folded=folded, text_width=self._text_width)
        self._hidden_row_count = self._count_hidden_rows()
        self.query_text, self.is_typing, self._hits = "", False, []
        self.cursor, self._low_start_row, self._is_start_skipped = 0, begin, False
        self.scroll_home(animate=False, immediate=True)
        self.rows_changed()
        self._skip_first_rows()

    def _skip_first_rows(self) -> None:
        """Scroll the first rows out of view if the tree is low. Scroll back if it becomes higher.

        Do nothing after the person has moved the cursor.
        """
        is_low = 0 < self.size.height <= min(MAX_LOW_ROWS, self.row_count - 1)
        old_row, new_row = (0, self._low_start_row) if is_low else (self._low_start_row, 0)
        if self._low_start_row and is_low != self._is_start_skipped and self.cursor == old_row:
            self.cursor, self._is_start_skipped = new_row, is_low
            self.scroll_to(y=new_row, animate=False, force=True, immediate=True)

    @property
    def _text_width(self) -> int:
        """Maximum width in cells of the lines of a string that is not indented."""
        width = self.size.width - _ROW_OVERHEAD
        return MAX_TEXT_WIDTH if width <= 0 else min(MAX_TEXT_WIDTH, width)

    def on_resize(self) -> None:
        """Wrap the lines of strings to the new width."""
        self._outline.set_text_width(self._text_width)
        self.rows_changed()
        super().on_resize()
        self._skip_first_rows()

    def spans(self, index: int, width: int) -> Iterator[Span]:
        row = self._row(index)
        yield "  " * (row.depth - self._hidden_row_count), ""
        if row.kind is RowKind.MORE:
            yield f"  … {row.value:,} more", "lines--muted"
        elif row.kind is RowKind.TEXT:
            yield f"  {one_line(row.value)}", "lines--text"
        else:
            yield from self._value_spans(row, width)

    def choose_row(self, index: int) -> None:
        self._outline.toggle(index + self._hidden_row_count)
        self.rows_changed()

    def action_cursor(self, by: int) -> None:
        """Move the cursor. If it reaches a `MORE` row on the way down, replace this row by the next
        children.
        """
        super().action_cursor(by)
        if by > 0 and self.row_count and self._row(self.cursor).kind is RowKind.MORE:
            self.choose_row(self.cursor)

    def action_unfold(self) -> None:
        """Unfold the row, or move into it."""
        if self.row_count:
            row = self._row(self.cursor)
            if self._outline.is_unfolded(row):
                self.cursor += 1
            elif self._outline.can_unfold(row):
                self.choose_row(self.cursor)

    def action_fold(self) -> None:
        """Fold the row, or go to its parent."""
        if self.row_count and self._outline.is_unfolded(self._row(self.cursor)):
            self.choose_row(self.cursor)
        elif self.row_count:
            self.cursor = self._outline.parent(self.cursor + self._hidden_row_count) - self._hidden_row_count

    def action_unfold_all(self) -> None:
        """Unfold everything below the row, up to a limit."""
        if self.row_count:
            self._outline.unfold_below(self.cursor + self._hidden_row_count)
            self.rows_changed()

    def action_fold_all(self) -> None:
        """Fold everything."""
        self._outline.fold_all()
        self.rows_changed()

    def action_copy_value(self) -> None:
        """Copy the value under the cursor as JSON, or a string unchanged."""
        value = at_path(self._outline.value, self.selected)
        text = value if isinstance(value, str) else pretty(value)
        self.post_message(self.CopyRequested(text, f"value of {path_text(self.selected)}"))

    def action_copy_path(self) -> None:
        """Copy the path of the value."""
        self.post_message(self.CopyRequested(path_text(self.selected), "path"))

    @property
    def fixed_lines(self) -> int:
        """One line for the search while it is active, otherwise 0."""
        return int(self.has_query)

    def _show_cursor(self) -> None:
        super()._show_cursor()
        if self.has_focus:  # the tree may be inside another scrolling widget
            self.scroll_visible(animate=False, force=True, immediate=True)

    def action_search(self) -> None:
        """Start a search."""
        self.begin_query()

    def action_next_hit(self, by: int = 1) -> None:
        """Go to the next or previous hit."""
        if self._hits:
            self._hit_index = (self._hit_index + by) % len(self._hits)
            self.reveal(self._hits[self._hit_index])

    def on_blur(self) -> None:
        self.is_typing = False
        self.rows_changed()

    def render_line(self, y: int) -> Strip:
        """Draw a row. The last line shows the search, or the mark of the selected value."""
        is_last = y == self.size.height - 1
        if is_last and self.has_query:
            return self._search_line()
        mark = self._outline.marks.get(self.selected) if is_last else None
        if mark is not None and self.has_focus:
            message = one_line(f"✗ {path_text(self.selected)}: {mark}", self.size.width)
            return self._draw_bar(message, "lines--bad")
        return super().render_line(y)

    def _value_spans(self, row: OutlineRow, width: int) -> Iterable[Span]:
        is_unfolded = self._outline.is_unfolded(row)
        glyph = _UNFOLDED_GLYPH
        if not is_unfolded:  # `can_unfold` may have to wrap a long string
            glyph = _FOLDED_GLYPH if self._outline.can_unfold(row) else _LEAF_GLYPH
        yield glyph, "lines--muted"
        if row.key is not None:
            key = one_line(row.key) if isinstance(row.key, str) else str(row.key)
            key_style = "lines--key" if isinstance(row.key, str) else "lines--muted"
            yield key, "lines--hit" if self._is_hit(row) else key_style
            yield ": ", "lines--muted"
        mark = self._outline.marks.get(row.path)
        summary_length = max(12, width // 2) if mark else width
        yield from _value_summary(row.value, is_unfolded, summary_length)
        if mark is not None:
            yield f"  ✗ {one_line(mark)}", "lines--bad"
        elif self._outline.has_mark_below(row):
            yield "  ✗", "lines--bad"

    def _search_line(self) -> Strip:
        status = f"{self._hit_index + 1} of {len(self._hits)}" if self._hits else "nothing found"
        hit_text = status if self.query_text else ""
        return self._draw_bar(f"{one_line(self.query_line)}  {hit_text}", "lines--head")

    def _draw_bar(self, text: str, component: str) -> Strip:
        style = self.rich_style + self.get_component_rich_style(component, partial=True)
        return Strip([Segment(text, style)]).adjust_cell_length(self.size.width, style)

    def query_ended(self) -> None:
        """Clear the hits if the search was cleared."""
        if not self.query_text:
            self._hits = []
        self.rows_changed()

    def query_changed(self) -> None:
        """Search for the typed text."""
        self._hits = self._outline.find(self.query_text)
        self._hit_index = -1
        self.rows_changed()
        self.action_next_hit()

    def reveal(self, path: Path) -> None:
        """Unfold the parents of a path, and go to its value."""
        index = self._outline.reveal(path) - self._hidden_row_count
        self.rows_changed()
        self.cursor = index
        self._show_cursor()

    def _is_hit(self, row: OutlineRow) -> bool:
        return bool(self._hits) and self._hits[self._hit_index] == row.path

    def _row(self, index: int) -> OutlineRow:
        return self._outline.rows[index + self._hidden_row_count]

    def _count_hidden_rows(self) -> int:
        outline = self._outline
        return int(
            len(outline.rows) > 1 and isinstance(outline.value, dict | list) and () not in outline.marks
        )


def _value_summary(value: Any, is_unfolded: bool, max_length: int) -> Iterator[Span]:
    """Yield a scalar, or the size of a container and, if it is folded, the beginning of its value."""
    if isinstance(value, str):
        if is_unfolded:
            line_count = value.count("\n") + (not value.endswith("\n"))
            yield counted(line_count, "line") if line_count > 1 else "text", "lines--muted"
        else:
            yield one_line(preview(value, max_length)), "lines--text"
    elif isinstance(value, dict | list):
        contents = "" if is_unfolded or not value else f"  {one_line(preview(value, max_length))}"
        yield f"{_size(value)}{contents}", "lines--muted"
    elif value is None or isinstance(value, bool):
        yield compact(value), "lines--word"
    else:
        yield compact(value), "lines--number"


def _size(value: dict[str, Any] | list[Any]) -> str:
    return f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
