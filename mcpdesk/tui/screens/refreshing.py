"""Updates of the main screen. The core is read when it reports a change, at most 20 times a second.

A *beat* is one run of the timer that refreshes the screen. Some beats do not refresh it: while the screen
*rests*, because there were no frames and keys for some time, and under load. If a pane fails, `GuardedSteps`
logs the error and notifies the person, and the other panes continue. No other part of the screen catches all
exceptions.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from textual.app import ScreenStackError
from textual.css.query import NoMatches
from textual.dom import NoScreen
from textual.screen import Screen

from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.following import MIN_REFRESH_PERIOD_S, TICK_S
from mcpdesk.tui.forms.question_text import DESK
from mcpdesk.tui.render.safe_text import one_line

TRAILING_TICKS = 2
"""Number of further updates after the last change, because some panes show a part of a change later."""
AWAKE_BEATS = 40
"""If the core does not report changes, the screen rests after this many beats without a change or a key."""
REST_BEAT_S = 1 / 5
"""Seconds between two beats while the screen rests. Each beat only checks for new frames."""
COVERED_BEAT_S = 1 / 2
"""Seconds between two beats while a dialog covers the screen."""
RESTING_BEATS = 3
"""While the screen rests, one beat in this many refreshes it. This shows changes without frames, such as the
time."""
BUSY_FRAMES = 100
"""Minimum number of frames in one beat for load. Under load, the screen may be refreshed less often."""
TYPING_FRAMES = 25
"""Like `BUSY_FRAMES`, but while the person types."""
BUSY_CPU_SHARE = 0.05
"""Share of a processor that refreshes may use under load."""
TYPING_CPU_SHARE = 0.25
"""Like `BUSY_CPU_SHARE`, but while the person types, or if the core is in another process."""
BUSY_PERIOD_S = 1.0
"""Maximum seconds between two refreshes under load."""
BUSY_REMOTE_PERIOD_S = 0.35
"""Like `BUSY_PERIOD_S`, but if the core, with its clients, is in another process."""
CATCH_UP_STEP_S = 0.008
"""Seconds of one step that pairs the requests and responses of a busy period."""
CATCH_UP_PAUSE_S = 0.002
"""Seconds between two of these steps."""
_log = logging.getLogger(__name__)


class WaitingQuestions:
    """Questions that wait for an answer. Some of them were already opened."""

    def __init__(self, link: Link, opened: Collection[int] = ()) -> None:
        self._link = link
        self._version = -1
        self.opened = set(opened)
        """Ids of the questions that were already opened. They do not open automatically again."""
        self.waiting: tuple[Question, ...] = ()
        """Waiting questions, oldest first."""

    @property
    def next(self) -> Question | None:
        """Question that the banner announces and a key opens.

        Questions of the desk's own calls come first, then questions that were not opened yet. Among equal
        questions, the one that has waited longest comes first.
        """

        def rank(question: Question) -> int:
            if question.id in self.opened:
                return 2
            return 0 if question.peer == DESK else 1

        return min(self.waiting, key=rank, default=None)

    def after(self, number: int) -> Question | None:
        """Return the next waiting question after the question with the id `number`.

        After the last question, return the first one. Return None if no other question waits.
        """
        others = [question for question in self.waiting if question.id != number]
        later_questions = (question for question in others if question.id > number)
        return next(later_questions, others[0] if others else None)

    def update(self, view: CoreView) -> None:
        """Read the questions if they have changed."""
        if view.questions_version != self._version:
            questions = self._link.questions()
            self._version = view.questions_version
            self.waiting = tuple(one for one in questions if one.state is QuestionState.WAITING)


class ScreenRefresher:
    """Decides when the main screen is refreshed."""

    def __init__(
        self,
        screen: Screen[Any],
        link: Link,
        refresh: Callable[[], None],
        is_keyboard_idle: Callable[[], bool],
        tick_s: Callable[[], float | None],
    ) -> None:
        """Create the object. `refresh` updates everything that is visible.

        `is_keyboard_idle` returns True if no key was pressed in the last seconds. `tick_s` returns the
        seconds until a clock on the screen must be refreshed, or None.
        """
        self._screen = screen
        self._link = link
        self.refresh = refresh
        self._is_keyboard_idle = is_keyboard_idle
        self._tick_s = tick_s
        self._seen_frames = -1
        self._quiet_beats = 0
        """Number of beats since the last frame or key."""
        self._last_refresh = (-math.inf, 0.0)
        """Monotonic time of the last refresh, and processor time that the thread had used by then."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = copy_context()
        """Context that identifies the application to Textual in calls from other threads."""
        self._stop_listening: Callable[[], None] = lambda: None
        self._has_reported_change = False
        """True if a change was reported after the last beat."""
        self._last_beat = -math.inf
        """Monotonic time of the last beat."""
        self._trailing_updates = 0
        """Number of updates that remain after the last change."""
        self._is_late = False
        """True if the last beat postponed a refresh, or the pairing of frames, to the next beat."""
        self._is_catching_up = False
        """True if the next step that pairs frames is scheduled."""
        self._is_next_beat_slow = False
        """True if the next beat is more than `MIN_REFRESH_PERIOD_S` away, or is not scheduled."""

    @property
    def is_resting(self) -> bool:
        """True after some time without frames and keys."""
        return self._quiet_beats > AWAKE_BEATS

    @property
    def is_waiting(self) -> bool:
        """True if no beat is scheduled, and only a reported change or a key causes the next one."""
        return self._loop is not None and self._timer is None

    def start(self) -> None:
        """Start to refresh: after reported changes, and while a clock is shown."""
        self._loop, self._context = asyncio.get_running_loop(), copy_context()
        self._stop_listening = self._link.on_change(self._changed)
        self._trailing_updates = TRAILING_TICKS
        self._schedule_beat()

    def stop(self) -> None:
        """Stop listening to the core."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()

    def _changed(self) -> None:
        """Schedule a refresh.

        Called often, and on any thread. Only the first call after a beat has an effect.
        """
        if not self._has_reported_change and self._loop is not None:
            self._has_reported_change = True
            with suppress(RuntimeError):  # the loop is closed: the screen has ended
                self._loop.call_soon_threadsafe(self._refresh_soon, context=self._context)

    def _refresh_soon(self) -> None:
        """Run the next beat now, or one period after the last beat, unless it is due soon anyway."""
        if self._is_next_beat_slow and self._screen.is_attached:
            period_s = MIN_REFRESH_PERIOD_S if self._screen.is_active else COVERED_BEAT_S
            delay_s = self._last_beat + period_s - time.monotonic()
            if delay_s > 0:
                self._schedule_beat_in(delay_s)
            else:
                self._tick()

    def _schedule_beat(self) -> None:
        """Set the timer for the next beat. Set no timer if only a reported change causes the next beat.

        Beats are slow while a dialog covers the screen, because Textual draws the screen and everything above
        it completely whenever a timer fires.
        """
        delay_s = self._seconds_to_beat()
        if delay_s is None:
            self._is_next_beat_slow, self._timer = True, None
        else:
            self._schedule_beat_in(delay_s)

    def _schedule_beat_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._is_next_beat_slow = delay_s > MIN_REFRESH_PERIOD_S
        self._timer = self._call_later(delay_s, self._tick)

    def _call_later(self, delay_s: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call a function after a delay. A one-shot timer of Textual would not fire if it is due at once."""
        loop = self._loop or asyncio.get_running_loop()
        return loop.call_later(delay_s, function, context=self._context)

    def _seconds_to_beat(self) -> float | None:
        """Return the seconds until the next beat, or None if only a reported change causes the next beat."""
        is_active = self._screen.is_active
        if not self._link.reports_changes:
            if not is_active:
                return COVERED_BEAT_S
            return REST_BEAT_S if self.is_resting else MIN_REFRESH_PERIOD_S
        if self._has_reported_change or self._is_late or not self._is_keyboard_idle():
            return MIN_REFRESH_PERIOD_S if is_active else COVERED_BEAT_S
        tick_s = self._tick_s()
        if not self._trailing_updates:
            return tick_s
        return TICK_S if tick_s is None else min(TICK_S, tick_s)

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._screen.is_attached:
            try:
                self.beat()
            finally:
                self._schedule_beat()

    def wake(self) -> None:
        """Refresh often again, and refresh soon, because the person pressed a key."""
        self._quiet_beats = 0
        if self._is_next_beat_slow and self._loop is not None and self._screen.is_active:
            self._schedule_beat_in(MIN_REFRESH_PERIOD_S)

    def beat(self) -> None:
        """Refresh the screen. While it rests, and under load, only some beats refresh it."""
        has_reported_change = self._has_reported_change
        self._has_reported_change = False
        self._last_beat = time.monotonic()
        traffic = self._link.traffic
        new_frames = traffic.frame_count - self._seen_frames
        self._seen_frames += new_frames
        is_keyboard_idle = self._is_keyboard_idle()
        is_behind = traffic.paired < self._seen_frames
        max_share = BUSY_CPU_SHARE if is_keyboard_idle and not self._link.is_remote else TYPING_CPU_SHARE
        is_busy = new_frames >= (BUSY_FRAMES if is_keyboard_idle else TYPING_FRAMES)
        self._quiet_beats = 0 if new_frames or is_behind or not is_keyboard_idle else self._quiet_beats + 1
        if new_frames < BUSY_FRAMES and is_behind and not self._is_catching_up:
            self._catch_up()
        remaining_updates = max(0, self._trailing_updates - 1)
        self._trailing_updates = TRAILING_TICKS if new_frames or has_reported_change else remaining_updates
        resting_beats = 0 if self._link.reports_changes else max(0, self._quiet_beats - AWAKE_BEATS)
        must_wait = is_busy and self._has_used_share(max_share)
        self._is_late = is_behind or must_wait
        if resting_beats % RESTING_BEATS == 0 and not must_wait:
            self._last_refresh = (time.monotonic(), time.thread_time())
            self.refresh()

    def _catch_up(self) -> None:
        if not self._screen.is_attached:
            return
        is_behind = self._link.traffic.catch_up(CATCH_UP_STEP_S)
        is_quiet = self._link.traffic.frame_count - self._seen_frames < BUSY_FRAMES
        # Whenever a timer of a covered screen fires, Textual draws this screen completely.
        self._is_catching_up = is_behind and is_quiet and self._screen.is_active
        if self._is_catching_up:
            self._call_later(CATCH_UP_PAUSE_S, self._catch_up)

    def _has_used_share(self, max_share: float) -> bool:
        """Return True if the thread has used more than `max_share` of a processor since the last refresh.

        Return False if the last refresh was so long ago that the next one must not wait.
        """
        refresh_time, thread_time_s = self._last_refresh
        elapsed_s = time.monotonic() - refresh_time
        used_s = time.thread_time() - thread_time_s
        max_period_s = BUSY_REMOTE_PERIOD_S if self._link.is_remote else BUSY_PERIOD_S
        return elapsed_s < max_period_s and used_s > max_share * elapsed_s


