"""The one screen: header, tabs, the five panes, footer. Knows what is shown, not what the panes do."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import MountError, Widget
from textual.widgets import ContentSwitcher, Static

from mcpdesk.inbox.question import Question
from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.crash import Place
from mcpdesk.tui.forms.question_text import QuestionBanner
from mcpdesk.tui.screen_refresh import ScreenRefresher, WaitingQuestions
from mcpdesk.tui.screens.frame_lines import SPARK_SECONDS, DeskFooter, DeskHeader
from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.tabs import SCREENS, DeskTabs

if TYPE_CHECKING:
    from mcpdesk.link.link import Link

Panes = Mapping[str, Callable[["Link"], Widget]]
"""Screen name to what makes its pane."""


def _pane(module: str, name: str) -> Callable[[Link], Widget]:
    """Make a pane; its module is imported at the first visit, which keeps the first paint fast."""

    def make(link: Link) -> Widget:
        pane: Widget = getattr(import_module(module), name)(link)
        return pane

    return make


PANES: Panes = {
    "workbench": _pane("mcpdesk.tui.screens.workbench", "WorkbenchPane"),
    "traffic": _pane("mcpdesk.tui.traffic.traffic_pane", "TrafficPane"),
    "activity": _pane("mcpdesk.tui.screens.activity", "ActivityPane"),
    "clients": _pane("mcpdesk.tui.screens.clients", "ClientsPane"),
    "logs": _pane("mcpdesk.tui.screens.logs", "LogsPane"),
}
MINIMUM = (40, 10)
"""Cells across and down below which only a message is shown."""
CALM_S = 1.0
"""Nothing opens by itself sooner after a key press."""
LEAD_S = 60.0
"""How long a notice decides which part of a screen is shown first."""
_log = logging.getLogger(__name__)


@runtime_checkable
class Parted(Protocol):
    """A pane of several parts."""

    def show_section(self, name: str) -> None:
        """Bring one up."""


@runtime_checkable
class Placed(Protocol):
    """A pane that a screen which is started again brings back to where it was."""

    def place(self) -> Any:
        """What it needs to come back."""

    def return_to(self, place: Any) -> None:
        """Come back. The pane is mounted, and has looked at the core."""


class MainApp(App[None]):
    """What the main screen needs of its application."""

    def frame_is_painted(self) -> None:
        """The frame around the panes is painted for the first time."""

    def server_is_painted(self) -> None:
        """The first server is painted for the first time."""

    def copy(self, text: str, what: str) -> None:
        """Put `text` on the clipboard and say that `what` was copied."""


class MainScreen(Screen[None]):
    """Holds `server`, the name of the server the panes are about. The first of `panes` is shown first."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("main")
    AUTO_FOCUS = None
    ALLOW_IN_MAXIMIZED_VIEW = "DeskHeader,DeskFooter,QuestionBanner"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-normal"), (160, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-tall")]
    app: MainApp

    def __init__(self, link: Link, panes: Panes = PANES, place: Place | None = None) -> None:
        super().__init__()
        self.link = link
        self._place = place or Place()
        self.server = self._place.server
        self.questions = WaitingQuestions(link, self._place.opened)
        self.refresher = ScreenRefresher(self)
        self.last_key = -math.inf
        self.last_call = -math.inf
        """When a key or a click last made a call of the desk's own, in monotonic seconds."""
        self.header, self.tabs, self.switcher = DeskHeader(), DeskTabs(panes), ContentSwitcher()
        self._banner = QuestionBanner()
        self._panes = panes
        self._first = self._place.screen if self._place.screen in panes else next(iter(panes))
        self._last_focus: dict[str, Widget] = {}
        self._has_server = False
        self._lead = ("", 0.0)
        self._adding = asyncio.Lock()
        """The part of the activity screen the last notice was about, and when."""

    def compose(self) -> ComposeResult:
        """The frame; panes come at their first visit."""
        yield from (self.header, self.tabs, self.switcher, self._banner, DeskFooter())
        width, height = MINIMUM
        yield Static(f"too small\nmcpdesk needs {width}x{height}", id="too-small")

    def on_mount(self) -> None:
        """Paint the frame; then bring the first pane and start to look."""
        self.tabs.mark(self._first)
        self.refresher.refresh()
        self.call_after_refresh(self._begin)

    async def _begin(self) -> None:
        self.app.frame_is_painted()
        if not self.shown:
            try:
                await self.show_screen(self._first)
            except MountError:
                return  # left before there was a pane
        self.refresher.refresh()
        self.refresher.start()

    def on_resize(self, event: events.Resize) -> None:
        """Give way to a message where nothing would fit."""
        self.set_class(event.size.width < MINIMUM[0] or event.size.height < MINIMUM[1], "-too-small")

    @property
    def shown(self) -> str:
        """Name of the screen that is up."""
        return self.switcher.current or ""

    @property
    def pane(self) -> Widget | None:
        """The pane that is up."""
        return self.switcher.visible_content if self.shown else None

    @property
    def is_calm(self) -> bool:
        """Whether no key was pressed just now."""
        return time.monotonic() - self.last_key > CALM_S

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being typed, no key was pressed just now and no dialog is open."""
        return (
            self.is_calm and self.app.screen is self and not (self.focused and _takes_letters(self.focused))
        )

    @property
    def expects_own_question(self) -> bool:
        """Whether a question of the desk's own call may open although the focus is in a field.

        Not while a dialog is open, and not under the fingers of somebody who went on to type after the call.
        """
        is_waiting = self.is_calm or self.last_key <= self.last_call
        return is_waiting and self.app.screen is self

    def show_header(self, view: CoreView, waiting: tuple[Question, ...]) -> None:
        """Bring header and tabs up to date, and settle on a server that exists."""
        names = [server.name for server in view.servers]
        if self.server not in names:
            self.server = names[0] if names else ""
        if not self._has_server and self.server and self.shown:
            self._has_server = True
            self.call_after_refresh(self.app.server_is_painted)
        rates = self.link.traffic.rates(SPARK_SECONDS)
        self.header.show_view(view, self.server, rates, len(waiting))
        jobs = view.work.running_jobs
        marks = [f"{glyph}{count}" for glyph, count in (("?", len(waiting)), ("▸", jobs)) if count]
        self.tabs.mark(self.shown or self._first, {"activity": " ".join(marks)} if marks else {})

    async def show_screen(self, name: str) -> None:
        """Bring a pane up, and the focus back to where it was in it."""
        if name == self.shown:
            return
        if self.maximized:
            self.minimize()
        if self.shown and self.focused is not None:
            self._last_focus[self.shown] = self.focused
        await self._ensure(name)
        self.switcher.current = name
        self.tabs.mark(name)
        self._focus_pane(name)
        part, at = self._lead
        if name == "activity" and part and time.monotonic() - at < LEAD_S:
            self._lead = ("", 0.0)
            self._show_part(part)

    def place(self) -> Place:
        """Where the person is. Never raises: it is asked while an exception ends the screen."""
        panes = dict[str, Any]()
        for pane in list(self.switcher.children):
            if pane.id and isinstance(pane, Placed):
                try:
                    panes[pane.id] = pane.place()
                except Exception:
                    _log.exception("where the %s pane was is not known", pane.id)
        return Place(self.server, self.shown, panes, self.questions.opened)

    def lead_to(self, part: str) -> None:
        """A notice concerned a part of the activity screen (empty: it did not): show it at the next visit."""
        if part:
            self._lead = (part, time.monotonic())

    def _show_part(self, part: str) -> None:
        if isinstance(self.pane, Parted):
            self.pane.show_section(part)

    async def _ensure(self, name: str) -> None:
        # A click and a key may ask for the same pane at once; the second finds what the first has added.
        async with self._adding:
            if self.switcher.query_children(f"#{name}"):
                return
            pane = self._panes[name](self.link)
            pane.id = name
            await self.switcher.add_content(pane)
            if name in self._place.panes and isinstance(pane, Placed):
                self.refresher.refresh_pane(pane)
                pane.return_to(self._place.panes[name])

    def _focus_pane(self, name: str) -> None:
        pane = self.switcher.get_child_by_id(name)
        last = self._last_focus.get(name)
        if last is None or not last.is_attached:
            last = next((widget for widget in pane.walk_children(Widget) if _welcomes_focus(widget)), None)
        if last is None:
            pane.can_focus = True
            last = pane
        self.set_focus(last)

    def announce(self, question: Question | None) -> None:
        """Announce a question without taking any keys."""
        if self._banner.announce(question):
            self.app.bell()

    def ask(self, question: Question) -> None:
        """Open the question's dialog."""
        self.questions.mark_opened(question)
        self.announce(None)
        from mcpdesk.tui.forms.question_dialog import QuestionScreen

        self.app.push_screen(QuestionScreen(self.link, question))

    def action_open_question(self) -> None:
        """Open the question that the banner announces; without a banner, the one that has waited longest."""
        if (question := self.questions.next) is not None:
            self.ask(question)
        else:
            self.notify("No question is waiting.", markup=False)

    async def action_show_screen(self, name: str) -> None:
        """Digits and tabs."""
        await self.show_screen(name)

    async def action_show_part(self, part: str) -> None:
        """A click on what the header says of a part of the activity screen."""
        await self.show_screen("activity")
        self._show_part(part)

    @work
    async def action_standing_approvals(self) -> None:
        """See what was approved for good, and end it."""
        from mcpdesk.tui.forms.access_prompts import choose_grant

        await choose_grant(self)

    def action_zoom(self) -> None:
        """Give the focused pane the whole screen, and back."""
        if self.maximized:
            self.minimize()
        elif self.focused is not None:
            self.maximize(self.focused)

    @work
    async def action_jump(self) -> None:
        """Letters over everything that takes the focus."""
        from mcpdesk.tui.screens.main_screen import JumpScreen

        targets = [widget for widget in self.focus_chain if widget.is_on_screen]
        seen = [(widget, self.find_widget(widget).visible_region) for widget in targets]
        chosen = await self.app.push_screen_wait(JumpScreen([each for each in seen if each[1]]))
        if isinstance(chosen, Widget):
            self.set_focus(chosen)
        elif chosen in SCREENS:
            await self.show_screen(chosen)

    @work
    async def action_pick_server(self) -> None:
        """Switch to another hosted server."""
        from mcpdesk.tui.widgets.menu import Choice, Menu

        servers = self.link.view().servers
        choices = [Choice(one.name, one.name, one.url or one.folder) for one in servers]
        names = [one.name for one in servers]
        cursor = names.index(self.server) if self.server in names else 0
        if chosen := await self.app.push_screen_wait(Menu("Servers", choices, cursor=cursor)):
            self.server = chosen

    def action_copy_url(self) -> None:
        """Copy where the server can be reached."""
        url = next((one.url for one in self.link.view().servers if one.name == self.server), "")
        if url:
            self.app.copy(url, url)
        else:
            self.notify("Nothing listens: there is no URL to copy.", severity="warning", markup=False)

    @work
    async def action_client_config(self) -> None:
        """Copy what a client needs to connect."""
        from mcpdesk.tui.screens.clients import choose_client

        await choose_client(self)

    def action_give_token(self) -> None:
        """Call the server as whoever a token is of."""
        from mcpdesk.tui.forms.access_prompts import open_token_prompt

        open_token_prompt(self)

    def action_reload(self) -> None:
        """Look at the server's folder again now."""
        self.link.reload(self.server)
        self.notify(f"Looking at {self.server} again.", markup=False)


