"""Catalogue of a server: foldable groups with a live filter. Invalid items are listed with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from msgspec import Struct
from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.fuzzy import Matcher
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Input

from mcpdesk.features import features_with
from mcpdesk.link.values import CatalogueItem, ItemKind, ModeView, Policy
from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.safe_text import REASON_TAIL, one_line, shortened
from mcpdesk.tui.widgets.fields import SearchField
from mcpdesk.tui.widgets.line_list import LineList, Span

MIN_WIDTH_WITH_DESCRIPTION = 60
"""Minimum width in cells of a row that also shows the beginning of the item's description."""
_MAX_LABEL_WIDTH = 30
"""Maximum width in cells of the label before a description."""
BUILT_IN = "built-in"
"""Source of the built-in tools, and the key of their group."""
_GROUP_TITLES: dict[str, str] = {
    ItemKind.TOOL: "Tools",
    BUILT_IN: "Built-in tools",
    ItemKind.RESOURCE: "Resources",
    ItemKind.TEMPLATE: "Templates",
    ItemKind.PROMPT: "Prompts",
    ItemKind.SKILL: "Skills",
}
"""Kind of items, or `BUILT_IN` -> heading of the group."""


class Badge(NamedTuple):
    """Annotation or policy as a word and a glyph. `style` is a component class of lines."""

    word: str
    glyph: str
    style: str


_ANNOTATION_BADGES = {
    "readOnlyHint": Badge("read-only", "◇", "lines--muted"),
    "destructiveHint": Badge("destructive", "!", "lines--bad"),
    "openWorldHint": Badge("open world", "↗", "lines--muted"),
    "idempotentHint": Badge("idempotent", "", "lines--muted"),
}
_POLICY_GLYPHS = {Policy.ASK: ("?", "lines--warn"), Policy.DENY: ("⊘", "lines--bad")}
"""Policy -> glyph and its style."""


def badges(item: CatalogueItem) -> list[Badge]:
    """Return the policy and the annotations of a tool, or the number of files of a skill."""
    if item.kind is ItemKind.SKILL and item.definition:
        files = item.definition["resources"]
        word = counted(len(files), "file") if isinstance(files, list) else "cannot be verified"
        return [Badge(word, "", "lines--muted")]
    annotations = item.definition.get("annotations") or {}
    item_badges = [badge for key, badge in _ANNOTATION_BADGES.items() if annotations.get(key) is True]
    if item.policy in _POLICY_GLYPHS:
        origin = f" ({item.policy_origin})" if item.policy_origin else ""
        item_badges.insert(0, Badge(f"{item.policy}{origin}", *_POLICY_GLYPHS[item.policy]))
    return item_badges + _feature_badges(item)


def _feature_badges(item: CatalogueItem) -> list[Badge]:
    marks = (feature.item_mark(item) for feature in features_with("item_mark"))
    return [Badge(mark.word, mark.glyph, "lines--muted") for mark in marks if mark is not None]


def items_in_mode(mode: ModeView | None, items: Sequence[CatalogueItem]) -> list[CatalogueItem]:
    """Return the items of a mode: its tools in its order, then missing tools, then all items that are not
    tools. Return all items if the mode is None.
    """
    if mode is None:
        return list(items)
    tools = {item.name: item for item in items if item.kind is ItemKind.TOOL}
    offered_tools = [tools[name] for name in mode.tools if name in tools]
    missing_tools = [
        tools.get(name) or CatalogueItem(ItemKind.TOOL, name, name, problem=reason)
        for name, reason in mode.missing
    ]
    other_items = [item for item in items if item.kind is not ItemKind.TOOL]
    return offered_tools + missing_tools + other_items


class GroupRow(Struct, frozen=True):
    """Heading of a group, with the number of all its items and the number of matching items."""

    group: str
    """Kind of the items, or `BUILT_IN`."""
    item_count: int
    match_count: int
    is_open: bool


class ItemRow(Struct, frozen=True):
    """Row of an item. `hits` are the positions in its label that the filter matched."""

    item: CatalogueItem
    hits: tuple[int, ...] = ()


class ProblemRow(Struct, frozen=True):
    """Problem of the item above."""

    item: CatalogueItem


CatalogueRow = GroupRow | ItemRow | ProblemRow


def group_of(item: CatalogueItem) -> str:
    """Return the group of an item: its kind, or `BUILT_IN`."""
    return BUILT_IN if item.kind is ItemKind.TOOL and item.source == BUILT_IN else item.kind


