"""What a server offers: foldable groups under a live filter. Broken items stay in sight with their reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.workbench.catalogue_rows import (
    TITLES,
    CatalogueRow,
    GroupRow,
    ItemRow,
    ProblemRow,
    badges,
    items_in_mode,
    label,
    rows,
)

_CHANGED, _BROKEN, _STALE, _RUNNING = "●", "✕", "◌", "…"


class CatalogueList(LineList):
    """The rows. Posts `Highlighted` as the cursor moves and `Chosen` on enter."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("catalogue")
    DEFAULT_CSS = "CatalogueList { height: 1fr; }"

    class Highlighted(Message):
        """The cursor is on an item."""

        def __init__(self, item: CatalogueItem) -> None:
            super().__init__()
            self.item = item

    class Chosen(Message):
        """Enter was pressed on an item, or it was clicked."""

        def __init__(self, item: CatalogueItem) -> None:
            super().__init__()
            self.item = item

    class PolicyAsked(Message):
        """The next policy is wanted for a tool."""

        def __init__(self, item: CatalogueItem) -> None:
            super().__init__()
            self.item = item

    def __init__(self) -> None:
        super().__init__()
        self.running: frozenset[tuple[ItemKind, str]] = frozenset()
        self.mode: ModeView | None = None
        """The mode the tools are shown of; None: all of them."""
        self._modes: tuple[ModeView, ...] = ()
        self._items: tuple[CatalogueItem, ...] = ()
        self._rows: list[CatalogueRow] = []
        self._folded: frozenset[ItemKind] = frozenset()
        self._query = ""
        self._announced: tuple[ItemKind, str] | None = None

    @property
    def row_count(self) -> int:
        """Headings, items and reasons."""
        return len(self._rows)

    @property
    def item(self) -> CatalogueItem | None:
        """The item under the cursor."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        return None if row is None or isinstance(row, GroupRow) else row.item

    def load(self, items: tuple[CatalogueItem, ...], modes: tuple[ModeView, ...] = ()) -> None:
        """Show other items; the cursor stays on the one it was on, and the mode the one it was."""
        self._items, self._modes = items, modes
        chosen = "" if self.mode is None else self.mode.name
        self.mode = next((mode for mode in modes if mode.name == chosen), None)
        self._lay_out(self.item)

    def filter(self, query: str) -> None:
        """Keep what matches; the cursor goes to the best match."""
        self._query = query
        self._lay_out(None if query else self.item)

    def see_in(self, mode: ModeView | None) -> None:
        """Show the tools of a mode, or all."""
        self.mode = mode
        self._lay_out(self.item)

    def unhide(self, item: CatalogueItem) -> None:
        """Drop filter and mode, unfold the item's group, and put the cursor on it."""
        self._query, self._folded, self.mode = "", self._folded - {item.kind}, None
        self._lay_out(item)

    def show_running(self, running: frozenset[tuple[ItemKind, str]]) -> None:
        """Mark the items with a call under way."""
        if running != self.running:
            self.running = running
            self.refresh()

    def select(self, kind: ItemKind, name: str) -> bool:
        """Put the cursor on an item; False when it is not in sight."""
        at = self._find(kind, name)
        if at is not None:
            self.cursor = at
        return at is not None

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """A heading with its count, an item with its marks, or a reason."""
        row = self._rows[index]
        if isinstance(row, GroupRow):
            count = f"{row.shown}/{row.total}" if row.shown < row.total else str(row.total)
            title = f"{'▾' if row.is_open else '▸'} {TITLES[row.kind]}"
            mode = ""
            if self.mode is not None and row.kind is ItemKind.TOOL:
                mode = f" of {one_line(self.mode.name, max(4, width - cell_len(title) - len(count) - 6))}"
            yield title, "lines--head"
            yield mode, "lines--key"
            yield " " * max(1, width - cell_len(title + mode) - len(count) - 1) + count, "lines--muted"
        elif isinstance(row, ProblemRow):
            yield f"      {one_line(row.item.problem)}", "lines--warn" if row.item.stale else "lines--bad"
        else:
            yield from self._item_spans(row, width)

    def row_chosen(self, index: int) -> None:
        """Fold a group, or choose an item."""
        row = self._rows[index]
        if isinstance(row, GroupRow):
            self._folded = self._folded ^ {row.kind}
            self._lay_out(None, keep=True)
        else:
            self.post_message(self.Chosen(row.item))

    def watch_cursor(self) -> None:
        """Tell which item is under the cursor."""
        super().watch_cursor()
        self._announce()

    def action_cursor(self, by: int) -> None:
        """Move by items; reasons are passed over."""
        at = self.cursor + by
        while 0 <= at < len(self._rows) and isinstance(self._rows[at], ProblemRow):
            at += 1 if by > 0 else -1
        if 0 <= at < len(self._rows):
            self.cursor = at

    def action_fold(self) -> None:
        """Fold the group the cursor is in."""
        rows = self._rows[: self.cursor + 1]
        at = next((at for at in reversed(range(len(rows))) if isinstance(rows[at], GroupRow)), None)
        if at is not None and not self._query:
            group = self._rows[at]
            self.cursor = at
            if isinstance(group, GroupRow) and group.is_open:
                self.row_chosen(at)

    def action_cycle_policy(self) -> None:
        """Let the tool have its next policy."""
        if self.item is not None and self.item.kind is ItemKind.TOOL:
            self.post_message(self.PolicyAsked(self.item))
        else:
            self.notify("Only tools have a policy.", markup=False)

    @work(exclusive=True, group="menu")
    async def action_pick_mode(self) -> None:
        """Choose the mode whose tools are shown."""
        if not self._modes:
            self.notify('This server has no modes; "modes" in mcp.json names them.', markup=False)
            return
        from mcpdesk.tui.widgets.menu import Choice, Menu

        every = sum(item.kind is ItemKind.TOOL and not item.problem for item in self._items)
        modes = (None, *self._modes)
        choices = [Choice("all tools", 0, _tools(every), "0", help="What clients see without ?mode=.")]
        for number, mode in enumerate(self._modes, 1):
            missing = f", {len(mode.missing)} missing" if mode.missing else ""
            hint = _tools(len(mode.tools)) + missing
            text = mode.description or ", ".join(mode.tools)
            choices.append(Choice(mode.name, number, hint, str(number) if number < 10 else "", help=text))
        current = modes.index(self.mode) if self.mode in modes else 0
        chosen = await self.app.push_screen_wait(Menu("Tools of a mode", choices, cursor=current))
        if chosen is not None:
            self.see_in(modes[chosen])

    def action_unfold(self) -> None:
        """Unfold the group, or choose the item."""
        if self.cursor < len(self._rows):
            row = self._rows[self.cursor]
            if isinstance(row, GroupRow) and row.is_open:
                self.action_cursor(1)
            else:
                self.row_chosen(self.cursor)

    def _item_spans(self, row: ItemRow, width: int) -> Iterator[Span]:
        item = row.item
        mark, style = (_RUNNING, "lines--warn") if (item.kind, item.name) in self.running else _mark(item)
        yield f"  {mark} ", style
        glyphs = [badge for badge in badges(item) if badge.glyph]
        room = max(4, width - 4 - 2 * len(glyphs) - 1)
        text = one_line(label(item), room)
        plain = "lines--muted" if item.problem and not item.stale else ""
        hits = set(row.hits)
        for at, letter in enumerate(text) if hits else ():
            yield letter, "lines--hit" if at in hits else plain
        if not hits:
            yield text, plain
        yield " " * (room - cell_len(text)), ""
        for badge in glyphs:
            yield f" {badge.glyph}", badge.style

    def _lay_out(self, keep_item: CatalogueItem | None, keep: bool = False) -> None:
        self._rows = rows(items_in_mode(self.mode, self._items), self._query, self._folded)
        at = self._find(keep_item.kind, keep_item.name) if keep_item else None
        if at is None and not keep:
            at = next((at for at, row in enumerate(self._rows) if isinstance(row, ItemRow)), 0)
        self.rows_changed()
        if at is not None:
            self.cursor = at
        self._announced = None
        self._announce()

    def _find(self, kind: ItemKind, name: str) -> int | None:
        wanted = (kind, name)
        return next(
            (
                at
                for at, row in enumerate(self._rows)
                if isinstance(row, ItemRow) and (row.item.kind, row.item.name) == wanted
            ),
            None,
        )

    def _announce(self) -> None:
        item = self.item
        if item is not None and self._announced != (item.kind, item.name):
            self._announced = (item.kind, item.name)
            self.post_message(self.Highlighted(item))


