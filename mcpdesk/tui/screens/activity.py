"""What waits for a person: the inbox, and the selected question in full."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.question_text import ended_line, in_full, plain
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.inbox_list import InboxList
from mcpdesk.tui.widgets.job_list import JobList
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

LESSON = (
    "A tool that needs a decision asks here, and waits for the answer.\n\n"
    'Built in: put "AskUserQuestion" into `builtins` of mcp.json; clients may call it from then on.\n'
    'Your own: `question = await ctx.ask([Page("Go on?", options=(Option("yes"), Option("no")))])`.\n\n'
    "To see one now, call AskUserQuestion in the workbench (1) with questions_json\n"
    '[{"question": "Tea or coffee?", "options": ["tea", "coffee"]}]'
)


class ActivityPane(Vertical):
    """List above, the selected question below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("activity")
    DEFAULT_CSS = """
    ActivityPane > .count { height: 1; padding: 0 1; color: $text-muted; background: $surface; }
    ActivityPane > InboxList { height: 1fr; }
    ActivityPane > JobList { height: auto; max-height: 40%; }
    ActivityPane.-jobless > JobList, ActivityPane.-jobless > #jobs-count { display: none; }
    ActivityPane > VerticalScroll {
        height: auto; max-height: 60%; padding: 0 1; scrollbar-size-vertical: 1;
        border-top: solid $border-blurred; border-title-color: $text-muted;
    }
    ActivityPane > VerticalScroll:focus { border-top: solid $border; }
    ActivityPane > VerticalScroll > Static { height: auto; }
    ActivityPane > .teach {
        display: none; height: auto; margin: 1 2; padding: 1 2; border: round $border-blurred;
        border-title-color: $text-primary;
    }
    ActivityPane.-empty > .teach { display: block; }
    ActivityPane.-empty > InboxList, ActivityPane.-empty > VerticalScroll { display: none; }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._version: int | None = None
        self._jobs_version: int | None = None

    def compose(self) -> ComposeResult:
        """Count, rows, detail, lesson."""
        yield Static("Inbox", classes="count", markup=False)
        yield InboxList()
        yield Static(classes="count", id="jobs-count", markup=False)
        yield JobList()
        with VerticalScroll():
            yield Static(markup=False)
        lesson = Static(LESSON, classes="teach", markup=False)
        lesson.border_title = "No question was asked yet"
        yield lesson

    def look(self, view: CoreView) -> None:
        """Show the questions and jobs as they are now."""
        self._look_at_jobs(view)
        if view.questions_version == self._version:
            self.inbox.tick(time.time())
            return
        self._version = view.questions_version
        questions = self.link.questions()
        self.set_class(not questions and not self.jobs.jobs, "-empty")
        self.inbox.show(questions, time.time())
        self.query_one(".count", Static).update(_count(questions))

    def _look_at_jobs(self, view: CoreView) -> None:
        now = time.time()
        if view.jobs_version == self._jobs_version:
            self.jobs.tick(now)
            return
        self._jobs_version = view.jobs_version
        jobs = self.link.jobs()
        self.set_class(not jobs, "-jobless")
        self.set_class(not jobs and not self.inbox.questions, "-empty")
        self.jobs.show(jobs, now)
        ended = sum(1 for job in jobs if job.status.is_final)
        self.query_one("#jobs-count", Static).update(_counted("Jobs", f"{len(jobs) - ended} running", ended))

    @property
    def jobs(self) -> JobList:
        """The rows of jobs."""
        return self.query_one(JobList)

    @property
    def inbox(self) -> InboxList:
        """The rows."""
        return self.query_one(InboxList)

    def action_open(self) -> None:
        """Answer the selected question, or go to how it ended."""
        if self.inbox.selected is not None:
            self._open(self.inbox.selected)

    def action_decline(self) -> None:
        """Decline the selected question, with a reason."""
        question = self.inbox.selected
        if question is None or question.state is not QuestionState.WAITING:
            self.notify("No waiting question is selected.", markup=False)
            return
        from mcpdesk.tui.widgets.question_dialog import QuestionScreen

        self.app.push_screen(QuestionScreen(self.link, question, declining=True))

    def action_cancel_job(self) -> None:
        """End the selected job, once the list of jobs is where the keys go."""
        job = self.jobs.selected
        if job is not None and not self.jobs.has_focus:
            self.jobs.focus()
        elif job is None or job.status.is_final:
            self.notify("No running job is selected.", markup=False)
        else:
            self.link.cancel_job(job.id)

    def action_back(self) -> None:
        """Leave the detail."""
        self.inbox.focus()

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
    def _show_detail(self, event: InboxList.Moved) -> None:
        detail = self.query_one(VerticalScroll)
        detail.display = event.question is not None
        if event.question is not None:
            detail.border_title = Content(_origin(event.question))
            detail.query_one(Static).update(in_full(event.question))

    @on(InboxList.Opened)
    def _opened(self, event: InboxList.Opened) -> None:
        self._open(event.question)

    def _open(self, question: Question) -> None:
        if question.state is QuestionState.WAITING:
            self.app.main.ask(question)
        else:
            self.query_one(VerticalScroll).focus()


def _origin(question: Question) -> str:
    peer, tool, server = (one_line(text, 30) for text in (question.peer, question.tool, question.server))
    return f"{peer} through {tool} of {server}"


def _count(questions: tuple[Question, ...]) -> Content:
    waiting = sum(1 for one in questions if one.state is QuestionState.WAITING)
    return _counted("Inbox", f"{waiting} waiting", len(questions) - waiting)


def _counted(what: str, now: str, ended: int) -> Content:
    return Content.assemble((f"{what}  ", "bold $text-primary"), f"{now} · {ended} ended")
