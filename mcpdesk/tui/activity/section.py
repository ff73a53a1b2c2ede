"""The sections of the activity screen: filter, list, and the selected row in full, or a lesson."""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.widgets.fields import FilterPane, has_words
from mcpdesk.tui.widgets.line_list import SCROLL_BINDINGS, LineList, RowList, Span
from mcpdesk.tui.widgets.menu import Choice

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

BESIDE = 150
"""Cells across from which the selected row stands in full beside the list instead of below it."""
Item = TypeVar("Item")
Row = TypeVar("Row")
Found = TypeVar("Found")


class SectionList(RowList[Row], Generic[Row], inherit_bindings=False):
    """Rows drawn by their section. Enter is left to the section, so that the footer names what it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding
        for binding in LineList.BINDINGS
        if not (isinstance(binding, Binding) and binding.key == "enter")
    ]

    def __init__(self, section: Section[Any, Row]) -> None:
        super().__init__()
        self._section = section
        self.clicks_to_choose = section.clicks_to_open

    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        return self._section.keys_of(row)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        return self._section.spans(self.rows[index], width)


class Detail(VerticalScroll):
    """The selected row in full."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_BINDINGS

    def compose(self) -> ComposeResult:
        yield Static(markup=False)


class SectionLesson(Static, can_focus=True):
    """What an empty section explains. It takes the focus, so that the keys of the section work."""