class GuardedSteps:
    """Steps of a refresh. If one fails, the others still run."""

    def __init__(self, show: Callable[[str], None]) -> None:
        """Create the object. `show` shows an error to the person."""
        self._show = show
        self._shown_problems: dict[str, str] = {}
        """Error of each part that could not be shown at the last refresh."""
        self._incomplete_parts: set[str] = set()
        """Parts whose widgets were missing at the last refresh."""

    def run(self, part: str, step: Callable[[], CoreView | None]) -> CoreView | None:
        """Run one step. If it fails, log and show the exception once, until the step succeeds again."""
        try:
            view = step()
        except (ScreenStackError, NoScreen):
            return None  # the screen, or a part of it, is already closed
        except Exception as error:
            if isinstance(error, NoMatches) and part not in self._incomplete_parts:
                # At exit, widgets close from the bottom up. If this is a bug, the next refresh reports it.
                self._incomplete_parts.add(part)
                return None
            problem = f"{type(error).__name__}: {error}"
            if self._shown_problems.get(part) != problem:
                self._shown_problems[part] = problem
                _log.exception("the %s could not be shown", part)
                text = one_line(f"The {part} could not be shown: {problem}")
                self._show(text)
            return None
        self._shown_problems.pop(part, None)
        self._incomplete_parts.discard(part)
        return view
