"""One part of the activity screen: a filter, a list, the selected row in full, or what teaches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import LineList

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

BESIDE = 150
"""Cells across from which the selected line stands in full beside the list."""


class SectionList(LineList, inherit_bindings=False):
    """Rows of a section. Enter is left to the section, so that the footer names what it does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        binding
        for binding in LineList.BINDINGS
        if not (isinstance(binding, Binding) and binding.key == "enter")
    ]

    class Moved(Message):
        """Another row is under the cursor."""

    class Opened(Message):
        """The row under the cursor was chosen."""

    CLICKS: ClassVar[int] = 2
    """So many open a row; one selects it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """Unix time in seconds by which the rows are told."""

    def settle(self, same: Iterable[int]) -> None:
        """Tell that the rows are others now. `same`: where the selected one is, if it is still there."""
        self.rows_changed()
        self.cursor = next(iter(same), self.cursor)
        self.post_message(self.Moved())

    def tick(self, now: float) -> bool:
        """Let the clocks in the rows go on; whether they show another second."""
        if int(now) == int(self.now):
            return False
        self.now = now
        self.refresh()
        return True

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Select, or open."""
        event.prevent_default()
        index = event.style.meta.get("row")
        if index is not None and index < self.row_count:
            self.cursor = index
            if event.chain >= self.CLICKS:
                self.post_message(self.Opened())


class Detail(VerticalScroll):
    """The selected row in full."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
        Binding("g", "scroll_home", "Top", show=False),
        Binding("G", "scroll_end", "Bottom", show=False),
    ]

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(markup=False)


class Teach(Static, can_focus=True):
    """What an empty section says. Takes the keys, so that those of the section work."""


class Section(Vertical):
    """What is common to the parts. `count` is what its tab says beside its title."""

    title: ClassVar[str]
    can_filter: ClassVar[bool] = True
    lesson: ClassVar[tuple[str, str]]
    """Title and text of what is shown where there is nothing."""
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
        & > .teach {
            display: none; height: auto; margin: 1 2; padding: 1 2; border: round $border-blurred;
            border-title-color: $text-primary;
        }
        & > .teach:focus { border: round $border; }
        &.-empty > .teach { display: block; }
        &.-empty > .body { display: none; }
    }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self.count = ""
        self.words: tuple[str, ...] = ()
        """What a row has to contain to be shown, in small letters."""

    @abstractmethod
    def parts(self) -> Iterable[Widget]:
        """The list, and the selected row in full."""

    @property
    def listing(self) -> Widget:
        """What takes the keys first."""
        return self.query_one("LineList")

    @property
    def entry(self) -> Widget:
        """What takes the keys first: the lesson where there is nothing."""
        return self.query_one(Teach) if self.has_class("-empty") else self.listing

    def set_empty(self, *, is_empty: bool) -> None:
        """Teach, or show what there is; the keys go where it is."""
        if is_empty != self.has_class("-empty"):
            had_focus = self.has_focus_within
            self.set_class(is_empty, "-empty")
            if had_focus:
                self.call_after_refresh(self._enter)

    def _enter(self) -> None:
        if self.display:
            self.entry.focus()

    def take(self, view: CoreView) -> None:
        """Take what changed; called also while another section is shown."""

    def look(self, view: CoreView, now: float) -> None:
        """Bring what moves up to date; called while the section is shown. `now` is Unix time in seconds."""

    def narrow(self) -> None:
        """Other words than before: show what has them."""

    def compose(self) -> ComposeResult:
        """Filter, list and detail, lesson."""
        yield LineField(placeholder="filter: words that must occur", compact=True)
        with Vertical(classes="body"):
            yield from self.parts()
        title, text = self.lesson
        lesson = Teach(text, classes="teach", markup=False)
        lesson.border_title = title
        yield lesson

    def admits(self, *texts: str) -> bool:
        """Whether a row with these texts has all the words."""
        whole = " ".join(texts).lower() if self.words else ""
        return all(word in whole for word in self.words)

    def open_filter(self) -> None:
        """Type words to filter by."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def step_back(self) -> None:
        """Esc: from the detail to the list, then drop the filter."""
        field = self.query_one(Input)
        if self.listing.has_focus or field.has_focus:
            self.remove_class("-filtering")
            field.value = ""
        self.entry.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.words = tuple(event.value.lower().split())
        self.narrow()

    @on(Input.Submitted)
    def _done(self, event: Input.Submitted) -> None:
        """Enter leads back to the list; an empty filter goes away."""
        event.stop()
        self.set_class(bool(self.words), "-filtering")
        self.listing.focus()

    def on_resize(self, event: events.Resize) -> None:
        """Put the detail beside the list where there is room."""
        self.set_class(event.size.width >= BESIDE, "-beside")
