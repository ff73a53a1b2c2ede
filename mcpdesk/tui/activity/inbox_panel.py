"""The inbox as rows: waiting questions first, then what became of the others. State as glyph and word."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.inbox.question import Kind, Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import Detail, Section, SectionList
from mcpdesk.tui.forms.question_text import absence, ended_line, in_full, plain
from mcpdesk.tui.render.amounts import since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu

STATES = {
    QuestionState.WAITING: ("?", "lines--warn"),
    QuestionState.ANSWERED: ("✓", "lines--good"),
    QuestionState.DECLINED: ("✕", "lines--bad"),
    QuestionState.CANCELLED: ("⊘", "lines--muted"),
    QuestionState.TIMED_OUT: ("◷", "lines--muted"),
    QuestionState.WITHDRAWN: ("↶", "lines--muted"),
}
"""Glyph and style of each state; the word follows the glyph."""
STATE_CELLS = 2 + max(len(state) for state in QuestionState)
PEER_CELLS = 20
NARROW = 70
"""Cells below which the peer's column goes."""


class InboxList(SectionList):
    """One row a question. The selected question stays selected when others come and go."""

    CLICKS = 1

    def __init__(self) -> None:
        super().__init__()
        self.questions: tuple[Question, ...] = ()
        self.absences: dict[int, str] = {}
        """Of questions whose client is not there, what became of it, by their numbers."""

    @property
    def selected(self) -> Question | None:
        """The question under the cursor."""
        return self.questions[self.cursor] if self.cursor < len(self.questions) else None

    @property
    def row_count(self) -> int:
        return len(self.questions)

    def show(self, questions: Sequence[Question], now: float) -> None:
        """Take the questions as they are now; `now` is Unix time in seconds."""
        selected, self.now = self.selected, now
        self.questions = tuple(questions)
        self.settle(at for at, one in enumerate(questions) if selected is not None and one.id == selected.id)

    def mark(self, absences: dict[int, str]) -> None:
        """Take which questions belong to clients that are not there."""
        if absences != self.absences:
            self.absences = absences
            self.refresh()

    def spans(self, index: int, width: int) -> Iterable[Span]:
        question = self.questions[index]
        is_denied = question.word == "denied"
        glyph, style = STATES[QuestionState.DECLINED if is_denied else question.state]
        yield f" {glyph} {question.word:<{STATE_CELLS - 2}}  ", style
        room = width - STATE_CELLS - 3
        if width >= NARROW:
            peer = one_line(question.peer, PEER_CELLS)
            yield set_cell_size(peer, PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        age = f"  {self._age(question)} "
        room -= cell_len(age)
        if away := self.absences.get(question.id, ""):
            away = one_line(f"({away}) ", max(0, room))
            yield away, "lines--warn"
            room -= cell_len(away)
        yield set_cell_size(one_line(summary(question), room), room), ""
        yield age, "lines--muted"

    def _age(self, question: Question) -> str:
        if question.state is QuestionState.WAITING:
            return since(self.now - question.asked).rjust(8)
        return f"{since(self.now - (question.ended or question.asked))} ago".rjust(8)


def summary(question: Question) -> str:
    """The first page's text, and how many more there are; of an approval, the tool and its arguments."""
    if question.kind is Kind.APPROVAL:
        return f"approve {question.tool} · {question.pages[0].detail}"
    more = len(question.pages) - 1
    return question.pages[0].question + (f" (+{more})" if more else "")


class InboxPanel(Section):
    """Questions above, the selected one below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("inbox")
    title = "Inbox"
    lesson = (
        "No question was asked yet",
        "A tool that needs a decision asks here, and waits for the answer. Calls of clients wait here, too, "
        "where the policy of the tool is ask: p in the catalogue (1) changes it.\n\n"
        'Built in: put "AskUserQuestion" into `builtins` of mcp.json; clients may call it from then on.\n'
        'Your own: `question = await ctx.ask([Page("Go on?", options=(Option("yes"), Option("no")))])`.\n\n'
        "To see one now, call AskUserQuestion in the workbench (1) with questions_json\n"
        '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]',
    )

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._version: int | None = None
        self._questions: tuple[Question, ...] = ()

    def parts(self) -> Iterable[Widget]:
        """Rows, detail."""
        yield InboxList()
        yield Detail(classes="detail")

    @property
    def inbox(self) -> InboxList:
        """The rows."""
        return self.query_one(InboxList)

    def take(self, view: CoreView) -> None:
        """Take the questions when one came or ended."""
        if view.questions_version != self._version:
            self._version = view.questions_version
            self._questions = self.link.questions()
            waiting = sum(1 for one in self._questions if one.state is QuestionState.WAITING)
            self.count = f"?{waiting}" if waiting else ""
            self.set_empty(is_empty=not self._questions)
            self.narrow()

    def look(self, view: CoreView, now: float) -> None:
        """Let the clocks go on, and mark the questions of clients that are not there."""
        self.inbox.tick(now)
        away = {one.id: absence(one, view.clients, now) for one in self._questions}
        self.inbox.mark({number: told for number, told in away.items() if told})

    def narrow(self) -> None:
        """Show the questions that have the words."""
        shown = [one for one in self._questions if self.admits(plain(one), one.peer, one.tool, one.state)]
        self.inbox.show(shown, time.time())

    def action_open(self) -> None:
        """Answer the selected question, or go to how it ended."""
        question = self.inbox.selected
        if question is None:
            return
        if question.state is QuestionState.WAITING:
            self.app.main.ask(question)
        else:
            self.query_one(Detail).focus()

    def action_decline(self) -> None:
        """Decline the selected question, with a reason."""
        question = self.inbox.selected
        if question is None or question.state is not QuestionState.WAITING:
            self.notify("No waiting question is selected.", markup=False)
            return
        from mcpdesk.tui.forms.question_dialog import QuestionScreen

        self.app.push_screen(QuestionScreen(self.link, question, declining=True))

    @work
    async def action_copy(self) -> None:
        """Copy the whole question, or its answer."""
        question = self.inbox.selected
        if question is None:
            return
        whole, ending = plain(question), ended_line(question)
        choices = [
            Choice("question and answer", whole, whole, "q"),
            Choice("how it ended", ending, ending, "e"),
        ]
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(InboxList.Moved)
    def _tell(self) -> None:
        detail, question = self.query_one(Detail), self.inbox.selected
        detail.display = question is not None
        if question is not None:
            detail.border_title = Content(_origin(question))
            detail.query_one(Static).update(in_full(question))

    @on(InboxList.Opened)
    def _opened(self) -> None:
        self.action_open()


def _origin(question: Question) -> str:
    peer, tool, server = (one_line(text, 30) for text in (question.peer, question.tool, question.server))
    return f"{peer} through {tool} of {server}"
