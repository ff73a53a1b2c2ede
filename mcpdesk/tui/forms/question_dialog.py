"""Dialog that asks a question page by page. It closes if another screen or a client answers the question."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mcpdesk.inbox.question import Approval, Question, QuestionKind, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.following import follow_core
from mcpdesk.tui.forms.form import Form
from mcpdesk.tui.forms.question_form import QuestionForm
from mcpdesk.tui.forms.question_page import AnswerDraft, QuestionPage
from mcpdesk.tui.forms.question_text import absence_reason, asker, open_link
from mcpdesk.tui.render.amounts import counted, since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.terminal import KeyPause, is_typed
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.menu import Dialog
from mcpdesk.tui.widgets.part_line import LinePart, PartLine

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

UPDATE_INTERVAL_S = 0.1
"""Seconds between two updates from a core that does not report its changes."""
TIME_LEFT_SHOWN_S = 60
"""Remaining seconds below which the dialog shows the time left."""
KEY_PAUSE_S = 1.0
"""After a question has opened automatically, keys are ignored for this many seconds. Each key extends this
time."""
MAX_WIDTH = 88
"""Maximum width of the box in columns, including border and padding."""
_QUIT_KEYS = ("ctrl+c", "ctrl+q")
_OUTCOME_TEXTS = {
    QuestionState.CANCELLED: "was closed by {by}",
    QuestionState.TIMED_OUT: "timed out",
    QuestionState.WITHDRAWN: "was withdrawn: {reason}",
}
"""Texts for a question that ended without an answer from this dialog, by state. For an answered or declined
question, `_close_ended` makes the text."""


class QuestionScreen(Dialog[None]):
    """Dialog for one question. If the person postpones it, the selections are kept for the next time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("question")
    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    QuestionScreen { align: center middle; background: $background 50%; }
    QuestionScreen > Vertical {
        max-width: 100%; height: auto;
        border: round $warning; border-title-color: $text-warning; border-title-style: bold;
        background: $surface; padding: 1 1 0 1;
    }
    QuestionScreen .note { height: 1; padding: 0 1; color: $text-error; display: none; text-wrap: nowrap; }
    QuestionScreen .note.-on { display: block; }
    QuestionScreen .reason { height: 1; margin-top: 1; padding: 0 1; display: none; }
    QuestionScreen .reason > Static { width: auto; margin-right: 1; color: $text-warning; }
    QuestionScreen .reason > Input, QuestionScreen .reason > Input:focus {
        border: none; height: 1; padding: 0 1; width: 1fr; background: $panel;
    }
    QuestionScreen PartLine { margin-top: 1; padding: 0 1; color: $text-muted; }
    QuestionScreen.-declining .reason { display: block; }
    QuestionScreen.-low > Vertical { padding: 0 1; }
    QuestionScreen.-low PartLine { margin-top: 0; }
    QuestionScreen.-low QuestionPage > .head, QuestionScreen.-low QuestionForm > .head,
    QuestionScreen.-low QuestionPage > .detail { margin-bottom: 0; }
    QuestionScreen:ansi { background: transparent; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-tall"), (40, "-high")]
    drafts: ClassVar[dict[int, tuple[Question, list[AnswerDraft]]]] = {}
    """Question id -> question and drafts, for postponed questions."""

    def __init__(
        self, link: Link, question: Question, *, is_declining: bool = False, is_automatic: bool = False
    ) -> None:
        """Create the dialog.

        With `is_declining`, the person is first asked for a reason to decline. `is_automatic` means that the
        dialog opened automatically.
        """
        super().__init__()
        self._is_automatic = is_automatic
        self._key_pause = KeyPause(KEY_PAUSE_S)
        self.link = link
        self.question = question
        stored_question, drafts = self.drafts.pop(question.id, (None, []))
        self._drafts = (
            drafts if stored_question == question else [AnswerDraft(page) for page in question.pages]
        )
        self._page_index = 0
        self.page: QuestionPage | QuestionForm = (
            QuestionForm(self._drafts) if question.is_form else QuestionPage(self._drafts[0])
        )
        """Page that is shown now or will be shown next."""
        self._position = ""
        """Position of the focused field in a form that is too high for the dialog."""
        self._answer_result: Future[bool] | None = None
        """Result of the answer that this dialog has sent, or None if none was sent."""
        self._questions_version = -1
        self._starts_declining = is_declining
        self._waiting_questions: list[Question] = []

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.styles.width = MAX_WIDTH
            yield self.page
            yield Static(classes="note", markup=False)
            with Horizontal(classes="reason"):
                yield Static(f"{_decline_verb(self.question)}, because", markup=False)
                hint = f"optional · enter {'deny' if self._is_approval else 'decline'} · esc back"
                yield LineField(placeholder=hint, compact=True, id="reason")
            yield PartLine()

    def on_mount(self) -> None:
        if self._is_automatic:
            self._key_pause.begin()
        self._show_keys()
        self._show_title()
        self._update()
        follow_core(self, self.link, self._update, poll_s=UPDATE_INTERVAL_S)
        if self._starts_declining:
            self.action_decline()

    def on_resize(self) -> None:
        if self.query(Vertical):
            self._fit()
            self._show_title()

    @property
    def takes_keys(self) -> bool:
        """True if keys take effect.

        Keys pressed just after the dialog opened may be meant for the previous screen.
        """
        return self.is_mounted and self._key_pause.is_over

    def ignores(self, event: events.Event) -> bool:
        """Return True if a key must be ignored: it is probably meant for the screen below, or an answer was
        sent.
        """
        if self._answer_result is not None and is_typed(event):
            return True
        if (isinstance(event, events.Key) and event.key in _QUIT_KEYS) or not self._key_pause.ignores_key():
            return False
        self._show_note("Keys typed before you saw this question were ignored.")
        return True

    @property
    def _is_approval(self) -> bool:
        return self.question.kind is QuestionKind.APPROVAL

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character.isdecimal() and not isinstance(self.focused, Input):
            event.stop()
            self.page.choose((int(event.character) - 1) % 10)

    def action_choose(self) -> None:
        """Toggle the option under the cursor."""
        self.page.choose()
        self._show_keys()

    def action_move(self, by: int) -> None:
        """Move the cursor over the options."""
        self.page.move(by)
        self._show_keys()

    def action_scroll(self, by: int) -> None:
        """Scroll a long page by screens."""
        self.page.scroll_by(by)

    async def action_next_page(self) -> None:
        """Select the highlighted option. If it is already selected, go to the next page. On the last page,
        answer.
        """
        if isinstance(self.page, QuestionForm):
            self.page.action_next_field()
            return
        if self.page.would_choose:
            self.page.choose()
            return
        if self.page.is_writing and self._is_option_chosen:
            self._show_note("Your answer is empty: esc returns to the options.")
            return
        if problem := self.page.draft.problem:
            self._show_note(problem[:1].upper() + problem[1:] + ".")
            return
        if self._page_index + 1 < len(self._drafts):
            await self._go_to(self._page_index + 1)
        elif self._is_approval and self.page.draft.answer.selected == (Approval.DENY,):
            self.action_decline()
        else:
            self._send(self.link.answer(self.question.id, [draft.answer for draft in self._drafts]))

    @on(QuestionForm.Submitted)
    def action_answer_form(self) -> None:
        """Answer with all fields of a form, or show faults beside the fields."""
        page = self.page
        if isinstance(page, QuestionForm) and (count := page.complain()):
            verb = "is" if count == 1 else "are"
            self._show_note(f"{counted(count, 'field')} {verb} not valid yet.")
        else:
            self._send(self.link.answer(self.question.id, [draft.answer for draft in self._drafts]))

    @on(Form.PositionChanged)
    def _show_form_position(self, event: Form.PositionChanged) -> None:
        event.stop()
        self._position = event.text
        self._show_title()

    @property
    def _is_option_chosen(self) -> bool:
        """True if an option, and not the free answer, is selected on a page with a single choice."""
        draft = self.page.draft
        return (
            bool(draft.selected_indexes)
            and draft.option_count not in draft.selected_indexes
            and not draft.page.multi_select
        )

    async def action_previous_page(self) -> None:
        """Go to the previous page."""
        if self._page_index:
            await self._go_to(self._page_index - 1)

    def action_decline(self) -> None:
        """Ask for a reason, then decline."""
        self.add_class("-declining")
        self._show_note("")
        self.query_one("#reason", Input).focus()

    def action_cancel(self) -> None:
        """Cancel the question: answer neither yes nor no."""
        self._send(self.link.cancel_question(self.question.id))

    async def action_open_link(self) -> None:
        """Open the link of the page in a browser."""
        await open_link(self.app, self.page.draft.page.link)

    def action_copy_link(self) -> None:
        """Copy the link of the page."""
        cast("DeskApp", self.app).copy(self.page.draft.page.link, "the link")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable links and cancelling only if the question has them."""
        if not super().check_action(action, parameters):
            return False
        if action in ("open_link", "copy_link"):
            return bool(self.question.pages[self._page_index].link)
        return self.question.may_cancel if action == "cancel" else True

    def action_next_question(self) -> None:
        """Open the next waiting question. The current question is offered again afterwards."""
        main = cast("DeskApp", self.app).main
        main.questions.update(self.link.view())  # the screen below a dialog is refreshed less often
        next_question = main.questions.after(self.question.id)
        if next_question is None:
            self.notify("No other question is waiting.", markup=False)
            return
        self._keep_drafts()
        self.dismiss()
        main.questions.opened.discard(self.question.id)  # this question is offered again after the next one
        main.ask(next_question)

    def action_later(self) -> None:
        """Close the field for the reason. If it is closed, postpone the question and keep the selections."""
        if self.has_class("-declining"):
            self.remove_class("-declining")
            self._fit()
            self.set_focus(None)
            self._show_keys()
            return
        self._keep_drafts()
        self.dismiss()

    def _keep_drafts(self) -> None:
        waiting_ids = {
            question.id for question in self.link.questions() if question.state is QuestionState.WAITING
        }
        for ended_id in self.drafts.keys() - waiting_ids:
            del self.drafts[ended_id]
        self.drafts[self.question.id] = (self.question, self._drafts)

    def action_leave_words(self) -> None:
        """Move the focus from the free answer back to the options."""
        self.page.leave_words()
        self._show_keys()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self._show_keys()

    @on(QuestionPage.Changed)
    @on(QuestionForm.Changed)
    def _draft_changed(self) -> None:
        self._show_note("")
        self._show_keys()

    @on(Input.Submitted)
    async def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "reason":
            self.action_send_reason()
        else:
            await self.action_next_page()

    def action_send_reason(self) -> None:
        """Decline with the written reason."""
        self._send(self.link.decline(self.question.id, self.query_one("#reason", Input).value.strip()))

    async def _go_to(self, page_index: int) -> None:
        self._page_index = page_index
        self._show_note("")
        old_page, new_page = self.page, QuestionPage(self._drafts[page_index])
        self.page = new_page
        self.set_focus(None)
        await old_page.remove()
        if not self.has_left and new_page is self.page:
            await self.query_one(Vertical).mount(new_page, before=0)
        if self.has_left or new_page is not self.page:
            return  # the question ended or another page was opened in the meantime
        self._fit()
        self._show_keys()
        self._show_title()

    def _fit(self) -> None:
        """Limit the height of the page to the rows that border, padding, note and reason do not use."""
        is_low = self.has_class("-low")
        has_note = self.query_one(".note").has_class("-on")
        is_declining = self.has_class("-declining")
        rows_around = (3 if is_low else 7) + has_note + 2 * is_declining
        self.page.fit(max(3, self.size.height - rows_around))

    def _send(self, result: Future[bool]) -> None:
        self._answer_result = result
        self._show_note("Sending …")
        self._update()

    def _update(self) -> None:
        """Close if the question has ended, also if it was answered outside of this dialog. Otherwise update
        the title.
        """
        if not self.is_attached or not self.is_current or not self.query(Vertical):
            return
        version = self.link.view().questions_version
        if version != self._questions_version:
            self._questions_version = version
            questions = self.link.questions()
            self._waiting_questions = [
                question for question in questions if question.state is QuestionState.WAITING
            ]
            matching_questions = [question for question in questions if question.id == self.question.id]
            if not matching_questions or matching_questions[0].state is not QuestionState.WAITING:
                self._close_ended(matching_questions[0] if matching_questions else None)
                return
        result = self._answer_result
        if result is not None and result.done() and (problem := result.exception()):
            self._answer_result = None
            self._show_note(one_line(f"Not answered: {problem}", 300))
        self._show_title()

    def _close_ended(self, ended_question: Question | None) -> None:
        self.dismiss()
        cast("DeskApp", self.app).main.question_closes()
        if ended_question is None:
            self.notify("The question no longer exists.", markup=False)
        elif self._answer_result and self._is_answered_here(ended_question):
            self.notify(
                f"{ended_question.word.capitalize()}. {one_line(ended_question.asker, 40)} continues.",
                markup=False,
            )
        else:
            template = _OUTCOME_TEXTS.get(ended_question.state, "was {word} by {by}")
            outcome = template.format(
                by=ended_question.answered_by or "another person",
                reason=ended_question.reason,
                word=ended_question.word,
            )
            text = one_line(f"The question of {one_line(ended_question.asker, 40)} {outcome}")
            self.notify(text, severity="warning", markup=False)

    def _is_answered_here(self, ended_question: Question) -> bool:
        if ended_question.state is QuestionState.ANSWERED:
            return ended_question.answers == tuple(draft.answer for draft in self._drafts)
        return ended_question.state in (QuestionState.DECLINED, QuestionState.CANCELLED)

    def _show_note(self, text: str) -> None:
        note = self.query_one(".note", Static)
        note.update(text)
        note.set_class(bool(text), "-on")
        self._fit()

    def _show_keys(self) -> None:
        parts = []
        hints = question_keys(
            self.question,
            self._page_index,
            is_writing=self.page.is_writing,
            would_choose=self.page.would_choose,
            is_declining=self.has_class("-declining"),
            is_at_end=isinstance(self.page, QuestionForm) and self.page.is_at_end,
        )
        for hint in hints:
            text = Content.assemble((hint.key, "bold $footer-key-foreground"), f" {hint.title}   ")
            parts.append(LinePart(text, hint.action, rank=hint.rank))
        self.query_one(PartLine).show(parts)

    def _show_title(self) -> None:
        """Show `peer asks · waiting 12 s ──── 1 of 2`, with the line in the colour of the border."""
        box = self.query_one(Vertical)
        now = time.time()
        time_left_s = self.question.deadline - now
        absence = absence_reason(self.question, self.link.view().clients, now)
        absence_note = f" ({absence})" if absence else ""
        text = f"{asker(self.question)}{absence_note} asks · waiting {since(now - self.question.asked)}"
        if time_left_s < TIME_LEFT_SHOWN_S:
            text += f" · {since(time_left_s)} left"
        other_count = sum(question.id != self.question.id for question in self._waiting_questions)
        if other_count:
            text += f" · g q: {other_count} more"
        position = f"{self._page_index + 1} of {len(self._drafts)}" if len(self._drafts) > 1 else ""
        if self.question.is_form:
            position = self._position or counted(len(self._drafts), "field")
        # The box has no size before its first layout, so its width is derived from the screen's.
        inner_width = min(MAX_WIDTH, self.app.size.width) - 4
        fill_width = inner_width - Content(text).cell_length - len(position) - 4
        title = Content(text)
        if position and fill_width > 0:
            title = Content.assemble(text, (f" {'─' * fill_width} ", "not bold $warning"), position)
        box.border_title = title


MIN_SCROLLED_LINES = 6
"""Minimum number of lines of detail for which the key for scrolling is shown."""


class KeyHint(NamedTuple):
    """Key and its effect. Hints of low `rank` are left out first if space is short."""

    key: str
    title: str
    action: str
    """Action that a click runs."""
    rank: int


def question_keys(
    question: Question,
    page_index: int,
    *,
    is_writing: bool = False,
    would_choose: bool = False,
    is_declining: bool = False,
    is_at_end: bool = False,
) -> Iterator[KeyHint]:
    """Yield the keys of the page `page_index`.

    `is_writing` means that a text field has the focus, so that letters are text until esc is pressed.
    `would_choose` means that enter selects the highlighted option. `is_declining` means that a reason is
    being written. `is_at_end` means that the last field of a form, or no field, has the focus.
    """
    if is_declining:
        is_approval = question.kind is QuestionKind.APPROVAL
        yield KeyHint("enter", "deny" if is_approval else "decline", "screen.send_reason", 9)
        yield KeyHint("esc", "back", "screen.later", 7)
        return
    page = question.pages[page_index]
    esc_prefix = "esc " if is_writing else ""
    if question.is_form:
        yield KeyHint("enter", "answer" if is_at_end else "next field", "screen.next_page", 9)
        if not is_at_end:
            yield KeyHint("ctrl+s", "answer", "screen.answer_form", 8)
        yield KeyHint("space", "choose", "", 1)
        yield KeyHint(f"{esc_prefix}x", _decline_verb(question), "screen.decline", 6)
        if question.may_cancel:
            yield KeyHint(f"{esc_prefix}c", "cancel", "screen.cancel", 5)
        yield _escape_key(is_writing)
        return
    if page.options and not is_writing:
        yield KeyHint("digits", "choose", "screen.choose", 2)
        yield KeyHint("space", "toggle", "screen.choose", 1)
    if page.link:
        yield KeyHint("o", "open", "screen.open_link", 8)
        yield KeyHint("y", "copy", "screen.copy_link", 5)
    enter_effect = "choose" if would_choose else _enter_effect(question, page_index)
    yield KeyHint("enter", enter_effect, "screen.next_page", 9)
    if page.is_long and is_writing:
        yield KeyHint("ctrl+j", "new line", "", 3)
    if page_index and not is_writing:
        yield KeyHint("⌫", "back", "screen.previous_page", 4)
    yield KeyHint(f"{esc_prefix}x", _decline_verb(question), "screen.decline", 6)
    if page.detail.count("\n") >= MIN_SCROLLED_LINES and not page.is_long:
        yield KeyHint("pgdn", "scroll", "screen.scroll(1)", 2)
    if question.may_cancel:
        yield KeyHint(f"{esc_prefix}c", "cancel", "screen.cancel", 5)
    yield _escape_key(is_writing)


def _escape_key(is_writing: bool) -> KeyHint:
    return (
        KeyHint("esc", "leave the text", "", 7) if is_writing else KeyHint("esc", "later", "screen.later", 7)
    )


def _decline_verb(question: Question) -> str:
    return "deny" if question.kind is QuestionKind.APPROVAL else "decline"


def _enter_effect(question: Question, page_index: int) -> str:
    if question.pages[page_index].link:
        return "agree"
    return "answer" if page_index + 1 == len(question.pages) else "next"
