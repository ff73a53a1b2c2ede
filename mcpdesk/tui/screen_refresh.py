"""The pulse of the screen: looks at the core twenty times a second, at rest less often, and shows changes.

The one place of the screen where any exception is caught: a pane that fails is logged and named in a toast,
and the rest goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, JobState, JobView, Notice, Severity
from mcpdesk.tui.forms.question_text import DESK
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.tabs import SCREENS

if TYPE_CHECKING:
    from textual.timer import Timer
    from textual.widget import Widget

    from mcpdesk.tui.screens.main_screen import MainScreen

PERIOD_S = 1 / 20
AWAKE_BEATS = 40
"""Beats after the last movement before the screen rests."""
REST_S = 1 / 5
"""At rest: how often it sees whether anything came, which costs next to nothing."""
GLANCES_A_LOOK = 3
"""At rest: for what moves without a frame, such as time, and what servers do on their own."""
BUSY_FRAMES = 100
"""Frames in one beat from which on clients have the first call on the processor."""
BUSY_BEATS = 3
"""The screen then looks at every third beat, unless somebody types."""
CATCH_UP_S = 0.02
"""What a beat may spend on pairing frames that a busy time left unpaired."""
TOASTS_AT_ONCE = 3
_log = logging.getLogger(__name__)


class Feed:
    """Looks on behalf of one main screen."""

    def __init__(self, main: MainScreen, opened: Collection[int] = ()) -> None:
        """`opened` are questions that do not open by themselves."""
        self._main = main
        self._link = main.link
        self._frames = -1
        self._quiet_beats = 0
        self._busy_beats = 0
        self._glances = 0
        self.is_resting = False
        """Whether nothing came and nobody did anything for a while."""
        self._timers: tuple[Timer, Timer] | None = None
        self._notice = -1
        self._failed: dict[str, str] = {}
        self._questions_version = -1
        self._waiting: tuple[Question, ...] = ()
        self._put = set(opened)
        self._jobs = JobWatch(main.link)

    @property
    def waiting(self) -> tuple[Question, ...]:
        """Questions nobody has answered, oldest first."""
        return self._waiting

    @property
    def next_question(self) -> Question | None:
        """The question that the banner announces and that a key opens.

        First one that a call of the desk's own asks, then one that was not opened yet, then the one that has
        waited longest.
        """
        fresh = [one for one in self._waiting if one.id not in self._put]
        own = [one for one in fresh if one.peer == DESK]
        return next(iter([*own, *fresh, *self._waiting]), None)

    def question_after(self, number: int) -> Question | None:
        """The question that waits after this one, after the last the first; None when no other waits."""
        others = [one for one in self._waiting if one.id != number]
        return next((one for one in others if one.id > number), others[0] if others else None)

    def start(self) -> None:
        """Begin to look. Of the two timers one stands still: it wakes nobody."""
        main = self._main
        resting = main.set_interval(REST_S, self.glance, pause=True)
        self._timers = main.set_interval(PERIOD_S, self.pulse), resting

    def stir(self) -> None:
        """Somebody does something, or something came: look often again, and now."""
        self._quiet_beats = 0
        if self.is_resting:
            self._turn(is_resting=False)

    def glance(self) -> None:
        """One beat at rest."""
        self._glances += 1
        if self._link.traffic.frame_count != self._frames:
            self.stir()
        elif self._glances % GLANCES_A_LOOK == 0:
            self.tick()

    def pulse(self) -> None:
        """One beat of the timer: look, but less often while very much comes and nobody types."""
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
            self.tick()
        if self._quiet_beats > AWAKE_BEATS:
            self._turn(is_resting=True)

    def tick(self) -> None:
        """One look at everything that is visible."""
        view = self._try("core", self._link.view)
        if view is None:
            return
        self._try("questions", lambda: self._count(view))
        self._try("header", lambda: self._main.show_header(view, self._waiting))
        self._try("notices", self._announce)
        self._try("jobs", lambda: self._mourn(view))
        self._try("question", self._offer)
        self.look_at(self._main.pane, view)

    def look_at(self, pane: Widget | None, view: CoreView | None = None) -> None:
        """Let a pane look at the core."""
        seen = view or self._try("core", self._link.view)
        look: Callable[[CoreView], None] | None = getattr(pane, "look", None)
        if look is not None and seen is not None:
            self._try(f"{self._main.shown} pane", lambda: look(seen))

    @property
    def opened(self) -> frozenset[int]:
        """Questions that were opened."""
        return frozenset(self._put)

    def put(self, question: Question) -> None:
        """Remember that a question was opened: it does not open by itself again."""
        self._put.add(question.id)

    def _turn(self, *, is_resting: bool) -> None:
        self.is_resting = is_resting
        if self._timers is not None:
            for timer, is_due in zip(self._timers, (not is_resting, is_resting), strict=True):
                (timer.resume if is_due else timer.pause)()

    def _count(self, view: CoreView) -> None:
        if view.questions_version != self._questions_version:
            asked = self._link.questions()
            self._questions_version = view.questions_version
            self._waiting = tuple(one for one in asked if one.state is QuestionState.WAITING)

    def _offer(self) -> None:
        question = self.next_question
        if question is None or question.id in self._put:
            self._main.banner(None)
        elif self._main.is_idle or (question.peer == DESK and self._main.expects_own_question):
            self._main.ask(question)
        else:
            self._main.banner(question)

    def _announce(self) -> None:
        notices = self._link.notices(self._notice)
        if not notices:
            return
        self._notice = notices[-1].number
        for notice in notices[-TOASTS_AT_ONCE:]:
            self._toast(notice)
        if (hidden := len(notices) - TOASTS_AT_ONCE) > 0:
            self._main.notify(f"and {hidden} more · {SCREENS['logs'].keys} logs", markup=False)

    def _mourn(self, view: CoreView) -> None:
        """Say which jobs failed."""
        failed = self._jobs.failed(view)
        for job in failed[-TOASTS_AT_ONCE:]:
            which = f"Job {job.number}" if job.number else job.kind.value.capitalize()
            because = job.message.removeprefix(f"{job.name} failed with ")
            because = f" ({because})" if because else ""
            text = f"{which} of {job.server} failed{because}: {job.name}"
            self._toast(Notice(0, text, Severity.WARNING, "activity/jobs"))

    def _toast(self, notice: Notice) -> None:
        screen, _, part = notice.screen.partition("/")
        target = SCREENS.get(screen)
        away = target is not None and screen != self._main.shown
        self._main.lead_to(part)
        lead = f" · {target.keys} {target.title.lower()}" if target is not None and away else ""
        text = one_line(notice.text, 90) + lead
        self._main.notify(text, severity=notice.severity.value, markup=False)

    def _try(self, what: str, look: Callable[[], CoreView | None]) -> CoreView | None:
        try:
            seen = look()
        except Exception as error:
            self._report(what, error)
            return None
        self._failed.pop(what, None)
        return seen

    def _report(self, what: str, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        if self._failed.get(what) == said:
            return
        self._failed[what] = said
        _log.exception("the %s could not be shown", what)
        self._main.notify(
            one_line(f"The {what} could not be shown: {said}", 110), severity="error", markup=False
        )


class JobWatch:
    """Looks on behalf of one screen. Jobs that had failed before its first look are not told."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._version: int | None = None
        self._failed: frozenset[str] | None = None
        """Those that had failed at the last look; None before the first one."""

    def failed(self, view: CoreView) -> list[JobView]:
        """Jobs that have failed since the last look, also those that began after it."""
        if view.work.jobs_version == self._version:
            return []
        self._version = view.work.jobs_version
        failed = [job for job in self._link.jobs() if job.state is JobState.FAILED]
        told, self._failed = self._failed, frozenset(job.id for job in failed)
        return [] if told is None else [job for job in failed if job.id not in told]