def _welcomes_focus(widget: Widget) -> bool:
    return widget.focusable and not _takes_letters(widget)


def _takes_letters(widget: Widget) -> bool:
    return widget.check_consume_key("a", "a")


LETTERS = "asdfghjklqwertyuiopzxcvbnm" + ascii_uppercase


class JumpScreen(Dialog["Widget | str | None"]):
    """Ends with the widget to focus, the name of a screen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "dismiss(None)", "Close", show=False),
    ]
    DEFAULT_CSS = """
    JumpScreen { background: $background 60%; }
    JumpScreen .letter {
        position: absolute; width: 3; height: 1; content-align: center middle;
        background: $warning; color: $background; text-style: bold;
    }
    JumpScreen .hint { dock: bottom; width: 100%; height: 1; background: $panel; padding: 0 1; }
    JumpScreen:ansi { background: transparent; }
    JumpScreen:ansi .letter { background: ansi_yellow; color: ansi_black; }
    """

    def __init__(self, seen: Sequence[tuple[Widget, Region]]) -> None:
        """`seen` are widgets with what of each can be seen."""
        super().__init__()
        self.targets = {letter: widget for letter, (widget, _) in zip(LETTERS, seen, strict=False)}
        self._places = [region.offset for _, region in seen]

    def compose(self) -> ComposeResult:
        """A letter at the top left of each target."""
        for letter, place in zip(self.targets, self._places, strict=False):
            label = Static(letter, classes="letter", markup=False)
            label.styles.offset = place
            yield label
        yield Static("a letter jumps there · a digit shows that screen · esc stays", classes="hint")

    def on_key(self, event: events.Key) -> None:
        """Go where the key says."""
        letter = event.character or ""
        if letter in self.targets:
            event.stop()
            self.dismiss(self.targets[letter])
        elif name := next((name for name, action in SCREENS.items() if action.keys == letter), ""):
            event.stop()
            self.dismiss(name)
