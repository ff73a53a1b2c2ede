"""Textual applications: the desk, and a viewer for captures. They manage theme, clipboard and exit."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events, work
from textual.actions import SkipAction
from textual.app import App
from textual.binding import BindingType
from textual.content import Content
from textual.errors import NoWidget
from textual.filter import LineFilter, Monochrome, NoColor
from textual.notifications import SeverityLevel
from textual.screen import ModalScreen, Screen

from mcpdesk.paths import PACKAGE, config_folder
from mcpdesk.plain_text import from_field, harmless
from mcpdesk.tui.actions import bindings_for, former_bindings, former_notice, rebind
from mcpdesk.tui.crash import Crash, ScreenPosition
from mcpdesk.tui.keymap import FILE_NAME, read_keymap
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.safe_text import REASON_TAIL, one_line, shortened
from mcpdesk.tui.screens.frame_lines import BRAND
from mcpdesk.tui.screens.main_screen import PANES, DeskFunctions, MainScreen, News, Panes
from mcpdesk.tui.sequences import PREFIXES, Sequences, prefix_bindings
from mcpdesk.tui.terminal import DeskDriver, KeyQueue, TerminalGate
from mcpdesk.tui.themes import ThemeChoice, readable
from mcpdesk.tui.widgets.part_line import LinePart

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.driver import Driver

    from mcpdesk.inbox.question import Question
    from mcpdesk.link.link import Link
    from mcpdesk.link.values import CoreView
    from mcpdesk.tui.column_choices import ColumnChoices
    from mcpdesk.tui.widgets.menu import Choice
    from mcpdesk.tui.workbench.call_menus import DestructiveCalls

SECOND_QUIT_S = 2.0
"""A second Ctrl+C within this many seconds quits at once."""
END_TIMEOUT_S = 5.0
"""When the screen closes, tasks that still run after this many seconds are cancelled."""
CRASH_NEWS_S = 20.0
"""Seconds for which a notification about a failed screen is shown."""
WARNING_S = 12.0
"""Seconds for which warnings and errors are shown."""
NEWS_FRAME_CELLS = 3
"""Cells of a notification that contain no text."""
MAX_NEWS_LENGTH = 4_000
"""Maximum length in characters of a news item. The middle of a longer item is cut out."""
MAX_NEWS_ITEMS = 100
"""Maximum number of news items that are kept for the news screen."""
_SEVERITIES: tuple[SeverityLevel, ...] = ("information", "warning", "error")
"""Severities of news, in ascending order."""
MENU_GROUP = "menu"
"""Group of the workers that run dialogs and the actions chosen in them."""
MAX_SURE_COPY_CHARS = 75_000
"""Length in characters above which some terminals refuse to copy a text."""
_COLOUR_REMOVERS: dict[bool, LineFilter] = {True: NoColor(), False: Monochrome()}
"""Filters that remove colours from a line. The key is True if the theme uses the terminal's own colours."""


class FreshNews(NamedTuple):
    """News item that is shown for some seconds in a notification above the news row."""

    message: str
    severity: SeverityLevel = "information"
    hint: str = ""
    """Text at the end of the line that names a helpful key. It is never cut off."""
    other_count: int = 0
    """Number of other news items that arrived shortly before."""
    error_count: int = 0
    """Number of errors among the other items."""
    end_time: float = -math.inf
    """Monotonic time when the notification ends."""


