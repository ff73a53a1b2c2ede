"""One page of a question: its text, options or link, a field for a free answer, and its draft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Page, link_warnings
from mcpdesk.tui.forms.question_text import link_text, mark
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.text_field import TextField

ROWS_AROUND_DETAIL = 6
"""Rows of a page without its detail: question, margins, and the field for the answer."""
MAX_LABEL_WIDTH = 26
"""Maximum width in cells of a label beside its description. Longer labels wrap."""


class AnswerDraft:
    """Answer to one page, as far as the person has selected and written it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.option_count = len(page.options)
        """Number of options, which is also the index of the free answer."""
        default = page.default
        self.selected_indexes = {
            index for index, option in enumerate(page.options) if option.label in default.selected
        }
        """Indexes of the selected options."""
        self.other = ""
        """Free answer, even if it is not selected."""
        self._checked_answer: tuple[Answer, str] | None = None
        """Answer that was checked last, and its error."""
        self.write(default.other)

    def toggle(self, index: int) -> None:
        """Toggle an option. On a page with a single choice, the other options are deselected."""
        if index in self.selected_indexes:
            self.selected_indexes.discard(index)
        else:
            self._choose(index)

    def write(self, text: str) -> None:
        """Store the free answer. Select it unless it is empty."""
        self.other = text
        if text.strip():
            self._choose(self.option_count)
        else:
            self.selected_indexes.discard(self.option_count)

    def _choose(self, index: int) -> None:
        if not self.page.multi_select:
            self.selected_indexes.clear()
        self.selected_indexes.add(index)

    @property
    def answer(self) -> Answer:
        """Current answer."""
        labels = tuple(
            option.label for index, option in enumerate(self.page.options) if index in self.selected_indexes
        )
        return Answer(labels, self.other.strip() if self.option_count in self.selected_indexes else "")

    @property
    def problem(self) -> str:
        """Reason why the page cannot be answered yet, or "" if it can be. The same answer is checked only
        once.
        """
        answer = self.answer
        if self._checked_answer is None or self._checked_answer[0] != answer:
            self._checked_answer = answer, problem(self.page, answer)
        return self._checked_answer[1]

    def mark(self, index: int) -> str:
        """Return the glyph before an option or the free answer."""
        return mark(self.page, index in self.selected_indexes)


class OptionRow(Horizontal):
    """Row of one option, which a click selects, or row of the free answer, with its field."""

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

    @dataclass
    class Clicked(Message):
        """The row of an option was clicked."""

        index: int

    def __init__(self, index: int, draft: AnswerDraft, label_width: int) -> None:
        """Create a row.

        `label_width` is the width of the label in cells, or 0 if no option of the page has a description.
        """
        super().__init__()
        self.index = index
        self._draft = draft
        self._label_width = label_width

    def compose(self) -> ComposeResult:
        yield Static(str((self.index + 1) % 10), markup=False)
        yield Static(self._draft.mark(self.index), classes="mark", markup=False)
        if self.index == self._draft.option_count:
            yield Static("something else" if self.index else "your answer", classes="label", markup=False)
            yield AnswerLine(self._draft.other, compact=True, classes="words")
            return
        option = self._draft.page.options[self.index]
        label = Static(clean(option.label), classes="label", markup=False)
        label.set_class(not self._label_width, "wide")
        label.styles.width = self._label_width or None
        yield label
        if self._label_width:
            yield Static(clean(option.description), classes="description wide", markup=False)

    def on_click(self) -> None:
        self.post_message(self.Clicked(self.index))

    def show(self, cursor: int) -> None:
        """Update the selection and the cursor. In the row for the free answer, the focus of the field is the
        cursor.
        """
        self.query_one(".mark", Static).update(self._draft.mark(self.index))
        self.set_class(self.index in self._draft.selected_indexes, "-chosen")
        self.set_class(self.index == cursor and cursor < self._draft.option_count, "-cursor")