def catalogue_rows(
    items: Sequence[CatalogueItem], query: str, folded: frozenset[str], *, has_built_in_group: bool = True
) -> Iterator[CatalogueRow]:
    """Yield headings, items and problems.

    With a filter, the items are sorted by how well they match, all groups are unfolded, and groups without a
    match are left out. Built-in tools are a separate group if `has_built_in_group`. This group is never
    folded if the server has no other tools.
    """
    groups: dict[str, list[CatalogueItem]] = {key: [] for key in _GROUP_TITLES}
    for item in items:
        groups[group_of(item) if has_built_in_group else item.kind].append(item)
    if not groups[ItemKind.TOOL]:
        folded -= {BUILT_IN}
    for key, group in groups.items():
        rows = _matching_rows(group, query.strip()) if query.strip() else [ItemRow(item) for item in group]
        if not rows:
            continue
        is_open = bool(query.strip()) or key not in folded
        yield GroupRow(key, len(group), len(rows), is_open)
        for row in rows if is_open else ():
            yield row
            if row.item.problem:
                yield ProblemRow(row.item)


def _label(item: CatalogueItem) -> str:
    """Return the name of a tool or prompt, and the title of any other item."""
    return item.name if item.kind in (ItemKind.TOOL, ItemKind.PROMPT) else item.title


def _matching_rows(items: Sequence[CatalogueItem], query: str) -> list[ItemRow]:
    """Return the items that match a query, best first: by label, else by name and title, else by
    description.
    """
    matcher, needle = Matcher(query), query.casefold()
    scored_rows = []
    for item in items:
        score, hits = matcher.fuzzy_search.match(query, _label(item))
        if score <= 0:
            score = 0.5 * matcher.match(f"{item.name} {item.title}")
            score = score or (0.1 if needle in item.description.casefold() else 0.0)
            hits = ()
        if score > 0:
            scored_rows.append((score, ItemRow(item, tuple(hits))))
    return [row for _, row in sorted(scored_rows, key=lambda pair: -pair[0])]


