"""Main screen, with header, tabs, the panes, and footer."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.widget import MountError, Widget
from textual.widgets import ContentSwitcher, Static

from mcpdesk.inbox.question import Question
from mcpdesk.link.link import Link
from mcpdesk.link.local.server_states import down_servers
from mcpdesk.link.values import CoreView, JobState, Notice, ServerView, Severity
from mcpdesk.tui.actions import FEATURE_ACTIONS, SCREENS, bindings_for, with_feature_actions
from mcpdesk.tui.crash import ScreenPosition
from mcpdesk.tui.feature_signs import signs_of
from mcpdesk.tui.following import MIN_REFRESH_PERIOD_S, TICK_S
from mcpdesk.tui.forms.question_text import DESK, QuestionBanner
from mcpdesk.tui.screens.frame_lines import (
    SPARK_SECONDS,
    DeskFooter,
    DeskHeader,
    DeskTabs,
    NewsRow,
)
from mcpdesk.tui.screens.refreshing import GuardedSteps, ScreenRefresher, WaitingQuestions
from mcpdesk.tui.sequences import SequenceBox
from mcpdesk.tui.terminal import KeyPause, is_typed
from mcpdesk.tui.widgets.beside import MIN_WIDTH_BESIDE, ListWithDetails
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.workbench.save_watch import SaveWatch

News = tuple[str, SeverityLevel, str]
"""Text, severity, and the hint that ends the line: it names a helpful key, or is empty."""
Panes = Mapping[str, Callable[["Link"], Widget]]
"""Functions that create the panes, by name of the screen."""


def _pane(module: str, class_name: str) -> Callable[[Link], Widget]:
    """Return a function that imports and creates a pane.

    The function is called at the first visit, so that the first paint is faster.
    """

    def create_pane(link: Link) -> Widget:
        pane: Widget = getattr(import_module(module), class_name)(link)
        return pane

    return create_pane


PANES: Panes = {
    "workbench": _pane("mcpdesk.tui.screens.workbench", "WorkbenchPane"),
    "traffic": _pane("mcpdesk.tui.traffic.traffic_pane", "TrafficPane"),
    "activity": _pane("mcpdesk.tui.screens.activity", "ActivityPane"),
    "clients": _pane("mcpdesk.tui.screens.clients", "ClientsPane"),
    "logs": _pane("mcpdesk.tui.screens.logs", "LogsPane"),
    "statistics": _pane("mcpdesk.tui.screens.statistics", "StatisticsPane"),
    "servers": _pane("mcpdesk.tui.screens.servers", "ServersPane"),
}
MIN_SIZE = (40, 10)
"""Minimum number of columns and rows. In a smaller terminal only a message is shown."""
TYPING_PAUSE_S = 1.0
"""Seconds after a key press during which nothing opens automatically."""
LEAD_TIME_S = 60.0
"""Seconds after a notice about a section of the activity screen. A visit of the screen in this time shows the
section."""
FIRST_PANE_S = 0.5
"""Maximum seconds for which the first pane waits until the core has loaded its folders. The pane is then laid
out and painted once, with its content."""
KEY_PAUSE_S = 0.4
"""Seconds for which typed keys are ignored after a question has closed. Each typed key extends the time."""
_log = logging.getLogger(__name__)


class DeskFunctions(NamedTuple):
    """Functions of the application around a main screen."""

    frame_is_painted: Callable[[], None]
    """Called once, when the frame around the panes was painted for the first time."""
    server_is_painted: Callable[[], None]
    """Called once, when a server was shown for the first time."""
    copy: Callable[[str, str], None]
    """Copies the first text to the clipboard. The second text describes it in a notification."""
    show_all_news: Callable[[Sequence[News]], None]
    """Keeps news items, and shows the most severe one."""


class MainScreen(Screen[None]):
    """Screen with the panes. `server` is the name of the selected server."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("main")
    AUTO_FOCUS = ""  # Textual would focus the first widget of any pane, including hidden ones.
    ALLOW_IN_MAXIMIZED_VIEW = "DeskHeader,DeskFooter,NewsRow,QuestionBanner"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (MIN_WIDTH_BESIDE, "-wide")]

    def __init__(
        self, link: Link, desk: DeskFunctions, panes: Panes = PANES, position: ScreenPosition | None = None
    ) -> None:
        super().__init__()
        self.link = link
        self.desk = desk
        self._position = position or ScreenPosition()
        self.server = self._position.server
        self.questions = WaitingQuestions(link, self._position.opened)
        self.saves = SaveWatch(link, self.refresh_view)
        self.refresher = ScreenRefresher(
            self, link, self.refresh_view, lambda: self.is_keyboard_idle, self._tick_s
        )
        self.last_key = -math.inf
        """Monotonic time when a key was last pressed."""
        self.last_call = -math.inf
        """Monotonic time when a key or click last made a call of the desk itself."""
        self.header, self.tabs, self.switcher = DeskHeader(), DeskTabs(panes), ContentSwitcher()
        self._banner, self.news, self._footer = QuestionBanner(), NewsRow(), DeskFooter()
        self.panes = panes
        self._first_name = self._position.screen if self._position.screen in panes else next(iter(panes))
        """Name of the screen that is shown first."""
        self._last_focus: dict[str, Widget] = {}
        self._key_pause = KeyPause(KEY_PAUSE_S)
        self._has_explained_pause = False
        self._is_core_loading = False
        """True while the first pane is not shown because the core has not loaded its folders."""
        self.awaits_pane = True
        """True until the first pane is shown. Typed keys wait for it."""
        self._has_server = False
        self.has_clock = False
        """True if the header or the banner shows a text that changes with time."""
        self._steps = GuardedSteps(lambda text: self.notify(text, severity="error", markup=False))
        self._last_notice = -1
        self._jobs_version: int | None = None
        self._failed_job_ids: Collection[str] | None = None
        """Ids of the failed jobs at the last read, or None before the first read."""
        self._badge = ""
        """Counts on the tab of the activity screen, such as `?1 ▸2`."""
        self._next_section = ("", 0.0)
        """Section of the activity screen that the last notice was about, and the monotonic time until which a
        visit of that screen shows this section."""
        self._screen_before_servers = ""
        """Screen that was shown before the list of servers."""
        self._mount_lock = asyncio.Lock()

    def compose(self) -> ComposeResult:
        """Compose the frame. Panes are created at their first visit."""
        yield from (self.header, self.tabs, self.switcher, self._banner, self.news, self._footer)
        width, height = MIN_SIZE
        yield Static(f"too small\nmcpdesk needs {width}x{height}", id="too-small")

    def on_mount(self) -> None:
        """Paint the frame. Then show the first pane and start to refresh."""
        self.tabs.mark(self._first_name)
        self.refresher.refresh()
        self.call_after_refresh(self._begin)

    async def _begin(self) -> None:
        """Show the first pane, but give the core up to `FIRST_PANE_S` seconds to load its folders before."""
        self.desk.frame_is_painted()
        view = self._steps.run("core", self.link.view)
        self._is_core_loading = view is not None and view.is_loading
        if self._is_core_loading:
            self.set_timer(FIRST_PANE_S, self._show_first_pane)
        else:
            await self._show_first_pane()
        self.refresher.refresh()
        self.refresher.start()

    async def _show_first_pane(self) -> None:
        """Show the first pane, unless a pane is shown because the person clicked on its tab."""
        self._is_core_loading = False
        if not self.shown:
            with suppress(MountError):  # the screen closed before it had a pane
                await self.show_screen(self._first_name)
                self.refresh_pane(self.pane)
        self.awaits_pane = False

    def on_unmount(self) -> None:
        """Stop refreshing."""
        self.refresher.stop()

    def on_screen_suspend(self) -> None:
        """Hide the keys of the pane while a dialog is open. The list of a sequence is not a dialog."""
        self._footer.set_covered(is_covered=not isinstance(self.app.screen, SequenceBox))

    def on_screen_resume(self) -> None:
        """Refresh at once after a dialog above has closed."""
        self._footer.set_covered(is_covered=False)
        self.refresher.wake()
        self.settle_focus()

    def on_resize(self, event: events.Resize) -> None:
        """In a terminal that is too small, show only a message. Otherwise restore the focus of the pane."""
        is_too_small = event.size.width < MIN_SIZE[0] or event.size.height < MIN_SIZE[1]
        if is_too_small and self.shown and self.focused is not None:
            self._last_focus[self.shown] = self.focused
        self.set_class(is_too_small, "-too-small")
        self.settle_focus()

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """Move the focus. If the widget's pane is hidden, the widget gets the focus when the pane is shown.

        A widget outside the maximized part ends the maximized view. If list and details take turns, the part
        with the widget is shown.
        """
        if widget is not None:
            pane = self._pane_of(widget)
            if pane is not None and not self._is_shown(pane):
                if pane.id and widget.focusable:
                    self._last_focus[pane.id] = widget
                return
            if self.maximized is not None and self.maximized not in widget.ancestors_with_self:
                self.minimize()
            for ancestor in widget.ancestors:
                if isinstance(ancestor, ListWithDetails):
                    ancestor.reveal(widget)
                    break
        super().set_focus(widget, scroll_visible, from_app_focus)

    def settle_focus(self) -> None:
        """If no visible widget has the focus, focus a widget of the shown pane."""
        pane = self.pane
        if pane is None or not self._is_shown(pane):
            self.set_focus(None)
        elif self.focused is None or not self._is_shown(self.focused):
            self._focus_pane(self.shown)

    def _pane_of(self, widget: Widget) -> Widget | None:
        """Return the pane that contains a widget, or None for a widget of the frame."""
        return next((one for one in self.switcher.children if one in widget.ancestors_with_self), None)

    def _is_shown(self, widget: Widget) -> bool:
        """Return True if the widget and all its ancestors are visible."""
        return widget.is_attached and all(one.display for one in widget.ancestors_with_self)

    @property
    def shown(self) -> str:
        """Name of the current screen."""
        return self.switcher.current or ""

    @property
    def pane(self) -> Widget | None:
        """Current pane, or None before the first one is mounted, and while the screen closes."""
        return next((one for one in self.switcher.children if one.id == self.shown), None)

    @property
    def target(self) -> str:
        """Name of the server on which actions act: the selected row of the list of servers, or `server`."""
        pane = self.pane
        return (pane.selected_server if isinstance(pane, Pane) else "") or self.server

    @property
    def server_view(self) -> ServerView | None:
        """Current state of the server `target`, or None if this server does not exist."""
        target = self.target
        return next((one for one in self.link.view().servers if one.name == target), None)

    @property
    def is_keyboard_idle(self) -> bool:
        """True if no key was pressed in the last `TYPING_PAUSE_S` seconds."""
        return time.monotonic() - self.last_key > TYPING_PAUSE_S

    @property
    def takes_keys(self) -> bool:
        """True if typed keys take effect. They are ignored just after a question has closed."""
        return self._key_pause.is_over

    def ignores(self, event: events.Event) -> bool:
        """Return True if the person probably typed a key for a dialog that has closed."""
        if not is_typed(event) or not self._key_pause.ignores_key():
            return False
        if not self._has_explained_pause:
            self._has_explained_pause = True
            self.notify("Keys typed while the question closed were ignored.", markup=False)
        return True

    def question_closes(self) -> None:
        """Ignore typed keys for a moment, because the person may still be typing for the closed question.

        Do not call this if the person closed the question with escape.
        """
        self._key_pause.begin()
        self._has_explained_pause = False

    def may_open(self, question: Question) -> bool:
        """Return True if a question may open automatically: no dialog is open, and the person is not typing.

        A question that a call of the desk itself asks may open although a field has the focus, unless the
        person has typed after the call.
        """
        is_own = question.peer == DESK
        is_not_typing = self.is_keyboard_idle or (is_own and self.last_key <= self.last_call)
        is_in_field = self.focused is not None and _takes_letters(self.focused)
        return self.app.screen is self and is_not_typing and (is_own or not is_in_field)

    def _tick_s(self) -> float | None:
        """Return the seconds until a clock must be refreshed, or None if no clock is shown."""
        ticks = [TICK_S] if self.has_clock else []
        pane = self.pane
        pane_tick_s = pane.tick_s() if self.is_active and isinstance(pane, Pane) else None
        if pane_tick_s is not None:
            ticks.append(pane_tick_s)
        return min(ticks, default=None)

    @property
    def _is_closing(self) -> bool:
        """True while Textual removes the screen.

        Its widgets close from the bottom up, in several turns of the event loop. The screen stays attached
        until the last one is closed.
        """
        return not self.display

    def refresh_view(self) -> None:
        """Read the state of the core once, and update everything that is visible."""
        if self._is_closing:
            return
        view = self._steps.run("core", self.link.view)
        if view is None:
            return
        if self._is_core_loading and not view.is_loading:
            self._is_core_loading = False
            self.call_later(self._show_first_pane)
        questions = self.questions
        self._steps.run("questions", lambda: questions.update(view))
        self._steps.run("header", lambda: self.show_header(view, questions.waiting))
        self._steps.run("notices", self._show_notices)
        self._steps.run("jobs", lambda: self._report_failed_jobs(view))
        self._steps.run("question", self._offer_question)
        self._steps.run("saves", lambda: self.saves.follow(self.app, view, self.target))
        self.refresh_pane(self.pane, view)

    def refresh_pane(self, pane: Widget | None, view: CoreView | None = None) -> None:
        """Update one pane. Without `view`, read the state of the core first."""
        if self._is_closing:
            return
        current_view = view or self._steps.run("core", self.link.view)
        # A pane without children is not composed yet, or is being removed.
        if isinstance(pane, Pane) and pane.children and current_view is not None:
            self._steps.run(f"{self.shown} pane", lambda: pane.show_view(current_view))

    def _offer_question(self) -> None:
        """Open the next question, or announce it if it may not open at present."""
        question = self.questions.next
        if question is None or question.id in self.questions.opened:
            self.announce(None)
        elif self.may_open(question):
            self.ask(question, is_automatic=True)
        else:
            self.announce(question)

    def _show_notices(self) -> None:
        notices = self.link.notices(self._last_notice)
        if not notices:
            return
        self._last_notice = notices[-1].number
        self.desk.show_all_news([self._news_of(notice) for notice in notices])

    def _report_failed_jobs(self, view: CoreView) -> None:
        """Show the jobs that have failed since this method was last called.

        The first call only stores the failed jobs, and shows none.
        """
        if view.work.jobs_version == self._jobs_version:
            return
        self._jobs_version = view.work.jobs_version
        failed_jobs = {job.id: job for job in self.link.jobs() if job.state is JobState.FAILED}
        known_ids, self._failed_job_ids = self._failed_job_ids, failed_jobs.keys()
        if known_ids is None:
            return
        news = []
        for job in failed_jobs.values():
            if job.id in known_ids:
                continue
            job_name = f"Job {job.number}" if job.number else job.kind.value.capitalize()
            reason = job.message.removeprefix(f"{job.name} failed with ")
            reason = f" ({reason})" if reason else ""
            text = f"{job_name} of {job.server} failed{reason}: {job.name}"
            news.append(self._news_of(Notice(0, text, Severity.WARNING, "activity/jobs")))
        if news:
            self.desk.show_all_news(news)

    def _news_of(self, notice: Notice) -> News:
        """Return the news item for a notice.

        If the notice names a section of the activity screen, that section is shown at the next visit.
        """
        screen, _, part = notice.screen.partition("/")
        if part and part == f"save/{self.target}":
            hint = " · v d shows what changed"
        else:
            hint = _screen_hint(screen) if screen != self.shown else ""
        if screen == "activity":
            self.show_section_later(part)
        return notice.text, notice.severity.value, hint

    def show_header(self, view: CoreView, waiting: tuple[Question, ...]) -> None:
        """Update header and tabs. If the selected server no longer exists, select another server."""
        names = [server.name for server in view.servers]
        if self.server not in names:
            self.server = names[0] if names else ""
        if not self._has_server and self.shown and self._has_catalogue(view):
            self._has_server = True
            self.set_timer(MIN_REFRESH_PERIOD_S, self.desk.server_is_painted)
        rates = self.link.traffic.rates(SPARK_SECONDS)
        may_fall_quiet = any(client.will_be_quiet(time.time()) for client in view.clients)
        has_callback = view.work.next_callback is not None
        self.has_clock = any((waiting, view.stuck, view.silent_s, has_callback, may_fall_quiet, any(rates)))
        unusable_servers = down_servers(view, self.link)
        signs = signs_of(self.link).header
        self.header.show_view(view, self.server, rates, len(waiting), signs, unusable_servers)
        self._footer.set_has_question(has_question=bool(waiting))
        jobs = view.work.running_jobs
        badges = [f"{glyph}{count}" for glyph, count in (("?", len(waiting)), ("▸", jobs)) if count]
        self._badge = " ".join(badges)
        self.tabs.mark(self.shown or self._first_name, self._badge)

    def _has_catalogue(self, view: CoreView) -> bool:
        """Return True if the catalogue of the selected server can be shown, because it is not connecting."""
        server = next((one for one in view.servers if one.name == self.server), None)
        return server is not None and (server.upstream is None or server.upstream.state != "connecting")

    async def show_screen(self, name: str) -> None:
        """Show a pane, and restore its focus."""
        if name != self.shown:
            if not self.shown:
                self._first_name = name  # so that the first pane does not replace the pane of a clicked tab
            if self.maximized:
                self.minimize()
            if self.shown and self.focused is not None:
                self._last_focus[self.shown] = self.focused
            if name == "servers":
                self._screen_before_servers = self.shown
            await self._mount_pane(name)
            self.switcher.current = name
            self.tabs.mark(name, self._badge)
            self._focus_pane(name)
        section, end_time = self._next_section
        if name == "activity" and time.monotonic() < end_time and isinstance(self.pane, Pane):
            self._next_section = ("", 0.0)
            self.pane.show_section(section)

    def position(self) -> ScreenPosition:
        """Return the position of the person on the screen.

        Exceptions of panes are logged, because this method is called after an exception ended the screen.
        """
        panes = dict[str, Any]()
        for pane in list(self.switcher.children):
            if pane.id and isinstance(pane, Pane):
                try:
                    if (position := pane.position()) is not None:
                        panes[pane.id] = position
                except Exception:
                    _log.exception("the position of the %s pane could not be saved", pane.id)
        return ScreenPosition(self.server, self.shown, panes, frozenset(self.questions.opened))

    def show_section_later(self, part: str) -> None:
        """Show a section of the activity screen at the next visit, if that is within `LEAD_TIME_S` seconds.

        `part` is the name of the section. An empty name is ignored.
        """
        if part:
            self._next_section = (part, time.monotonic() + LEAD_TIME_S)

    async def _mount_pane(self, name: str) -> None:
        # A click and a key may request the same pane at the same time. Only the first request adds it.
        async with self._mount_lock:
            if self.switcher.query_children(f"#{name}"):
                return
            pane = self.panes[name](self.link)
            pane.id = name
            await self.switcher.add_content(pane)
            if name in self._position.panes and isinstance(pane, Pane):
                self.refresh_pane(pane)
                pane.return_to(self._position.panes[name])

    def _focus_pane(self, name: str) -> None:
        pane = self.switcher.get_child_by_id(name)
        target = self._last_focus.get(name)
        if target is None or not self._is_shown(target) or not target.focusable:
            focusable_widgets = (
                one
                for one in pane.walk_children(Widget)
                if one.focusable and self._is_shown(one) and not _takes_letters(one)
            )
            target = next(focusable_widgets, pane)
            pane.can_focus = pane.can_focus or target is pane
        self.set_focus(target)

    def announce(self, question: Question | None) -> None:
        """Announce a question without moving the focus."""
        if self._banner.announce(question):
            self.app.bell()

    def ask(self, question: Question, *, is_automatic: bool = False) -> None:
        """Open the dialog of a question. `is_automatic` is True if it opens automatically."""
        self.questions.opened.add(question.id)
        self.announce(None)
        from mcpdesk.tui.forms.question_dialog import QuestionScreen

        self.app.push_screen(QuestionScreen(self.link, question, is_automatic=is_automatic))

    def action_open_question(self) -> None:
        """Open the question in the banner. Without a banner, open the question that has waited longest."""
        if (question := self.questions.next) is not None:
            self.ask(question)
        else:
            self.notify("No question is waiting.", markup=False)

    async def action_show_screen(self, name: str) -> None:
        """Show a screen. Digit keys and tabs use this."""
        await self.show_screen(name)

    async def action_show_part(self, part: str) -> None:
        """Show a section of the activity screen. Keys, and clicks on the header use this."""
        self.show_section_later(part)
        await self.show_screen("activity")

    def action_show_save(self) -> None:
        """Show the changes of the last save above the current screen."""
        self.saves.open_page(self.app, self.target)

    @work
    async def action_standing_approvals(self) -> None:
        """Show the permanent approvals, so that the person can revoke them."""
        from mcpdesk.tui.forms.access_prompts import choose_grant

        await choose_grant(self)

    def action_zoom(self) -> None:
        """Maximize the focused pane, or restore it."""
        if self.maximized:
            self.minimize()
        elif self.focused is not None:
            ancestors = (one for one in self.focused.ancestors_with_self if isinstance(one, Widget))
            maximizable = next((one for one in ancestors if one.allow_maximize), None)
            if maximizable is None:
                self.notify("This pane has no larger view.", markup=False)
            elif self.maximize(maximizable):
                self.notify("z shows the other panes again.", markup=False)

    @work
    async def action_jump(self) -> None:
        """Show a letter on each widget that can have the focus, and on each tab. Jump to the chosen one."""
        from mcpdesk.tui.screens.overlays import JumpScreen, TabTarget
        from mcpdesk.tui.widgets.choice_box import TabStrip

        widgets = [widget for widget in self.focus_chain if widget.is_on_screen]
        jump_targets: list[tuple[Widget | TabTarget, Region]] = [
            (widget, self.find_widget(widget).visible_region) for widget in widgets
        ]
        for strip in (self.pane or self).query(TabStrip):
            if strip.is_on_screen and not strip.can_focus:
                jump_targets += [
                    (TabTarget(strip, index), region) for index, region in enumerate(strip.title_regions())
                ]
        chosen = await self.app.push_screen_wait(JumpScreen([target for target in jump_targets if target[1]]))
        if isinstance(chosen, TabTarget):
            chosen.strip.pick(chosen.tab_index)
        elif isinstance(chosen, Widget):
            self.set_focus(chosen)
        elif chosen is not None and chosen in self.panes:
            await self.show_screen(chosen)

    @work
    async def action_action_menu(self) -> None:
        """Show the actions of the selected item and the focused pane."""
        from mcpdesk.tui.screens.action_menu import choose_action

        await choose_action(self)

    async def action_servers(self, part: str = "") -> None:
        """Show all servers. If `part` is `down`, the first server that is down is selected."""
        await self.show_screen("servers")
        if part and isinstance(self.pane, Pane):
            self.refresh_pane(self.pane)
            self.pane.show_section(part)

    async def leave_servers(self) -> None:
        """Return from the list of servers to the screen before."""
        await self.show_screen(self._screen_before_servers or next(iter(self.panes)))

    @work
    async def action_add_server(self) -> None:
        """Add a server to the desk."""
        from mcpdesk.tui.forms.server_prompts import add_server

        await add_server(self)

    @work
    async def action_remove_server(self) -> None:
        """Remove the selected server from the desk."""
        from mcpdesk.tui.forms.server_prompts import remove_server

        await remove_server(self)

    @work
    async def action_log_level(self) -> None:
        """Choose the log level of the server."""
        from mcpdesk.tui.forms.server_prompts import choose_log_level

        await choose_log_level(self)

    @work
    async def action_speak_revision(self) -> None:
        """Choose the protocol revision that the desk uses with the server."""
        from mcpdesk.tui.forms.server_prompts import choose_revision

        await choose_revision(self)

    def action_edit_roots(self) -> None:
        """Edit the roots that servers receive."""
        from mcpdesk.tui.forms.server_prompts import RootsPrompt

        self.app.push_screen(RootsPrompt(self.link))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for an action that has no effect at present.

        These are the key of the list of servers while it is shown, and actions of features that are not
        available on this core.
        """
        if action == "servers" and not parameters:
            return self.shown != "servers"
        if action == "show_save":
            return bool(self.target)
        feature_action = FEATURE_ACTIONS.get(f"main.{action}")
        return feature_action is None or feature_action.is_available(self.link.view())

    def action_about_server(self) -> None:
        """Show details of the server, without its items."""
        from mcpdesk.tui.screens.server_page import ServerScreen

        if self.server_view is not None:
            page = ServerScreen(self.server_view, self.action_speak_revision, self.action_log_level)
            self.app.push_screen(page)

    def action_copy_url(self) -> None:
        """Copy the URL of the server."""
        server = self.server_view
        if server is not None and server.url:
            self.desk.copy(server.url, server.url)
        else:
            self.notify("HTTP is not served: no URL to copy.", severity="warning", markup=False)

    @work
    async def action_client_config(self) -> None:
        """Copy the configuration that a client needs to connect."""
        from mcpdesk.tui.screens.clients import choose_client

        await choose_client(self)

    def action_give_token(self) -> None:
        """Ask for a token to call the server with."""
        from mcpdesk.tui.forms.access_prompts import open_token_prompt

        open_token_prompt(self)

    def action_reload(self) -> None:
        """Reload the server folder now, or reconnect to the server."""
        target, server = self.target, self.server_view
        self.link.reload(target)
        is_hosted = server is None or server.upstream is None
        self.notify(f"{'Looking at' if is_hosted else 'Connecting to'} {target} again.", markup=False)


with_feature_actions(MainScreen, "main")


def _takes_letters(widget: Widget) -> bool:
    return widget.check_consume_key("a", "a")


def _screen_hint(screen: str) -> str:
    """Return the end of a news line: the key that shows the screen."""
    action = SCREENS.get(screen)
    return f" · press {action.keys}: {action.title.lower()}" if action is not None else ""
