"""Keeps the screen up to date: reads the core's state 20 times a second, at rest less often.

This is the only place of the screen that catches any exception: a pane that fails is logged and named in a
toast, and the rest goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from textual.timer import Timer
from textual.widget import Widget

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, JobState, JobView, Notice, Severity
from mcpdesk.tui.forms.question_text import DESK
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.tabs import SCREENS

PERIOD_S = 1 / 20
AWAKE_BEATS = 40
"""Beats after the last change or key before the screen rests."""
REST_S = 1 / 5
"""At rest: how often it sees whether a frame came, which costs next to nothing."""
RESTING_BEATS_A_REFRESH = 3
"""At rest: for what changes without a frame, such as time, and what servers do on their own."""
BUSY_FRAMES = 100
"""Frames in one beat from which on clients have the first call on the processor."""
BUSY_BEATS = 3
"""The screen is then refreshed at every third beat, unless somebody types."""
CATCH_UP_S = 0.02
"""What a beat may spend on pairing frames that a busy time left unpaired."""
TOASTS_AT_ONCE = 3
_log = logging.getLogger(__name__)


class RefreshedScreen(Protocol):
    """What the main screen offers to be kept up to date."""

    link: Link
    questions: WaitingQuestions

    @property
    def shown(self) -> str:
        """Name of the pane that is shown."""

    @property
    def pane(self) -> Widget | None:
        """The pane that is shown."""

    @property
    def is_calm(self) -> bool:
        """Whether no key was pressed just now."""

    @property
    def is_idle(self) -> bool:
        """Whether a question may open by itself."""

    @property
    def expects_own_question(self) -> bool:
        """Whether a question of the desk's own call may open by itself."""

    def show_header(self, view: CoreView, waiting: tuple[Question, ...]) -> None:
        """Bring header and tabs up to date."""

    def announce(self, question: Question | None) -> None:
        """Show the banner of a question, or none."""

    def ask(self, question: Question) -> None:
        """Open the dialog of a question."""

    def lead_to(self, part: str) -> None:
        """Show this part of the activity screen at its next visit."""

    def notify(self, message: str, *, severity: Any = "information", markup: bool = True) -> None:
        """Show a toast."""

    def set_interval(self, interval: float, callback: Callable[[], None], *, pause: bool = False) -> Timer:
        """Call something again and again."""


class WaitingQuestions:
    """The questions nobody has answered, and which of them were opened."""

    def __init__(self, link: Link, opened: Collection[int] = ()) -> None:
        """`opened` are numbers of questions that do not open by themselves."""
        self._link = link
        self._version = -1
        self._opened = set(opened)
        self.waiting: tuple[Question, ...] = ()
        """Oldest first."""

    @property
    def opened(self) -> frozenset[int]:
        """Numbers of the questions that were opened: they do not open by themselves again."""
        return frozenset(self._opened)

    @property
    def next(self) -> Question | None:
        """The question that the banner announces and that a key opens.

        First one that a call of the desk's own asks, then one that was not opened yet, then the one that has
        waited longest.
        """
        fresh = [one for one in self.waiting if one.id not in self._opened]
        own = [one for one in fresh if one.peer == DESK]
        return next(iter([*own, *fresh, *self.waiting]), None)

    def after(self, number: int) -> Question | None:
        """The question that waits after this one, after the last the first; None when no other waits."""
        others = [one for one in self.waiting if one.id != number]
        return next((one for one in others if one.id > number), others[0] if others else None)

    def mark_opened(self, question: Question) -> None:
        """Remember that a question was opened."""
        self._opened.add(question.id)

    def update(self, view: CoreView) -> None:
        """Read the questions again where they have changed."""
        if view.questions_version != self._version:
            asked = self._link.questions()
            self._version = view.questions_version
            self.waiting = tuple(one for one in asked if one.state is QuestionState.WAITING)