class CatalogueList(LineList):
    """Rows of the catalogue. Posts `Highlighted` when the cursor moves, and `Chosen` on enter."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("catalogue")
    DEFAULT_CSS = "CatalogueList { height: 1fr; }"

    @dataclass
    class Highlighted(Message):
        """The cursor is on an item."""

        item: CatalogueItem

    @dataclass
    class Chosen(Message):
        """Enter was pressed on an item, or it was clicked."""

        item: CatalogueItem

    @dataclass
    class PolicyAsked(Message):
        """The person wants to change the policy of a tool."""

        item: CatalogueItem

    def __init__(self) -> None:
        super().__init__()
        self._running_items: frozenset[tuple[ItemKind, str]] = frozenset()
        self._mode: ModeView | None = None
        """Mode whose tools are shown, or None for all tools."""
        self._modes: tuple[ModeView, ...] = ()
        self._items: tuple[CatalogueItem, ...] = ()
        self._rows: list[CatalogueRow] = []
        self._label_width = 0
        """Width in cells of the longest label."""
        self._folded_groups: frozenset[str] = frozenset({BUILT_IN})
        self._query = ""

    @property
    def row_count(self) -> int:
        """Number of headings, items and problems."""
        return len(self._rows)

    @property
    def item(self) -> CatalogueItem | None:
        """Item under the cursor, or None."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        return None if row is None or isinstance(row, GroupRow) else row.item

    def load(self, items: tuple[CatalogueItem, ...], modes: tuple[ModeView, ...] = ()) -> None:
        """Replace the items. The cursor stays on its item or heading, and the mode stays selected."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        group = row.group if isinstance(row, GroupRow) else ""
        had_modes, self._items, self._modes = bool(self._modes), items, modes
        if had_modes != bool(modes):
            self.refresh_bindings()
        if self._mode is not None:
            name = self._mode.name
            self._mode = next((mode for mode in modes if mode.name == name), None)
        self._rebuild_rows(self.item, group)

    def filter(self, query: str) -> None:
        """Show only matching items. The cursor moves to the best match."""
        self._query = query
        self._rebuild_rows(None if query else self.item)

    def unhide(self, item: CatalogueItem) -> None:
        """Clear filter and mode, unfold the item's group, and put the cursor on the item."""
        self._query, self._folded_groups, self._mode = "", self._folded_groups - {group_of(item)}, None
        self._rebuild_rows(item)

    def show_running(self, running: frozenset[tuple[ItemKind, str]]) -> None:
        """Mark the items with a running call."""
        if running != self._running_items:
            self._running_items = running
            self.refresh()

    def select(self, kind: ItemKind, name: str) -> bool:
        """Put the cursor on an item. Return False if the item is hidden."""
        for index, row in enumerate(self._rows):
            if isinstance(row, ItemRow) and (row.item.kind, row.item.name) == (kind, name):
                self.cursor = index
                return True
        return False

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """Yield a heading with its count, an item with its marks, or a problem."""
        row = self._rows[index]
        if isinstance(row, GroupRow):
            yield from self._heading(row, width)
        elif isinstance(row, ProblemRow):
            reason = shortened(row.item.problem, max(1, width - 6), REASON_TAIL)
            yield f"      {reason}", "lines--warn" if row.item.stale else "lines--bad"
        else:
            yield from self._item_spans(row, width)

    def choose_row(self, index: int) -> None:
        """Fold or unfold a group, or choose an item."""
        row = self._rows[index]
        if isinstance(row, GroupRow):
            self._folded_groups = self._folded_groups ^ {row.group}
            self._set_rows()
        else:
            self.post_message(self.Chosen(row.item))

    def watch_cursor(self) -> None:
        """Post `Highlighted` if the cursor is on an item."""
        super().watch_cursor()
        if self.item is not None:
            self.post_message(self.Highlighted(self.item))

    def action_cursor(self, by: int) -> None:
        """Move the cursor by `by` rows. Rows of problems are skipped."""
        index = self.cursor + by
        while 0 <= index < len(self._rows) and isinstance(self._rows[index], ProblemRow):
            index += 1 if by > 0 else -1
        if 0 <= index < len(self._rows):
            self.cursor = index

    def action_open(self) -> None:
        """Choose the item, or fold or unfold the group."""
        self.action_choose()

    def action_fold(self) -> None:
        """Fold the group that contains the cursor. While there is a filter, all groups stay unfolded."""
        for index in reversed(range(min(self.cursor + 1, len(self._rows)))):
            row = self._rows[index]
            if isinstance(row, GroupRow):
                if row.is_open and not self._query:
                    self.cursor = index
                    self.choose_row(index)
                return

    def action_unfold(self) -> None:
        """Unfold the group, or choose the item."""
        if self.cursor < len(self._rows):
            row = self._rows[self.cursor]
            if isinstance(row, GroupRow) and row.is_open:
                self.action_cursor(1)
            else:
                self.choose_row(self.cursor)

    def action_choose_policy(self) -> None:
        """Post `PolicyAsked` if the cursor is on a tool."""
        if self.item is not None and self.item.kind is ItemKind.TOOL:
            self.post_message(self.PolicyAsked(self.item))
        else:
            self.notify("Only tools have a policy.", markup=False)

    @work(exclusive=True, group="menu")
    async def action_pick_mode(self) -> None:
        """Choose the mode whose tools are shown."""
        from mcpdesk.tui.widgets.menu import Choice, Menu

        if not self._modes:
            self.notify('This server has no modes; "modes" in mcp.json names them.', markup=False)
            return
        tool_count = sum(item.kind is ItemKind.TOOL and not item.problem for item in self._items)
        modes = (None, *self._modes)
        choices = [
            Choice(
                "all tools",
                0,
                counted(tool_count, "tool"),
                "0",
                help="Tools that clients see without ?mode=.",
            )
        ]
        for number, mode in enumerate(self._modes, 1):
            hint = counted(len(mode.tools), "tool")
            if mode.missing:
                hint += f", {len(mode.missing)} missing"
            key = str(number) if number < 10 else ""
            help_text = mode.description or ", ".join(mode.tools)
            choices.append(Choice(mode.name, number, hint, key, help=help_text))
        current_index = modes.index(self._mode) if self._mode in modes else 0
        menu = Menu("Tools of a mode", choices, cursor=current_index)
        chosen_index = await self.app.push_screen_wait(menu)
        if chosen_index is not None:
            self._mode = modes[chosen_index]
            self._rebuild_rows(self.item)

    def _heading(self, row: GroupRow, width: int) -> Iterator[Span]:
        match_note = f"{row.match_count}/" if row.match_count < row.item_count else ""
        count_text = f"{match_note}{row.item_count}"
        title = f"{'▾' if row.is_open else '▸'} {_GROUP_TITLES[row.group]}"
        mode_note = ""
        if self._mode is not None and row.group == ItemKind.TOOL:
            name_width = max(4, width - cell_len(title) - len(count_text) - 6)
            mode_note = f" of {one_line(self._mode.name, name_width)}"
        gap = " " * max(1, width - cell_len(title + mode_note) - len(count_text) - 1)
        yield title, "lines--head"
        yield mode_note, "lines--key"
        yield gap + count_text, "lines--muted"

    def _item_spans(self, row: ItemRow, width: int) -> Iterator[Span]:
        item = row.item
        is_running = (item.kind, item.name) in self._running_items
        mark, style = ("…", "lines--warn") if is_running else _state_mark(item)
        yield f"  {mark} ", style
        glyph_badges = [badge for badge in badges(item) if badge.glyph]
        label_width = free_width = max(4, width - 4 - 2 * len(glyph_badges) - 1)
        description = ""
        if width >= MIN_WIDTH_WITH_DESCRIPTION:
            label_width = min(_MAX_LABEL_WIDTH, max(self._label_width, 4))
            description = one_line(item.description, free_width - label_width - 2)
        # The hits are positions in the label, so its middle cannot be cut.
        text = one_line(_label(item), label_width) if row.hits else shortened(_label(item), label_width)
        label_style = "lines--muted" if item.problem and not item.stale else ""
        if row.hits:
            for index, letter in enumerate(text):
                yield letter, "lines--hit" if index in row.hits else label_style
        else:
            yield text, label_style
        yield " " * (label_width - cell_len(text)), ""
        if label_width < free_width:
            gap = free_width - label_width - 2 - cell_len(description)
            yield f"  {description}{' ' * gap}", "lines--muted"
        for badge in glyph_badges:
            yield f" {badge.glyph}", badge.style

    def _set_rows(self) -> None:
        items = items_in_mode(self._mode, self._items)
        # The tools of a mode stay in the order of the mode, so built-in tools are not a separate group.
        self._rows = list(
            catalogue_rows(items, self._query, self._folded_groups, has_built_in_group=self._mode is None)
        )
        self._label_width = max((cell_len(_label(item)) for item in items), default=0)
        self.rows_changed()

    def _rebuild_rows(self, item: CatalogueItem | None, group: str = "") -> None:
        """Rebuild the rows. Put the cursor on this item, else on the heading of this group, else on the first
        item.
        """
        self._set_rows()
        if item is None or not self.select(item.kind, item.name):
            headings = [
                index
                for index, row in enumerate(self._rows)
                if isinstance(row, GroupRow) and row.group == group
            ]
            item_rows = [index for index, row in enumerate(self._rows) if isinstance(row, ItemRow)]
            self.cursor = next(iter(headings + item_rows), 0)
        self.watch_cursor()


