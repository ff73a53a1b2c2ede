"""The sections of the activity screen: filter, list, and the selected row in full, or a lesson."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import SCROLL_BINDINGS, LineList
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

BESIDE = 150
"""Cells across from which the selected row stands in full beside the list instead of below it."""
Item = TypeVar("Item")
Row = TypeVar("Row")


class SectionList(LineList, Generic[Item, Row], inherit_bindings=False):
    """Rows of a section. Enter is left to the section, so that the footer names what it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding
        for binding in LineList.BINDINGS
        if not (isinstance(binding, Binding) and binding.key == "enter")
    ]

    class Moved(Message):
        """Another row is under the cursor, or the same row has other contents."""

    class Opened(Message):
        """The row under the cursor was chosen."""

    CLICKS_TO_CHOOSE = 2

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()
        self.now = 0.0
        """Unix time in seconds from which the ages in the rows are computed."""

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @abstractmethod
    def rows_of(self, items: Sequence[Item]) -> Sequence[Row]:
        """The rows of these items, in the order in which they are shown."""

    @abstractmethod
    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        """What identifies a row, then the keys of rows to select in its stead when it is gone."""

    def show(self, items: Sequence[Item], now: float) -> None:
        """Show these items; the selected row stays selected. `now` is Unix time in seconds."""
        wanted = () if self.selected is None else self.keys_of(self.selected)
        self.now, self.rows = now, self.rows_of(items)
        self.rows_changed()
        places = {self.keys_of(row)[0]: at for at, row in enumerate(self.rows)}
        self.cursor = next((places[key] for key in wanted if key in places), self.cursor)
        self.post_message(self.Moved())

    def tick(self, now: float) -> bool:
        """Update the ages in the rows; whether another second has begun."""
        if int(now) == int(self.now):
            return False
        self.now = now
        self.refresh()
        return True

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def row_chosen(self, index: int) -> None:
        self.post_message(self.Opened())


class Detail(VerticalScroll):
    """The selected row in full."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_BINDINGS

    def compose(self) -> ComposeResult:
        yield Static(markup=False)


class SectionLesson(Static, can_focus=True):
    """What an empty section explains. It takes the focus, so that the keys of the section work."""


class Section(Vertical):
    """What all sections have in common. `count` is what the tab shows beside the title."""

    title: ClassVar[str]
    can_filter: ClassVar[bool] = True
    lesson: ClassVar[tuple[str, str]]
    """Title and text shown while there is nothing else to show."""
    DEFAULT_CSS = """
    Section {
        height: 1fr;
        & > Input { display: none; border: none; height: 1; padding: 0 1; background: $panel; }
        & > Input:focus { border: none; }
        &.-filtering > Input { display: block; }
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
    filter_field = query_one(LineField)

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self.count = ""
        self.words: tuple[str, ...] = ()
        """Words that a row must contain to be shown, in lower case."""

    @abstractmethod
    def parts(self) -> Iterable[Widget]:
        """The list, and the selected row in full."""

    @property
    @abstractmethod
    def listing(self) -> Widget:
        """What has the focus first while there is something to show."""

    @property
    def entry(self) -> Widget:
        """What has the focus first: the list, or the lesson while there is nothing."""
        return self.query_one(SectionLesson) if self.has_class("-empty") else self.listing

    def set_empty(self, *, is_empty: bool) -> None:
        """Show the lesson or the list; the focus moves to what is shown."""
        if is_empty != self.has_class("-empty"):
            had_focus = self.has_focus_within
            self.set_class(is_empty, "-empty")
            if had_focus:
                self.call_after_refresh(self._focus_entry)

    def _focus_entry(self) -> None:
        if self.display:
            self.entry.focus()

    @abstractmethod
    def update_data(self, view: CoreView) -> None:
        """Fetch what has changed; called also while another section is shown."""

    def update_clock(self, view: CoreView, now: float) -> None:
        """Update what changes with time; called while the section is shown. `now` is Unix time in seconds."""

    def apply_filter(self) -> None:
        """Show only the rows with the words of the filter."""

    def compose(self) -> ComposeResult:
        yield LineField(placeholder="filter: words that must occur", compact=True)
        with Vertical(classes="body"):
            yield from self.parts()
        title, text = self.lesson
        lesson = SectionLesson(text, classes="lesson", markup=False)
        lesson.border_title = title
        yield lesson

    def has_words(self, *texts: str) -> bool:
        """Whether these texts of a row contain all words of the filter."""
        whole = " ".join(texts).lower() if self.words else ""
        return all(word in whole for word in self.words)

    def open_filter(self) -> None:
        """Go to the filter."""
        self.add_class("-filtering")
        self.filter_field.focus()

    def step_back(self) -> None:
        """Go from the detail to the list; from the list or the filter, drop the filter."""
        if self.listing.has_focus or self.filter_field.has_focus:
            self.remove_class("-filtering")
            self.filter_field.value = ""
        self.entry.focus()

    async def copy_one_of(self, choices: Sequence[Choice]) -> None:
        """Let the person choose a text, and copy it. Must run in a worker."""
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.words = tuple(event.value.lower().split())
        self.apply_filter()

    @on(Input.Submitted)
    def _filter_submitted(self, event: Input.Submitted) -> None:
        """Go back to the list; an empty filter is hidden."""
        event.stop()
        self.set_class(bool(self.words), "-filtering")
        self.listing.focus()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= BESIDE, "-beside")


