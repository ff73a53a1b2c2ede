"""One page of a question: its text, its options, and a line for own words. Changes nothing but its draft."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from mcpdesk.tui.render.question_draft import Draft
from mcpdesk.tui.render.text import clean, one_line

LABEL_CELLS = 26
"""Labels get at most this much room beside their descriptions, and wrap in it."""


class OptionRow(Horizontal):
    """One option. Clicking it is choosing it."""

    DEFAULT_CSS = """
    OptionRow { height: auto; padding: 0 1; }
    OptionRow > Static { height: auto; width: auto; margin-right: 1; }
    OptionRow > .wide { width: 1fr; margin-right: 0; }
    OptionRow > .description { color: $text-muted; }
    OptionRow:hover { background: $primary 12%; }
    OptionRow.-cursor { background: $primary 25%; }
    OptionRow.-chosen > .label { text-style: bold; color: $text-primary; }
    OptionRow:ansi.-cursor { background: transparent; text-style: reverse; }
    """

    class Clicked(Message):
        """The row of option `index` was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def __init__(self, index: int, draft: Draft, label_cells: int) -> None:
        super().__init__()
        self.index = index
        self._draft = draft
        self._label_cells = label_cells
        self._option = draft.page.options[index]

    def compose(self) -> ComposeResult:
        """Digit, mark, label, description."""
        yield Static(str(self.index + 1), markup=False)
        yield Static(self._draft.mark(self.index), classes="mark", markup=False)
        label = Static(clean(self._option.label), classes="label", markup=False)
        label.set_class(not self._label_cells, "wide")
        label.styles.width = self._label_cells or None
        yield label
        if self._label_cells:
            yield Static(clean(self._option.description), classes="description wide", markup=False)

    def on_click(self) -> None:
        """Choose it."""
        self.post_message(self.Clicked(self.index))

    def show(self, is_cursor: bool) -> None:
        """Show the draft as it is now."""
        self.query_one(".mark", Static).update(self._draft.mark(self.index))
        self.set_class(self.index in self._draft.chosen, "-chosen")
        self.set_class(is_cursor, "-cursor")


class OwnWords(Input):
    """Where something else is written. Up and esc lead back to the options."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "leave", "Options", show=False),
        Binding("escape", "leave", "Options", show=False),
    ]
    DEFAULT_CSS = """
    OwnWords, OwnWords:focus { border: none; height: 1; padding: 0 1; width: 1fr; background: $panel; }
    """

    class Left(Message):
        """The person is done writing, or never wanted to."""

    def action_leave(self) -> None:
        """Back to the options."""
        self.post_message(self.Left())


class QuestionPage(VerticalScroll, can_focus=False):
    """Everything between the frame's top and its line of keys."""

    DEFAULT_CSS = """
    QuestionPage { height: auto; scrollbar-size-vertical: 1; }
    QuestionPage > .head { height: auto; padding: 0 1; margin-bottom: 1; }
    QuestionPage > .head > .question { width: 1fr; height: auto; text-style: bold; }
    QuestionPage > .head > .header { width: auto; height: 1; margin-left: 2; color: $text-accent; }
    QuestionPage > .own { height: 1; padding: 0 1; }
    QuestionPage > .own > Static { width: auto; margin-right: 1; }
    QuestionPage > .own.-chosen > .label { text-style: bold; color: $text-primary; }
    QuestionPage.-low > .head { margin-bottom: 0; }
    """

    class Changed(Message):
        """The draft is another now."""

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self.draft = draft
        self.cursor = 0
        self._count = len(draft.page.options)

    def compose(self) -> ComposeResult:
        """Text, options, own words."""
        page = self.draft.page
        with Horizontal(classes="head"):
            yield Static(clean(page.question), classes="question", markup=False)
            if page.header:
                yield Static(one_line(page.header, 24), classes="header", markup=False)
        described = any(option.description for option in page.options)
        widest = max((cell_len(clean(option.label)) for option in page.options), default=0)
        for index in range(self._count):
            yield OptionRow(index, self.draft, min(widest, LABEL_CELLS) if described else 0)
        with Horizontal(classes="own"):
            yield Static(str((self._count + 1) % 10), markup=False)
            yield Static(self.draft.mark(self._count), classes="mark", markup=False)
            yield Static("something else" if self._count else "your answer", classes="label", markup=False)
            yield OwnWords(self.draft.other, compact=True)

    def on_mount(self) -> None:
        """A page without options is for writing."""
        self._show()
        if not self._count:
            self.words.focus()

    @property
    def words(self) -> OwnWords:
        """The line for own words."""
        return self.query_one(OwnWords)

    def move(self, by: int) -> None:
        """Move the cursor; below the last option one writes."""
        if self._count:
            self.cursor = max(0, min(self.cursor + by, self._count))
            self._follow()

    def choose(self, index: int | None = None) -> None:
        """Toggle an option, that under the cursor by default; the one after the last is for writing."""
        index = self.cursor if index is None else index
        if index > self._count:
            return
        self.cursor = index
        if index < self._count:
            self.draft.toggle(index)
            self.post_message(self.Changed())
        self._follow()

    def leave_words(self) -> bool:
        """Take the cursor from the line for own words to the options; False when there are none."""
        if not self._count:
            return False
        self.cursor = self._count - 1
        self._follow()
        return True

    @on(OptionRow.Clicked)
    def _row_clicked(self, event: OptionRow.Clicked) -> None:
        event.stop()
        self.choose(event.index)

    @on(Input.Changed)
    def _words_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.draft.other:
            self.draft.write(event.value)
            self._show()
            self.post_message(self.Changed())

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The mouse may have gone to the line for own words."""
        if isinstance(event.widget, OwnWords):
            self.cursor = self._count
            self._show()

    def _follow(self) -> None:
        self._show()
        if self.cursor == self._count:
            self.words.focus()
            return
        self.screen.set_focus(None)
        self.query(OptionRow)[self.cursor].scroll_visible(animate=False)

    def _show(self) -> None:
        for row in self.query(OptionRow):
            row.show(row.index == self.cursor)
        own = self.query_one(".own")
        own.set_class(self.draft.other_chosen, "-chosen")
        own.query_one(".mark", Static).update(self.draft.mark(self._count))