def _state_mark(item: CatalogueItem) -> Span:
    """Return the glyph before an item, which means: previous version still served, invalid, changed, or
    none of these.
    """
    if item.problem:
        return ("◌", "lines--warn") if item.stale else ("✕", "lines--bad")
    return ("●", "lines--good") if item.changed else (" ", "")


class CataloguePane(Vertical):
    """Filter and rows of the catalogue."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave_filter", "Clear the filter", show=False)
    ]
    DEFAULT_CSS = """
    CataloguePane > Input { background: transparent; padding: 0 1; }
    CataloguePane > Input:focus { background: $primary 20%; }
    """
    rows = query_one(CatalogueList)
    filter = query_one(SearchField)

    def compose(self) -> ComposeResult:
        """Compose the filter above the rows."""
        yield SearchField(placeholder="/ filter", compact=True, select_on_focus=False)
        yield CatalogueList()

    def reveal(self, item: CatalogueItem) -> None:
        """Put the cursor on an item, even if a filter or a fold hides it."""
        if not self.rows.select(item.kind, item.name):
            self.filter.value = ""
            self.rows.unhide(item)

    def action_leave_filter(self) -> None:
        """Clear the filter and focus the rows."""
        self.filter.value = ""
        self.rows.focus()

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        """Apply the filter during typing."""
        event.stop()
        # The rows make this call themselves. Otherwise this pane would be the sender of their messages, and
        # Textual does not deliver a message to the parent that sent it.
        self.rows.call_next(self.rows.filter, from_field(event.value))

    @on(Input.Submitted)
    def _filter_submitted(self, event: Input.Submitted) -> None:
        """Focus the rows on enter. The filter stays."""
        event.stop()
        self.rows.focus()

    def key_down(self) -> None:
        """Move the focus from the filter to the rows."""
        if self.filter.has_focus:
            self.rows.focus()
