"""Panes with a filtered list. A section also shows details of the selected row, or a text if it is empty."""

from __future__ import annotations

import asyncio
import math
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.widgets.beside import ListWithDetails, has_room_beside
from mcpdesk.tui.widgets.fields import SearchField
from mcpdesk.tui.widgets.line_list import CURSOR_BINDINGS, SCROLL_BINDINGS, RowList, Span
from mcpdesk.tui.widgets.menu import Choice

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

DIGITS = re.compile(r"\d")
"""Matches a digit. Texts that differ only in digits have the same width."""
MIN_TICK_S, MAX_TICK_S = 0.05, 60.0
"""Limits of the seconds until ages are drawn again, even if the system clock is changed."""
ROWLESS_ACTIONS = ("back", "add")
"""Actions of sections that are possible without rows."""
Row = TypeVar("Row")
ReadResult = TypeVar("ReadResult")


def has_words(words: Collection[str], texts: Iterable[str]) -> bool:
    """Return True if the texts of a row together contain all `words`. The words are in lower case."""
    text = " ".join(texts).lower() if words else ""
    return all(word in text for word in words)


class FilterPane(ListWithDetails, Vertical):
    """Pane with a list, and a field above it that filters the list by words.

    The field is hidden while it is not used.
    """

    DEFAULT_CSS = """
    FilterPane > LineField { display: none; border: none; height: 1; padding: 0 1; background: $panel; }
    FilterPane > LineField:focus { border: none; }
    FilterPane.-filtering > LineField { display: block; }
    """

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.filter_field = SearchField(placeholder=placeholder, compact=True)
        self.words: tuple[str, ...] = ()
        """Words, in lower case, that a shown row must contain."""

    @property
    @abstractmethod
    def listing(self) -> Widget:
        """List of the pane."""

    @abstractmethod
    def apply_filter(self) -> None:
        """Show only the rows that contain all `words`. A subclass may interpret the text in another way."""

    def compose(self) -> ComposeResult:
        yield self.filter_field

    def action_filter(self) -> None:
        """Focus the field.

        The focus moves at once, so that no letter of the filter is taken as a key.
        """
        self.add_class("-filtering")
        self.screen.set_focus(self.filter_field)

    def close_filter(self) -> None:
        """Show all rows, and hide the field."""
        self.remove_class("-filtering")
        self.filter_field.value = ""

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.words = tuple(from_field(event.value).lower().split())
        self.apply_filter()

    @on(Input.Submitted)
    def _filter_submitted(self, event: Input.Submitted) -> None:
        """Focus the list. If the filter is empty, hide the field."""
        event.stop()
        self.set_class(bool(self.words), "-filtering")
        self.listing.focus()


class SectionList(RowList[Row], Generic[Row], inherit_bindings=False):
    """Rows that their section draws. The section binds Enter, because its effect differs between sections.

    In a section that Enter leaves, the list binds Enter while the details are hidden. Enter then opens the
    details.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*CURSOR_BINDINGS, *bindings_for("section_list")]

    def __init__(self, section: Section[Row]) -> None:
        super().__init__()
        self.add_class("list-part")
        self._section = section
        self.clicks_to_choose = section.clicks_to_open

    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        return self._section.keys_of(row)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        return self._section.spans(self.rows[index], width)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable `details` while the details are shown, or if Enter of the section opens them."""
        return action != "details" or self._section.offers_details

    def action_details(self) -> None:
        """Show the details in the place of the list."""
        self._section.focus_detail()