class QuestionPage(VerticalScroll, can_focus=False):
    """Contents of the dialog between its title and its line of keys."""

    DEFAULT_CSS = """
    QuestionPage { height: auto; scrollbar-size-vertical: 1; }
    QuestionPage > .head { height: auto; padding: 0 1; margin-bottom: 1; }
    QuestionPage > .head > .question { width: 1fr; height: auto; text-style: bold; }
    QuestionPage > .head > .header { width: auto; height: 1; margin-left: 2; color: $text-accent; }
    QuestionPage > .detail {
        height: auto; padding: 0 1; margin-bottom: 1; color: $text-muted; scrollbar-size-vertical: 1;
    }
    QuestionPage > .detail > Static { height: auto; }
    QuestionPage > .link { height: auto; padding: 0 2; margin: 0 1; background: $panel; }
    QuestionPage > .odd { height: auto; padding: 0 1; margin-top: 1; color: $text-warning; }
    QuestionPage > AnswerArea { margin: 0 1; }
    QuestionPage.-long > .detail { color: $foreground; }
    """

    class Changed(Message):
        """The answer was changed."""

    def __init__(self, draft: AnswerDraft) -> None:
        super().__init__()
        self.draft = draft
        self._option_count = draft.option_count
        self.cursor = min(draft.selected_indexes, default=0)
        self._is_cursor_shown = bool(draft.selected_indexes) or draft.page.multi_select
        """True if the option under the cursor is highlighted. Initially, this requires that an option is
        selected, or that several options may be selected."""
        self._last_row = draft.option_count if draft.page.own_words else draft.option_count - 1
        """Last row that the cursor can reach. -1 if there is nothing to select or write."""

    def compose(self) -> ComposeResult:
        page = self.draft.page
        with Horizontal(classes="head"):
            yield Static(clean(page.question), classes="question", markup=False)
            if page.header:
                yield Static(one_line(page.header, 24), classes="header", markup=False)
        if page.detail:
            with VerticalScroll(classes="detail", can_focus=False):
                yield Static(clean(page.detail), markup=False)
        if page.link:
            yield Static(link_text(page.link), classes="link")
            if warnings := [f"! {remark}" for remark in link_warnings(page.link)]:
                yield Static("\n".join(warnings), classes="odd", markup=False)
        has_descriptions = any(option.description for option in page.options)
        label_width = max((cell_len(clean(option.label)) for option in page.options), default=0)
        for index in range(self._option_count if page.is_long else self._last_row + 1):
            yield OptionRow(index, self.draft, min(label_width, MAX_LABEL_WIDTH) if has_descriptions else 0)
        if page.own_words and page.is_long:
            yield AnswerArea(self.draft.other, compact=True, soft_wrap=True, classes="words")

    def on_mount(self) -> None:
        self.set_class(self.draft.page.is_long, "-long")
        self._show()
        if not self._option_count and self.answer_field is not None:
            self.answer_field.focus()

    @property
    def answer_field(self) -> AnswerLine | AnswerArea | None:
        """Field for a free answer, or None if it is not allowed."""
        return next(
            (field for field in self.query(".words") if isinstance(field, AnswerLine | AnswerArea)), None
        )

    @property
    def is_writing(self) -> bool:
        """True if the field for a free answer has the focus."""
        return self.answer_field is not None and self.answer_field.has_focus

    def fit(self, rows: int) -> None:
        """Limit the height to `rows`. A long detail scrolls separately."""
        self.styles.max_height = rows
        # The options stay visible below the detail.
        rows_below = 0 if self.draft.page.is_long else self._option_count
        for detail in self.query(".detail"):
            detail.styles.max_height = max(3, rows - ROWS_AROUND_DETAIL - rows_below)

    def scroll_by(self, screens: int) -> None:
        """Scroll the detail, or the whole page if the detail is short."""
        areas = [*self.query(".detail").results(VerticalScroll), self]
        area = next((candidate for candidate in areas if candidate.max_scroll_y), self)
        area.scroll_relative(y=screens * max(1, area.size.height - 1), animate=False)

    def move(self, by: int) -> None:
        """Move the cursor. If it is not visible yet, only show it. The row after the last option is the free
        answer.
        """
        if self._is_cursor_shown or not self._option_count:
            self.cursor = max(0, min(self.cursor + by, self._last_row))
        self._is_cursor_shown = True
        self._show_and_focus()

    def choose(self, index: int | None = None) -> None:
        """Toggle an option, by default the one under the cursor. If the row is the free answer, focus its
        field.

        On a page with a single choice, a digit or a click (`index`) never deselects an option.
        """
        if index is None and not self._is_cursor_shown:
            self.move(0)  # the cursor is not visible yet
            return
        is_index_given = index is not None
        index = self.cursor if index is None else index
        if index > self._last_row:
            return
        self.cursor = index
        self._is_cursor_shown = True
        if index < self._option_count:
            if self.draft.page.multi_select or not is_index_given or index not in self.draft.selected_indexes:
                self.draft.toggle(index)
            self._is_cursor_shown = index in self.draft.selected_indexes or self.draft.page.multi_select
            self.post_message(self.Changed())
        self._show_and_focus()

    @property
    def would_choose(self) -> bool:
        """True if the highlighted option is not selected yet, on a page with a single choice."""
        if self.draft.page.multi_select or not self._is_cursor_shown:
            return False
        return self.cursor < self._option_count and self.cursor not in self.draft.selected_indexes

    def leave_words(self) -> None:
        """Move the focus from the free answer to the options. Without options, remove the focus.

        If a text was written, it remains the answer, and no option is highlighted.
        """
        if self._option_count:
            self.cursor = self._option_count - 1
            self._is_cursor_shown = self._option_count not in self.draft.selected_indexes
            self._show_and_focus()
        else:
            self.screen.set_focus(None)

    @on(OptionRow.Clicked)
    def _row_clicked(self, event: OptionRow.Clicked) -> None:
        event.stop()
        self.choose(event.index)

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _free_answer_changed(self, event: Input.Changed | TextArea.Changed) -> None:
        event.stop()
        text = self.answer_field.entered_text if self.answer_field is not None else ""
        if text != self.draft.other:
            self.draft.write(text)
            self._show()
            self.post_message(self.Changed())

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if event.widget is self.answer_field:
            self.cursor = self._option_count
            self._is_cursor_shown = True
            self._show()

    def _show_and_focus(self) -> None:
        self._show()
        if self.cursor == self._option_count and self.answer_field is not None:
            self.answer_field.focus()
            return
        self.screen.set_focus(None)
        if self._option_count and (rows := list(self.query(OptionRow))):  # a new page has no rows yet
            rows[self.cursor].scroll_visible(animate=False)

    def _show(self) -> None:
        for row in self.query(OptionRow):
            row.show(self.cursor if self._is_cursor_shown else -1)


class AnswerLine(LineField):
    """Free answer of one line. Up and esc move the focus back to the options."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,escape", "screen.leave_words", "Options", show=False),
    ]
    DEFAULT_CSS = """
    AnswerLine, AnswerLine:focus { border: none; height: 1; padding: 0 1; width: 1fr; background: $panel; }
    """


class AnswerArea(TextField):
    """Free answer of several lines. Enter answers, ctrl+j begins a new line, esc leaves the field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_words", "Leave the text", show=False),
        Binding("pageup", "screen.scroll(-1)", "Page up", show=False),
        Binding("pagedown", "screen.scroll(1)", "Page down", show=False),
        Binding("enter", "screen.next_page", "Answer", show=False, priority=True),
        # Some terminals send the same code for some of these keys and for enter.
        Binding("ctrl+j,shift+enter,alt+enter", "begin_line", "New line", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    AnswerArea, AnswerArea:focus {
        border: none; height: auto; min-height: 3; max-height: 8; padding: 0 1; width: 1fr;
        background: $panel;
    }
    """

    def action_begin_line(self) -> None:
        """Insert a line break."""
        self.insert("\n")