class CataloguePane(Vertical):
    """Filter and rows."""

    DEFAULT_CSS = """
    CataloguePane > Input { background: transparent; padding: 0 1; }
    CataloguePane > Input:focus { background: $primary 20%; }
    """

    def compose(self) -> ComposeResult:
        """The filter above the rows."""
        yield LineField(placeholder="/ filter", compact=True, select_on_focus=False)
        yield CatalogueList()

    @property
    def rows(self) -> CatalogueList:
        """The rows."""
        return self.query_one(CatalogueList)

    @property
    def filter(self) -> Input:
        """The filter's input."""
        return self.query_one(Input)

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_filter", "Clear the filter", show=False)
    ]

    def reveal(self, item: CatalogueItem) -> None:
        """Put the cursor on an item, whatever filter or fold hides it."""
        if not self.rows.select(item.kind, item.name):
            self.filter.value = ""
            self.rows.unhide(item)

    def action_leave_filter(self) -> None:
        """Clear the filter and go back to the rows."""
        self.filter.value = ""
        self.rows.focus()

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Filter while typing."""
        event.stop()
        # In the rows' own name: a message that the parent causes is not passed on to it.
        self.rows.call_next(self.rows.filter, event.value)

    @on(Input.Submitted)
    def accept(self, event: Input.Submitted) -> None:
        """Enter goes to the rows, the filter stays."""
        event.stop()
        self.rows.focus()

    def key_down(self) -> None:
        """Down leaves the filter for the rows."""
        if self.filter.has_focus:
            self.rows.focus()


def _mark(item: CatalogueItem) -> Span:
    if item.problem:
        return (_STALE, "lines--warn") if item.stale else (_BROKEN, "lines--bad")
    return (_CHANGED, "lines--good") if item.changed else (" ", "")


def _tools(number: int) -> str:
    return f"{number} tool{'' if number == 1 else 's'}"