class Section(FilterPane, Generic[Item, Row]):
    """A section of items of one kind: their rows above, the selected one in full below."""

    title: ClassVar[str]
    lesson: ClassVar[tuple[str, str]]
    """Title and text shown while there is nothing else to show."""
    clicks_to_open: ClassVar[int] = 2
    DEFAULT_CSS = """
    Section {
        height: 1fr;
        & > .body { height: 1fr; }
        & > .body > LineList { height: auto; max-height: 45%; min-height: 2; }
        & > .body > .detail {
            height: 1fr; padding: 0 1; scrollbar-size-vertical: 1;
            border-top: solid $border-blurred; border-title-color: $text-muted;
        }
        & > .body > .detail:focus, & > .body > .detail:focus-within {
            border-top: solid $border; border-title-color: $text-primary;
        }
        & > .body > .detail Static { height: auto; }
        &.-beside > .body { layout: horizontal; }
        &.-beside > .body > LineList { width: 1fr; height: 1fr; max-height: 100%; }
        &.-beside > .body > .detail { width: 1fr; height: 1fr; }
        & > .lesson {
            display: none; height: auto; margin: 1 2; padding: 1 2; border: round $border-blurred;
            border-title-color: $text-primary;
        }
        & > .lesson:focus { border: round $border; }
        &.-empty > .lesson { display: block; }
        &.-empty > .body { display: none; }
    }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__("filter: words that must occur")
        self.link = link
        self.items: Sequence[Item] = ()
        self.count = ""
        """What the tab shows beside the title."""
        self.now = 0.0
        """Unix time in seconds from which the ages in the rows are computed."""
        self._version: Hashable = None
        self._due: dict[str, float] = {}
        """What is read regularly -> when it is due next, in monotonic seconds."""

    @abstractmethod
    def version_of(self, view: CoreView) -> Hashable:
        """A value that differs whenever an item has changed."""

    @abstractmethod
    def fetch(self) -> Sequence[Item]:
        """All items as they are now."""

    @abstractmethod
    def count_of(self, items: Sequence[Item]) -> str:
        """What the tab shows beside the title."""

    @abstractmethod
    def rows_of(self, items: Sequence[Item]) -> Sequence[Row]:
        """The rows of these items, in the order in which they are shown."""

    @abstractmethod
    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        """What identifies a row, then the keys of rows to select in its stead when it is gone."""

    @abstractmethod
    def spans(self, row: Row, width: int) -> Iterable[Span]:
        """What a row shows, as `LineList.spans`."""

    @abstractmethod
    def texts_of(self, item: Item) -> Iterable[str]:
        """The texts of an item that the filter searches."""

    @abstractmethod
    def detail_of(self, row: Row) -> tuple[str, Content]:
        """Title and text of a row in full."""

    @abstractmethod
    def copies_of(self, row: Row) -> list[Choice]:
        """The texts of a row that can be copied; the value of each choice is the text."""

    def make_detail(self) -> Widget:
        """The widget for the selected row in full. Its first `Static` shows the text of `detail_of`."""
        return Detail(classes="detail")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        with Vertical(classes="body"):
            yield SectionList(self)
            yield self.make_detail()
        title, text = self.lesson
        lesson = SectionLesson(text, classes="lesson", markup=False)
        lesson.border_title = title
        yield lesson

    @property
    def listing(self) -> SectionList[Row]:
        return self.query_one(SectionList)

    @property
    def entry(self) -> Widget:
        """What has the focus first: the list, or the lesson while there is nothing."""
        return self.query_one(SectionLesson) if self.has_class("-empty") else self.listing

    def update_data(self, view: CoreView) -> None:
        """Fetch what has changed; called also while another section is shown."""
        version = self.version_of(view)
        if version != self._version:
            self._version = version
            self.load()

    def load(self) -> None:
        """Fetch the items and show those that the filter admits."""
        self.items = self.fetch()
        self.count = self.count_of(self.items)
        if (is_empty := not self.items) != self.has_class("-empty"):
            had_focus = self.has_focus_within
            self.set_class(is_empty, "-empty")
            if had_focus:
                self.call_after_refresh(self._focus_entry)
        self.apply_filter()

    def _focus_entry(self) -> None:
        if self.display:
            self.entry.focus()

    def apply_filter(self) -> None:
        self.now = time.time()
        shown = [item for item in self.items if has_words(self.words, self.texts_of(item))]
        self.listing.show(self.rows_of(shown))

    def update_clock(self, view: CoreView, now: float) -> None:
        """Update what changes with time; called while the section is shown. `now` is Unix time in seconds."""
        if int(now) != int(self.now):
            self.now = now
            self.update_ages()

    def update_ages(self) -> None:
        """Draw what is computed from `now` again; called once a second."""
        self.listing.refresh()

    def read(
        self, what: str, period_s: float, source: Callable[[], Found], show: Callable[[Found], None]
    ) -> None:
        """Call `source` in a thread, then `show` with what it returned.

        Does nothing while a call for `what` is under way, and for `period_s` seconds after it.
        """
        if time.monotonic() >= self._due.get(what, 0.0):
            self._due[what] = math.inf
            self.run_worker(self._read(what, period_s, source, show))

    async def _read(
        self, what: str, period_s: float, source: Callable[[], Found], show: Callable[[Found], None]
    ) -> None:
        try:
            found = await asyncio.to_thread(source)
        finally:
            self._due[what] = time.monotonic() + period_s
        with suppress(NoMatches):  # the screen may be taken down meanwhile
            show(found)

    def read_now(self, what: str) -> None:
        """Let the next call of `read` for `what` not wait for its time."""
        self._due.pop(what, None)

    def step_back(self) -> None:
        """Go from the detail to the list; from the list or the filter, drop the filter."""
        if self.listing.has_focus or self.filter_field.has_focus:
            self.close_filter()
        self.entry.focus()

    def action_open(self) -> None:
        """Go to the selected row in full."""
        self.query_one(".detail").focus()

    @work
    async def action_copy(self) -> None:
        """Copy a text of the selected row."""
        if (row := self.listing.selected) is not None:
            await self.app.copy_one_of(self.copies_of(row))

    @on(RowList.Opened)
    def _row_opened(self) -> None:
        self.action_open()

    @on(RowList.Moved)
    def _row_changed(self) -> None:
        self.show_detail()

    def show_detail(self) -> None:
        """Show the selected row in full."""
        detail, row = self.query_one(".detail"), self.listing.selected
        detail.display = row is not None
        if row is not None:
            title, text = self.detail_of(row)
            detail.border_title = Content(title)
            detail.query(Static).first().update(text)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= BESIDE, "-beside")
