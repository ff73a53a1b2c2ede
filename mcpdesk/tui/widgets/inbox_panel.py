"""What waits for a person: the inbox of the activity screen, and the selected question in full."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.question_text import absence, ended_line, in_full, plain
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.inbox_list import InboxList
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.section import Detail, Section


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
        from mcpdesk.tui.widgets.question_dialog import QuestionScreen

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