class ListSection(Section, Generic[Item, Row]):
    """A section of items of one kind: their rows above, the selected one in full below."""

    list_type: ClassVar[type[SectionList[Any, Any]]]

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.items: Sequence[Item] = ()
        self._version: int | None = None

    @abstractmethod
    def version_of(self, view: CoreView) -> int:
        """A number that grows whenever an item changes."""

    @abstractmethod
    def fetch(self) -> Sequence[Item]:
        """All items as they are now."""

    @abstractmethod
    def count_of(self, items: Sequence[Item]) -> str:
        """What the tab shows beside the title."""

    @abstractmethod
    def texts_of(self, item: Item) -> Iterable[str]:
        """The texts of an item that the filter searches."""

    @abstractmethod
    def detail_of(self, row: Row) -> tuple[str, Content]:
        """Title and text of a row in full."""

    @abstractmethod
    def copies_of(self, row: Row) -> list[Choice]:
        """The texts of a row that can be copied; the value of each choice is the text."""

    def parts(self) -> Iterable[Widget]:
        yield self.list_type()
        yield Detail(classes="detail")

    @property
    def listing(self) -> SectionList[Item, Row]:
        return self.query_one(self.list_type)

    def update_data(self, view: CoreView) -> None:
        version = self.version_of(view)
        if version != self._version:
            self._version = version
            self.load(self.fetch())

    def update_clock(self, view: CoreView, now: float) -> None:
        self.listing.tick(now)

    def load(self, items: Sequence[Item]) -> None:
        """Show these items, as far as the filter admits them."""
        self.items = items
        self.count = self.count_of(items)
        self.set_empty(is_empty=not items)
        self.apply_filter()

    def apply_filter(self) -> None:
        shown = [item for item in self.items if self.has_words(*self.texts_of(item))]
        self.listing.show(shown, time.time())

    def action_open(self) -> None:
        """Go to the selected row in full."""
        self.query_one(Detail).focus()

    @work
    async def action_copy(self) -> None:
        """Copy a text of the selected row."""
        if (row := self.listing.selected) is not None:
            await self.copy_one_of(self.copies_of(row))

    @on(SectionList.Opened)
    def _row_opened(self) -> None:
        self.action_open()

    @on(SectionList.Moved)
    def _row_changed(self) -> None:
        self.show_detail()

    def show_detail(self) -> None:
        """Show the selected row in full."""
        detail, row = self.query_one(".detail"), self.listing.selected
        detail.display = row is not None
        if row is not None:
            title, text = self.detail_of(row)
            detail.border_title = Content(title)
            detail.query_one(Static).update(text)