class DeskApp(App[None]):
    """Application of one desk, connected to one core."""

    TITLE = "mcpdesk"
    CSS_PATH = PACKAGE / "tui" / "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    VERTICAL_BREAKPOINTS = [(0, "-low"), (32, "-tall"), (40, "-high")]
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for("app"),
        *prefix_bindings(*PREFIXES),
        *former_bindings(),
    ]
    main_type: type[MainScreen] = MainScreen
    """Screen behind all dialogs."""

    def __init__(
        self,
        link: Link,
        theme: str | None = None,
        panes: Panes = PANES,
        history: Path | None = None,
        begin: Callable[[], None] = lambda: None,
        settled: Callable[[], None] = lambda: None,
        position: ScreenPosition | None = None,
        news: str = "",
    ) -> None:
        """Create the application.

        `history` is the file with the calls of the workbench. If None, the calls are lost at exit. `begin` is
        called once when the frame is painted, and `settled` once when the screen shows a server. After a
        crash of the screen, `position` is its last position and `news` is a message about the crash.
        """
        super().__init__()
        keymap = read_keymap(config_folder() / FILE_NAME)
        rebind(keymap.keys)
        self.set_keymap(keymap.textual)
        self._key_problems = [
            *keymap.problems,
            *(f"{FILE_NAME}: {conflict}" for conflict in keymap.conflicts),
        ]
        self._copied = ""
        """Text that was copied last."""
        self.crash: Crash | None = None
        """Exception that ended the screen, or None."""
        self._is_leaving = False
        self._main_task: asyncio.Task[object] | None = None
        self._close_timer: asyncio.TimerHandle | None = None
        self._first_news = news
        self._painted_callback = begin
        self._settled_callback = settled
        self.link = link
        self.history_path = history
        functions = DeskFunctions(
            self.frame_is_painted, self.server_is_painted, self.copy, self.show_all_news
        )
        self.main = self.main_type(link, functions, panes, position)
        self.themes = ThemeChoice()
        self.themes.apply_first(self, theme)
        self.news_log = deque[tuple[float, str, str]](maxlen=MAX_NEWS_ITEMS)
        """Time (Unix seconds), severity and text of recent news."""
        self._news_count = 0
        """Number of news items so far, including those that are no longer kept."""
        self._current_news = FreshNews("")
        self._last_interrupt = -math.inf
        """Monotonic time when Ctrl+C was last pressed."""
        self._is_asking_to_quit = False
        self._terminal_gate = TerminalGate()
        self.keys = KeyQueue(self, self._deliver, self._is_focus_about_to_move)
        """Typed keys that have not taken effect yet."""
        self.sequences = Sequences(self)

    @cached_property
    def destructive_calls(self) -> DestructiveCalls:
        """Object that asks for confirmation before a destructive tool is called."""
        from mcpdesk.tui.workbench.call_menus import DestructiveCalls  # not needed before the screen is drawn

        return DestructiveCalls()

    @cached_property
    def column_choices(self) -> ColumnChoices:
        """Columns that the person hid, stored beside the calls of the workbench."""
        from mcpdesk.tui.column_choices import FILE_NAME, ColumnChoices

        return ColumnChoices(self.history_path.with_name(FILE_NAME) if self.history_path else None)

    @property
    def server(self) -> str:
        """Name of the server that the panes show, or "" if there is none."""
        return self.main.server

    def get_default_screen(self) -> Screen[None]:
        """Return the only screen that is not a dialog."""
        return self.main

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's colours with all references resolved.

        Without colours, the text style marks the cursor.
        """
        return readable(super().get_css_variables(), has_colour=not self.no_color)

    def get_driver_class(self) -> type[Driver]:
        """Return the driver of this program. It can draw pictures, which Textual's own driver cannot."""
        driver = super().get_driver_class()
        return DeskDriver if driver.__name__ == "LinuxDriver" else driver

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of Textual and of this program. Each drawn line passes through them.

        With NO_COLOR, the filter depends on whether the theme uses the terminal's own colours. Textual
        chooses its filter only once, although the theme can change, so it is replaced here.
        """
        filters = super().get_line_filters()
        if self.no_color:
            other_filters = [one for one in filters if not isinstance(one, (Monochrome, NoColor))]
            filters = [*other_filters, _COLOUR_REMOVERS[self.native_ansi_color]]
        return [*filters, self._terminal_gate]

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text. Control characters that could be dangerous in other programs are replaced.

        Fields of the desk receive the original text.
        """
        original_text = from_field(text).encode("utf-8", "replace").decode()
        super().copy_to_clipboard(harmless(original_text))
        self._copied = original_text

    @property
    def clipboard(self) -> str:
        """Original text that was copied last, for the fields of the desk."""
        return self._copied

    @contextmanager
    def batch_update(self) -> Generator[None, None, None]:
        """Suspend all drawing in the block, and draw the changes when it ends.

        At the end, Textual wakes only the application. This method also wakes the screens. Otherwise a screen
        that tried to draw, or was resized, would wait for its next message. Textual's own batches use this
        method as well.
        """
        try:
            with super().batch_update():
                yield
        finally:
            screens = self.screen_stack
            for screen in screens[:-1]:
                screen.check_idle()
            if screens:
                screens[-1].refresh()

    async def on_event(self, event: events.Event) -> None:
        """Wake the screen, and store the time of a key press, so that no question opens while a person types.

        Keys are delivered one at a time.
        """
        if isinstance(event, events.Key):
            self.main.last_key = time.monotonic()
        if isinstance(event, events.InputEvent):
            self.main.refresher.wake()
        if isinstance(event, events.MouseEvent) and self._is_on_removed_widget(event):
            return
        if isinstance(event, events.MouseUp):
            self.sequences.end_unless_shown()
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            await self.keys.put(event)
        else:
            await super().on_event(event)

    async def _deliver(self, event: events.Event) -> None:
        """Deliver a key to the focused widget, which is never a hidden widget.

        If a dialog has just opened, ignore the key, because the person typed it for the screen below.
        """
        if self.screen is self.main:
            self.main.settle_focus()
        ignores: Callable[[events.Event], bool] | None = getattr(self.screen, "ignores", None)
        if ignores is not None and ignores(event):
            return
        if not await self.sequences.handle(event):
            await super().on_event(event)

    def _is_focus_about_to_move(self) -> bool:
        """Return True if a form, or a dialog of an action that has started, is about to open."""
        if self.screen is not self.main:
            return not self.screen.is_mounted
        if self.main.awaits_pane or getattr(self.main.pane, "holds_keys", False):
            return True
        for worker in self.workers:
            is_action = worker.name.startswith("action_") and worker.group == "default"
            if (is_action or worker.group == MENU_GROUP) and not worker.is_finished:
                return True
        return False

    def _is_on_removed_widget(self, event: events.MouseEvent) -> bool:
        """Return True if the mouse is on a removed widget that is still drawn, such as a notification.

        Textual would search for the parent of the widget. If it has no parent, the application would end.
        """
        try:
            widget, _ = self.screen.get_widget_at(event.x, event.y)
        except NoWidget:
            return False
        return widget.parent is None and not isinstance(widget, Screen)

    def frame_is_painted(self) -> None:
        """Start the core and report problems, after the frame around the panes was painted the first time."""
        self._painted_callback()
        for problem in self._key_problems:
            self.notify(problem, severity="warning", markup=False)
        if self._first_news:
            self.notify(self._first_news, severity="error", timeout=CRASH_NEWS_S, markup=False)

    def bell(self) -> None:
        """Ring the bell.

        Textual also rings it while it handles an exception that ends the application. In that case, record
        the exception.
        """
        error = sys.exception()
        if self.return_code and error is not None:
            self._remember_crash(error)
        super().bell()

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave the screen. Tasks that still run after `END_TIMEOUT_S` seconds are cancelled."""
        self._is_leaving = True
        self._schedule_cancellation()
        super().exit(result, return_code, message)

    async def run_async(self, *args: Any, **options: Any) -> None:
        """Run the application until it exits."""
        self._main_task = asyncio.current_task()
        try:
            await super().run_async(*args, **options)
        except asyncio.CancelledError:
            if not self._is_leaving and self.crash is None:
                raise
        finally:
            if self._close_timer is not None:
                self._close_timer.cancel()

    def _schedule_cancellation(self) -> None:
        """Cancel all tasks of the screen after `END_TIMEOUT_S` seconds, if it has not closed by then."""
        if self._main_task is not None and self._close_timer is None:
            loop = asyncio.get_running_loop()
            self._close_timer = loop.call_later(END_TIMEOUT_S, self._cancel_hanging_tasks)

    def _cancel_hanging_tasks(self) -> None:
        """Cancel all tasks of the screen, because one of them may wait forever."""
        hanging_tasks = [task for task in asyncio.all_tasks() if task is not self._main_task]
        _log.warning("The screen did not close within %.0f seconds: %s", END_TIMEOUT_S, hanging_tasks)
        for task in hanging_tasks:
            task.cancel()

    def panic(self, *renderables: RenderableType) -> None:
        """Record the exception and end the application.

        Textual calls this method for exceptions that can render themselves.
        """
        error = next((one for one in renderables if isinstance(one, BaseException)), sys.exception())
        if error is not None:
            self._remember_crash(error)
        super().panic(*renderables)

    def _remember_crash(self, error: BaseException) -> None:
        """Record the first exception, and the position of the person on the screen.

        Exceptions while the screen closes are ignored, because a handler may fail when its widgets no longer
        exist.
        """
        if self._is_leaving:
            _log.debug("an exception was ignored because the screen was closing", exc_info=error)
        elif self.crash is None:
            self.crash = Crash.of(error, self.main.position())
            self._schedule_cancellation()

    def server_is_painted(self) -> None:
        """Do work that was deferred until the first server is shown."""
        self._settled_callback()
        self.themes.register_all(self)

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a news item on the news row, and keep it for the news screen."""
        self.show_news(message, severity, timeout_s=timeout)

    def show_news(
        self, message: str, severity: SeverityLevel, hint: str = "", timeout_s: float | None = None
    ) -> None:
        """Show a news item. `hint` is the end of the line. It names a helpful key, and is never cut off."""
        self.show_all_news([(message, severity, hint)], timeout_s)

    def show_all_news(self, news: Sequence[News], timeout_s: float | None = None) -> None:
        """Keep all items for the news screen. Show one of them now: the last item of the highest severity.

        `timeout_s` is the number of seconds for which it is shown, or None for a default.
        """
        now = time.time()
        earliest = now - self.NOTIFICATION_TIMEOUT
        other_severities = [severity for time_s, severity, _ in self.news_log if time_s > earliest]
        shown_index = max(enumerate(news), key=lambda entry: (_SEVERITIES.index(entry[1][1]), entry[0]))[0]
        news = [(_limited_message(message), severity, hint) for message, severity, hint in news]
        for index, (message, severity, hint) in enumerate(news):
            self.news_log.append((now, severity, message + hint))
            if index != shown_index:
                other_severities.append(severity)
        self._news_count += len(news)
        message, severity, hint = news[shown_index]
        self.main.news.show_news(now, severity, message, hint)
        if timeout_s is None:
            timeout_s = self.NOTIFICATION_TIMEOUT if severity == "information" else WARNING_S
        error_count = other_severities.count("error")
        end_time = time.monotonic() + timeout_s
        self._current_news = FreshNews(message, severity, hint, len(other_severities), error_count, end_time)
        self._show_current_news(self.size.width)

    def _show_current_news(self, width: int) -> None:
        """Show the newest notification on a line of `width` cells, for its remaining time."""
        news = self._current_news
        text_width = width - NEWS_FRAME_CELLS
        line = news_line(news.message, news.other_count, text_width, news.hint, news.error_count)
        remaining_s = news.end_time - time.monotonic()
        self.clear_notifications()
        super().notify(line, severity=news.severity, timeout=remaining_s, markup=False)

    def on_resize(self, event: events.Resize) -> None:
        """Cut the newest notification to the new width."""
        if self._current_news.end_time > time.monotonic() and self.screen.query("Toast"):
            self._show_current_news(event.size.width)

    def action_show_news(self) -> None:
        """Show the recent news, newest first, and the text that was copied last."""
        from mcpdesk.tui.screens.overlays import NewsScreen

        self.push_screen(NewsScreen(self.news_log, self.clipboard, self._news_count - len(self.news_log)))

    def copy(self, text: str, description: str) -> None:
        """Copy `text` to the clipboard through the terminal. A notification contains `description`."""
        self.copy_to_clipboard(text)
        length_warning = " (long: some terminals refuse)" if len(text) > MAX_SURE_COPY_CHARS else ""
        self.notify(f"copied {description}{length_warning}", markup=False)

    async def copy_one_of(self, choices: Sequence[Choice]) -> None:
        """Let the person choose a text, and copy it. Must run in a worker.

        The value of each choice is the text to copy, or a function that returns it on another thread.
        """
        from mcpdesk.tui.widgets.menu import Menu

        if value := await self.push_screen_wait(Menu("Copy", choices)):
            label = next(choice.label for choice in choices if choice.value is value)
            text = await asyncio.to_thread(value) if callable(value) else value
            self.copy(text, label if "\n" in text else one_line(text, 40))

    @work
    async def action_palette(self) -> None:
        """Open the palette, which finds any action by name."""
        if self.screen is not self.main:
            return
        from mcpdesk.tui.screens.palette import open_palette

        await open_palette(self)

    def action_begin_sequence(self, prefix: str) -> None:
        """Wait for the second key of a sequence. A key that begins no sequence is handled as a former key."""
        if not self.sequences.begin(prefix):
            self.action_show_former(prefix)

    def action_show_former(self, key: str) -> None:
        """Show the present key of an action that had this key in the previous release."""
        if text := former_notice(self.screen, key):
            self.notify(text, markup=False)

    def action_show_help(self) -> None:
        """Show the keys of the focused pane."""
        from mcpdesk.tui.screens.overlays import HelpScreen

        pane = None if isinstance(self.screen, ModalScreen) else self.main.pane
        self.push_screen(HelpScreen(self.screen, pane))

    def action_first_steps(self) -> None:
        """Show three exercises on the sample."""
        from mcpdesk.tui.screens.first_steps import FirstStepsScreen

        self.push_screen(FirstStepsScreen())

    @work
    async def action_pick_theme(self) -> None:
        """Choose a theme, with a preview."""
        await self.themes.pick(self)

    @work
    async def action_ask_quit(self) -> None:
        """Quit. If work would be lost, ask first."""
        from mcpdesk.tui.widgets.menu import Choice, Menu

        if self._is_asking_to_quit:
            return
        self._is_asking_to_quit = True
        is_confirmed = True
        if losses := self.link.busy():
            quit_choice = Choice("Quit", True, "and lose " + ", ".join(losses), key="y")
            is_confirmed = await self.push_screen_wait(
                Menu("Quit mcpdesk?", [Choice("Stay", False, key="n"), quit_choice])
            )
        if is_confirmed:
            self.exit()
        self._is_asking_to_quit = False

    def action_interrupt(self) -> None:
        """Quit if Ctrl+C is pressed twice. If text is selected, copy it instead."""
        if getattr(self.focused, "selected_text", "") or self.screen.get_selected_text():
            raise SkipAction
        now = time.monotonic()
        if now - self._last_interrupt <= SECOND_QUIT_S:
            self.exit()
        self._last_interrupt = now
        self.notify("Ctrl+C again quits at once, Ctrl+Q asks first.", markup=False, timeout=SECOND_QUIT_S)