class FailedJobs:
    """Tells which jobs failed since the last time. Those that had failed before the first are not told."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._version: int | None = None
        self._known: frozenset[str] | None = None
        """Ids of those that had failed the last time; None before the first."""

    def new(self, view: CoreView) -> list[JobView]:
        """Jobs that have failed since the last time, also those that began after it."""
        if view.work.jobs_version == self._version:
            return []
        self._version = view.work.jobs_version
        failed = [job for job in self._link.jobs() if job.state is JobState.FAILED]
        known, self._known = self._known, frozenset(job.id for job in failed)
        return [] if known is None else [job for job in failed if job.id not in known]


class ScreenRefresher:
    """Refreshes one main screen."""

    def __init__(self, main: RefreshedScreen) -> None:
        self._main = main
        self._link = main.link
        self._frames = -1
        self._quiet_beats = 0
        self._busy_beats = 0
        self._resting_beats = 0
        self.is_resting = False
        """Whether nothing came and nobody did anything for a while."""
        self._timers: tuple[Timer, Timer] | None = None
        self._notice = -1
        self._problems: dict[str, str] = {}
        self._failed_jobs = FailedJobs(main.link)

    def start(self) -> None:
        """Start the timers. One of the two is always paused and wakes nobody."""
        resting = self._main.set_interval(REST_S, self.resting_beat, pause=True)
        self._timers = self._main.set_interval(PERIOD_S, self.beat), resting

    def wake(self) -> None:
        """Refresh often again, and now: somebody does something, or something came."""
        self._quiet_beats = 0
        if self.is_resting:
            self._set_resting(False)

    def resting_beat(self) -> None:
        """One beat of the timer at rest."""
        self._resting_beats += 1
        if self._link.traffic.frame_count != self._frames:
            self.wake()
        elif self._resting_beats % RESTING_BEATS_A_REFRESH == 0:
            self.refresh()

    def beat(self) -> None:
        """One beat of the timer: refresh, but less often while very much comes and nobody types."""
        traffic = self._link.traffic
        frames = traffic.frame_count
        came, self._frames = frames - self._frames, frames
        is_calm = self._main.is_calm
        self._busy_beats = self._busy_beats + 1 if is_calm and came >= BUSY_FRAMES else 0
        is_behind = traffic.paired < frames
        self._quiet_beats = 0 if came or is_behind or not is_calm else self._quiet_beats + 1
        if came < BUSY_FRAMES and is_behind:
            traffic.catch_up(CATCH_UP_S)
        if self._busy_beats % BUSY_BEATS == 0:
            self.refresh()
        if self._quiet_beats > AWAKE_BEATS:
            self._set_resting(True)

    def refresh(self) -> None:
        """Read the core's state once and bring everything visible up to date."""
        view = self._try("core", self._link.view)
        if view is None:
            return
        questions = self._main.questions
        self._try("questions", lambda: questions.update(view))
        self._try("header", lambda: self._main.show_header(view, questions.waiting))
        self._try("notices", self._show_notices)
        self._try("jobs", lambda: self._report_failed_jobs(view))
        self._try("question", self._offer_question)
        self.refresh_pane(self._main.pane, view)

    def refresh_pane(self, pane: Widget | None, view: CoreView | None = None) -> None:
        """Bring one pane up to date."""
        current = view or self._try("core", self._link.view)
        show: Callable[[CoreView], None] | None = getattr(pane, "show_view", None)
        if show is not None and current is not None:
            self._try(f"{self._main.shown} pane", lambda: show(current))

    def _set_resting(self, is_resting: bool) -> None:
        self.is_resting = is_resting
        if self._timers is not None:
            for timer, is_due in zip(self._timers, (not is_resting, is_resting), strict=True):
                (timer.resume if is_due else timer.pause)()

    def _offer_question(self) -> None:
        question = self._main.questions.next
        if question is None or question.id in self._main.questions.opened:
            self._main.announce(None)
        elif self._main.is_idle or (question.peer == DESK and self._main.expects_own_question):
            self._main.ask(question)
        else:
            self._main.announce(question)

    def _show_notices(self) -> None:
        notices = self._link.notices(self._notice)
        if not notices:
            return
        self._notice = notices[-1].number
        for notice in notices[-TOASTS_AT_ONCE:]:
            self._toast(notice)
        if (hidden := len(notices) - TOASTS_AT_ONCE) > 0:
            self._main.notify(f"and {hidden} more · {SCREENS['logs'].keys} logs", markup=False)

    def _report_failed_jobs(self, view: CoreView) -> None:
        for job in self._failed_jobs.new(view)[-TOASTS_AT_ONCE:]:
            which = f"Job {job.number}" if job.number else job.kind.value.capitalize()
            because = job.message.removeprefix(f"{job.name} failed with ")
            because = f" ({because})" if because else ""
            text = f"{which} of {job.server} failed{because}: {job.name}"
            self._toast(Notice(0, text, Severity.WARNING, "activity/jobs"))

    def _toast(self, notice: Notice) -> None:
        screen, _, part = notice.screen.partition("/")
        target = SCREENS.get(screen)
        is_elsewhere = target is not None and screen != self._main.shown
        self._main.lead_to(part)
        hint = f" · {target.keys} {target.title.lower()}" if target is not None and is_elsewhere else ""
        text = one_line(notice.text, 90) + hint
        self._main.notify(text, severity=notice.severity.value, markup=False)

    def _try(self, what: str, step: Callable[[], CoreView | None]) -> CoreView | None:
        """Do one step; an exception is logged and shown, once until the step succeeds again."""
        try:
            view = step()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if self._problems.get(what) != problem:
                self._problems[what] = problem
                _log.exception("the %s could not be shown", what)
                text = one_line(f"The {what} could not be shown: {problem}", 110)
                self._main.notify(text, severity="error", markup=False)
            return None
        self._problems.pop(what, None)
        return view