class Detail(VerticalScroll):
    """Details of the selected row."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_BINDINGS

    class Resized(Message):
        """The size has changed, for example because the list above has more or fewer rows."""

    def compose(self) -> ComposeResult:
        yield Static(markup=False)

    def on_resize(self) -> None:
        self.post_message(self.Resized())


class EmptySectionText(Static, can_focus=True):
    """Text in an empty section. It can have the focus, so that the keys of the section work."""


class Section(FilterPane, Generic[Row]):
    """Pane with rows of one kind, and details of the selected row."""

    title: ClassVar[str]
    empty_message: ClassVar[tuple[str, str]]
    """Title and text shown while the section is empty."""
    clicks_to_open: ClassVar[int] = 2
    may_be_beside: ClassVar[bool] = True
    """True if the details are beside the list in a pane that is wide enough. Otherwise they are below it."""
    may_take_turns: ClassVar[bool] = True
    """True if the details take the place of the list in a small pane. Otherwise they are below it."""
    opens_details: ClassVar[bool] = True
    """True if Enter on a row opens its details. Otherwise, it acts on the row or leaves the section."""
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
        & > .body > .detail.-blank { display: none; }
        &.-turns > .body > LineList { height: 1fr; max-height: 100%; }
        &.-beside > .body { layout: horizontal; }
        &.-beside > .body > LineList { width: 3fr; height: 1fr; max-height: 100%; }
        &.-beside > .body > .detail { width: 2fr; height: 1fr; }
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
        self.rows: Sequence[Row] = ()
        """All rows, including those that the filter hides."""
        self.count = ""
        """Text after the title on the tab, usually a number of rows."""
        self.now = 0.0
        """Unix time in seconds that the ages in the rows refer to."""
        self._version: object = None
        """Value of `version_of` when the rows were loaded."""
        self._detail_key: Hashable = None
        """Key of the row whose details are shown."""
        self._next_age_change = math.inf
        """Unix time in seconds of the next change of a shown age, or infinity if no age is shown."""
        self._next_reads: dict[str, float] = {}
        """Monotonic time from which each regular read may run again, by name of the read."""

    @abstractmethod
    def version_of(self, view: CoreView) -> object:
        """Return a value that changes whenever a row changes."""

    @abstractmethod
    def fetch(self) -> Sequence[Row]:
        """Return all current rows, in display order."""

    def count_of(self, rows: Sequence[Row]) -> str:
        """Return the text that the tab shows beside the title."""
        return ""

    @abstractmethod
    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        """Return the key of a row, and then keys of rows to select instead if that row no longer exists."""

    @abstractmethod
    def spans(self, row: Row, width: int) -> Iterable[Span]:
        """Return the contents of a row, as `LineList.spans` does."""

    @abstractmethod
    def texts_of(self, row: Row) -> Iterable[str]:
        """Return the texts of a row that the filter searches."""

    @abstractmethod
    def detail_of(self, row: Row) -> tuple[str, Content]:
        """Return title and text of the details of a row."""

    @abstractmethod
    def copy_choices(self, row: Row) -> list[Choice]:
        """Return the texts of a row that can be copied. The value of each choice is the text."""

    def parts(self) -> Iterable[Widget]:
        """Yield the list and the details. The first `Static` in the details shows the text of `detail_of`."""
        yield SectionList(self)
        yield Detail(classes="detail detail-part")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        with Vertical(classes="body"):
            yield from self.parts()
        title, text = self.empty_message
        empty_text = EmptySectionText(text, classes="lesson", markup=False)
        empty_text.border_title = title
        yield empty_text

    @property
    def listing(self) -> SectionList[Row]:
        return self.query_one(SectionList)

    @property
    def entry(self) -> Widget:
        """Widget that gets the focus first: the list, or the text of an empty section."""
        return self.query_one(EmptySectionText) if self.has_class("-empty") else self.listing

    @property
    def detail_cells(self) -> int:
        """Width of a line of the details, or of the section before the details are laid out."""
        width = self.query_one(".detail").scrollable_content_region.width
        return max(1, width or self.size.width - 3)

    @property
    def must_take_turns(self) -> bool:
        return self.may_take_turns and super().must_take_turns

    @property
    def offers_details(self) -> bool:
        """True if the list hides the details of the selected row, and Enter does not open them."""
        return self.hides_details and not self.opens_details and self.listing.selected is not None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the actions on rows without rows, and `open` in the focused details that it opens."""
        if action == "open" and self.opens_details and self.query_one(".detail").has_focus_within:
            return False
        return action in ROWLESS_ACTIONS or not self.has_class("-empty")

    def update_data(self, view: CoreView) -> None:
        """Load the rows if they have changed. Called even while another section is shown."""
        version = self.version_of(view)
        if version != self._version:
            self._version = version
            self.load()

    def load(self) -> None:
        """Fetch the rows and show those that match the filter."""
        self.rows = self.fetch()
        self.count = self.count_of(self.rows)
        if (is_empty := not self.rows) != self.has_class("-empty"):
            had_focus = self.has_focus_within
            self.set_class(is_empty, "-empty")
            self.refresh_bindings()
            if had_focus:
                self.call_after_refresh(self._focus_entry)
        self.apply_filter()

    def _focus_entry(self) -> None:
        if self.display:
            self.entry.focus()

    def apply_filter(self) -> None:
        self._set_now(time.time())
        self.listing.show([row for row in self.rows if has_words(self.words, self.texts_of(row))])

    def update_clock(self, view: CoreView, now: float) -> None:
        """Update the ages. Called while the section is shown. `now` is Unix time in seconds."""
        if now >= self._next_age_change or now < self.now:
            self._set_now(now)
            self.update_ages()

    def tick_s(self) -> float | None:
        """Return the seconds until a shown age changes, or None if no age is shown."""
        if self._next_age_change == math.inf:
            return None
        return min(max(self._next_age_change - time.time(), MIN_TICK_S), MAX_TICK_S)

    def seconds_until_change(self, row: Row) -> float | None:
        """Return the seconds until the text of a row changes because of its age, or None if it has no age."""
        return None

    def _set_now(self, now: float) -> None:
        self.now = now
        seconds_until_change = (
            seconds for row in self.rows if (seconds := self.seconds_until_change(row)) is not None
        )
        self._next_age_change = now + min(seconds_until_change, default=math.inf)

    def update_ages(self) -> None:
        """Draw everything again that depends on `now`."""
        self.listing.refresh()

    def read(
        self, name: str, period_s: float, source: Callable[[], ReadResult], show: Callable[[ReadResult], None]
    ) -> None:
        """Call `source` in a thread, and then `show` with the result.

        Do nothing while a call with the same `name` is running, and for `period_s` seconds after its end.
        """
        if time.monotonic() >= self._next_reads.get(name, 0.0):
            self._next_reads[name] = math.inf
            self.run_worker(self._read(name, period_s, source, show))

    async def _read(
        self, name: str, period_s: float, source: Callable[[], ReadResult], show: Callable[[ReadResult], None]
    ) -> None:
        try:
            result = await asyncio.to_thread(source)
        finally:
            self._next_reads[name] = time.monotonic() + period_s
        with suppress(NoMatches):  # the screen may be removed in the meantime
            show(result)

    def read_now(self, name: str) -> None:
        """Let the next `read` with this name run at once."""
        self._next_reads.pop(name, None)

    def action_back(self) -> None:
        """Move the focus from the details to the list. In the list or the filter, clear the filter."""
        if self.listing.has_focus or self.filter_field.has_focus:
            self.close_filter()
        self.entry.focus()

    async def action_open(self) -> None:
        """Focus the details of the selected row."""
        if self.listing.selected is not None:
            self.focus_detail()

    def focus_detail(self) -> None:
        """Focus the details. In a small pane, this shows them in the place of the list."""
        self.query_one(".detail").focus()

    @work
    async def action_copy(self) -> None:
        """Copy a text of the selected row."""
        if (row := self.listing.selected) is not None:
            await self.app.copy_one_of(self.copy_choices(row))

    @on(RowList.Opened)
    async def _row_opened(self) -> None:
        if self.offers_details:
            self.focus_detail()
        else:
            await self.action_open()

    @on(RowList.Moved)
    @on(Detail.Resized)
    def _fit_detail(self) -> None:
        self.show_detail()

    def show_detail(self) -> None:
        """Show the details of the selected row."""
        detail, row = self.query_one(".detail"), self.listing.selected
        detail.set_class(row is None, "-blank")
        if row is None:
            if self.hides_list:
                self.entry.focus()
        else:
            key, *_ = self.keys_of(row)
            if key != self._detail_key:
                self._detail_key = key
                detail.scroll_home(animate=False)
            title, text = self.detail_of(row)
            if title != str(detail.border_title):
                detail.border_title = Content(title)
            text_widget = detail.query(Static).first()
            old_text = text_widget.content
            if not isinstance(old_text, Content) or not text.is_same(old_text):
                # If only digits change, all widths stay the same, and the screen needs no new layout.
                needs_layout = DIGITS.sub("0", text.plain) != DIGITS.sub("0", str(old_text))
                text_widget.update(text, layout=needs_layout)

    def on_resize(self) -> None:
        """Arrange the section for its new width, and fit the details into it."""
        self.set_class(self.may_be_beside and has_room_beside(self), "-beside")
        self.update_turns()
        self.call_after_refresh(self.show_detail)