def _limited_message(message: str) -> str:
    half = MAX_NEWS_LENGTH // 2
    return message if len(message) <= MAX_NEWS_LENGTH else f"{message[:half]} … {message[-half:]}"


def news_line(message: str, other_count: int, width: int, hint: str = "", error_count: int = 0) -> str:
    """Return a news item as one line of at most `width` cells.

    If there is more to see, the line ends with the key that shows it. The middle of a long message is cut
    out, because it begins with a name and ends with the reason.
    """
    line = one_line(message)
    if other_count:
        errors_text = f", {counted(error_count, 'error')}" if error_count else ""
        hint += f" · ! shows {other_count} more{errors_text}"
    elif cell_len(line + hint) > width:
        hint += " · ! shows all"
    else:
        return line + hint
    return shortened(line, max(width - cell_len(hint), 1), REASON_TAIL) + hint


NEEDS_SERVER = frozenset(
    {"copy_url", "client_config", "give_token", "reload", "open_question"}
    | {"add_server", "remove_server", "log_level", "edit_roots", "show_save", "speak_revision"}
)
"""Actions of the main screen that need a server. A screen that shows a capture has no server."""


class CaptureScreen(MainScreen):
    """Main screen with the traffic of a capture, without servers."""

    def show_header(self, view: CoreView, waiting: tuple[Question, ...]) -> None:
        """Show the name of the capture file."""
        name = one_line(view.capture_path.rpartition("/")[2], 60)
        state_text = "live, messages can be held" if view.can_intercept else "live, read only"
        state_text = state_text if view.capture_grows else "a capture, read only"
        self.header.show(
            [
                BRAND,
                LinePart(Content.styled(f" {name} ", "bold"), tip=view.capture_path, rank=90),
                LinePart(Content.styled(f"  {state_text} ", "$text-muted"), rank=50),
            ]
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that need a server, and screens that a capture does not have."""
        if action == "show_screen":
            return parameters[0] in self.panes
        return action not in NEEDS_SERVER and super().check_action(action, parameters)


class CaptureApp(DeskApp):
    """Application that shows a capture from disk: its traffic, statistics and servers."""

    main_type = CaptureScreen

    def __init__(self, link: Link, theme: str | None = None, **options: Any) -> None:
        """Create the application. `options` are passed to `DeskApp`."""
        super().__init__(
            link, theme, {name: PANES[name] for name in ("traffic", "statistics", "servers")}, **options
        )

    def frame_is_painted(self) -> None:
        """Also call `server_is_painted`, because a capture has no server that could be painted later."""
        super().frame_is_painted()
        self.server_is_painted()
