"""Lines around the panes: a header with server, clients and work, tabs, news, and a footer with keys."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len
from textual.binding import ActiveBinding, Binding
from textual.content import Content
from textual.screen import Screen

from mcpdesk.link.state_looks import UPSTREAMS, Tone
from mcpdesk.link.values import (
    CoreView,
    Protection,
    ServerView,
    ShownCore,
    ShownCoreState,
    UpstreamView,
    WorkView,
    presences,
)
from mcpdesk.tui.action import Action
from mcpdesk.tui.actions import BY_ID, NO_KEY, SCREENS, key_name, key_or_palette
from mcpdesk.tui.render.amounts import clock, countdown, counted, rate, sparkline
from mcpdesk.tui.render.safe_text import REASON_TAIL, one_line, shortened
from mcpdesk.tui.render.tones import TEXT_STYLES
from mcpdesk.tui.sequences import is_prefix
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.part_line import LinePart, PartLine

PROTECTIONS: dict[Protection, tuple[str, str, str]] = {
    Protection.KEY: ("key ●", "$text-success", "Callers need the key."),
    Protection.LOOPBACK: ("loopback ○", "$text-muted", "No key: only this machine can reach it."),
    Protection.OPEN: (
        "OPEN ▲",
        "bold $text-error",
        "Callers need no key, but they should: tools can run programs, or the desk can be reached from other "
        "machines.",
    ),
    Protection.SOCKET: (
        "listening ●",
        "$text-success",
        "HTTP is served on a Unix socket that only your own programs can reach.",
    ),
    Protection.STARTING: ("starting …", "$text-muted", "The desk does not listen yet."),
}
"""Protection -> text with glyph, style, and meaning. A core without HTTP (`OFFLINE`), such as the core of
`mcpdesk up` or of a capture, shows nothing.
"""
TOKEN_LOOK = ("token ●", "$text-success", "Callers need a bearer token.")
TOKEN_LOOKS = {Protection.KEY: ("key, token ●", "$text-success", "Callers need the key and a bearer token.")}
"""Protection -> text, style and meaning for a server that also requires tokens. Other protections use
`TOKEN_LOOK`."""
REACHABLE_PROTECTIONS = (Protection.KEY, Protection.LOOPBACK, Protection.OPEN, Protection.SOCKET)
"""Protections of a core that clients can reach. A required token is shown only for these."""
SPARK_SECONDS = 8
"""Number of seconds, one bar each, in the chart of the message rate."""
_MAX_NAMED_SERVERS = 8
"""Maximum number of servers that the tooltip about servers that are down names."""


class DeskHeader(PartLine):
    """Line with the state of a `CoreView`. All its parts can be clicked."""

    DEFAULT_CSS = """
    DeskHeader { dock: top; background: $panel; color: $text; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._last_state: tuple[object, ...] = ()

    def show_view(
        self,
        view: CoreView,
        server: str,
        rates: Sequence[float],
        waiting_count: int,
        feature_parts: Sequence[LinePart] = (),
        down_servers: Sequence[str] = (),
    ) -> None:
        """Show a new view.

        `server` is the name of the selected server. `rates` are messages per second, the newest last.
        `waiting_count` is the number of waiting questions. `down_servers` has the names of the servers that
        cannot be used.
        """
        now, next_callback = time.time(), view.work.next_callback
        countdown_text = "" if next_callback is None else countdown(next_callback - now)
        peers = presences(view.clients, now)
        shown_questions = (waiting_count, countdown_text)
        shown_servers = (server, tuple(down_servers))
        new_state = (view, tuple(rates), shown_questions, peers, feature_parts, shown_servers)
        if new_state != self._last_state:
            self._last_state = new_state
            server_view = next((one for one in view.servers if one.name == server), None)
            state_parts = [*_status_parts(view, server_view), *_traffic_parts(peers, rates), *feature_parts]
            state_parts += _work_parts(view.work, countdown_text, waiting_count)
            server_parts = [*_server_part(server_view, view), *_down_part(down_servers, server)]
            self.show([BRAND, *server_parts, *state_parts])


BRAND = LinePart(Content.styled(" mcpdesk ", "bold $text-primary"), "app.palette", "All actions", rank=10)
"""First part of the header: the name of the program."""
SHOW_LOGS = "screen.show_screen('logs')"
ABOUT_SERVER = "screen.about_server"


def _part(
    text: str, style: str, action: str, tip: str, short: str, *, rank: int, right: bool = False
) -> LinePart:
    """Return a part in one style, with spaces around it. `short` is its text if the line is too narrow."""
    long_content = Content.styled(f"  {text} ", style)
    return LinePart(long_content, action, tip, Content.styled(f" {short} ", style), rank, right)


def _server_part(server: ServerView | None, view: CoreView) -> Iterator[LinePart]:
    if server is not None:
        menu_sign = " ▾" if len(view.servers) > 1 else ""
        mode = f" · {one_line(server.mode, 16)}" if server.mode else ""
        text = Content.styled(f" {one_line(server.name, 30)}{mode}{menu_sign} ", "bold")
        short = Content.styled(f" {one_line(server.name, 16)} ", "bold")
        tip = f"{server.title or server.name} {server.version}\n{one_line(server.shown_location, 200)}"
        yield LinePart(text, "screen.servers", tip, short, rank=90)
    elif view.protection is not Protection.STARTING:
        tip = f"Click, or {key_or_palette('main.add_server')}, to add one"
        yield LinePart(Content.styled(" no server ", "$text-warning"), "screen.add_server", tip, rank=90)


def _down_part(names: Sequence[str], current: str) -> Iterator[LinePart]:
    """Yield the number of servers that are down.

    Yield nothing if only the current server is down, because its state is shown anyway.
    """
    if any(name != current for name in names):
        shown_names = [one_line(name, 60) for name in names[:_MAX_NAMED_SERVERS]]
        more_count = len(names) - _MAX_NAMED_SERVERS
        text = f"✕ {len(names)} down"
        tip = "\n".join([*shown_names, f"and {more_count} more"] if more_count > 0 else shown_names)
        yield _part(text, "bold $text-error", "screen.servers('down')", tip, text, rank=88)


def _status_parts(view: CoreView, server: ServerView | None) -> Iterator[LinePart]:
    """Yield failures. Unless one of them blocks the core, also yield upstream, URL and protection."""
    if view.gone:
        tip = "Its traffic is kept here; the desk tries to reconnect"
        yield _part(f"✕ {one_line(view.gone, 60)}", "bold $text-error", SHOW_LOGS, tip, "✕ ended", rank=100)
        return
    if view.silent_s:
        tip = "The core hangs or is stopped; this is its last known state"
        status = f"▲ no answer for {view.silent_s} s"
        yield _part(status, "bold $text-error", SHOW_LOGS, tip, status, rank=100)
        return
    if any(one.state in ALARMS for one in view.cores):
        yield cores_part(view.cores)
    if view.capture_failing:
        tip = one_line(view.capture_failing, 300)
        yield _part("✗ capture not written", "bold $text-error", SHOW_LOGS, tip, "✗ capture", rank=95)
    if view.stuck is not None:
        status = f"▲ loop stuck {view.stuck.seconds:.1f} s"
        tool = f"in {view.stuck.tool}" if view.stuck.tool else ""
        location = " ".join(("", *filter(None, (tool, view.stuck.where))))
        tip = "Hosted code blocks the core; calls wait until it returns"
        short = status + one_line(location, 32)
        yield _part(status + one_line(location), "bold $text-error", SHOW_LOGS, tip, short, rank=100)
        return
    if server is not None and server.upstream is not None:
        yield from _upstream_parts(server.upstream)
    if server is not None and server.url:
        address = server.url.partition("://")[2] or server.url
        tip = f"Click to copy it. Client configuration: {key_or_palette('main.client_config')}"
        url = one_line(server.url)
        yield _part(url, "$text-secondary", "screen.copy_url", tip, f" {one_line(address, 34)}", rank=50)
    elif server is not None and server.upstream is None and view.protection in REACHABLE_PROTECTIONS:
        yield LinePart(Content.styled("  not reachable ", "$text-muted"), rank=50)
    if view.cores and not any(one.state in ALARMS for one in view.cores):
        yield cores_part(view.cores)
    if view.protection is Protection.OFFLINE:
        return
    word, style, tip = PROTECTIONS[view.protection]
    if server is not None and server.wants_token and view.protection in REACHABLE_PROTECTIONS:
        word, style, tip = TOKEN_LOOKS.get(view.protection, TOKEN_LOOK)
    yield _part(word, style, "screen.client_config", tip, word, rank=70)


def cores_part(cores: Sequence[ShownCore]) -> LinePart:
    """Return the number of cores, and the names of the cores in the most severe state of `ALARMS`.

    Ended cores are not counted.
    """
    tip = "\n".join(one_line(f"{core.name}: {core.reason or core.address or 'lives'}", 200) for core in cores)
    count = sum(core.state is not ShownCoreState.ENDED for core in cores)
    alarm_states = sorted({core.state for core in cores if core.state in ALARMS}, key=list(ALARMS).index)
    if not alarm_states:
        text = counted(count, "replica")
        return _part(text, "$text-muted", ABOUT_SERVER, tip, f"{count} replicas", rank=45)
    living_count = sum(core.state is ShownCoreState.LIVING for core in cores)
    status = f"✕ {living_count} of {count} replicas"
    worst_state = alarm_states[0]
    names = one_line(", ".join(core.name for core in cores if core.state is worst_state), 30)
    text = f"{status}: {names} {ALARMS[worst_state]}"
    return _part(text, "bold $text-error", ABOUT_SERVER, tip, status, rank=96)


ALARMS: Final = {
    ShownCoreState.GONE: "lost",
    ShownCoreState.SILENT: "silent",
    ShownCoreState.UNREADABLE: "of another version",
}
"""State of a core that the header reports -> word for it. The most severe state is first."""


def upstream_state(upstream: UpstreamView) -> tuple[str, str]:
    """Return the text for the connection state of an upstream, and its style."""
    look = UPSTREAMS[upstream.state]
    style = TEXT_STYLES[look.tone]
    return look.text, f"bold {style}" if look.tone is Tone.BAD else style


def _upstream_parts(upstream: UpstreamView) -> Iterator[LinePart]:
    """Yield connection state and location of an upstream."""
    word, style = upstream_state(upstream)
    revision = f" · {upstream.revision}" if upstream.revision and upstream.state == "ready" else ""
    yield _part(word + revision, style, ABOUT_SERVER, "Click for details", word, rank=90)
    location = Content.styled(f"  {one_line(upstream.shown_location, 60)} ", "$text-muted")
    yield LinePart(location, ABOUT_SERVER, "Where it runs", Content(""), rank=30)


def _traffic_parts(peers: tuple[int, int], rates: Sequence[float]) -> Iterator[LinePart]:
    """Yield the number of clients and the message rate. `peers` counts connected and quiet clients."""
    connected, quiet = peers
    status, short = counted(connected, "client"), f"{connected}⇄"
    if quiet:
        status = f"{status} + {quiet} quiet" if connected else f"{counted(quiet, 'client')}, quiet"
        short = f"{connected}/{connected + quiet}⇄"
    action, tip = "screen.show_screen('clients')", f"Connected clients: {connected}; quiet clients: {quiet}"
    yield _part(status, "", action, tip, short, rank=40, right=True)
    current_rate = rates[-1] if rates else 0.0
    bars = sparkline(rates[-SPARK_SECONDS:])
    rate_text = rate(current_rate)
    text = Content.assemble(f"  {rate_text:>5} ", (bars.rjust(SPARK_SECONDS), "$text-accent"), " ")
    tip = f"Messages per second, the last {SPARK_SECONDS} seconds"
    yield LinePart(text, "screen.show_screen('traffic')", tip, Content(f" {rate_text} "), rank=20, right=True)


def _work_parts(work: WorkView, countdown_text: str, waiting_count: int) -> Iterator[LinePart]:
    """Yield parts about work other than calls. `countdown_text` is the time until the next callback."""
    if work.is_planning:
        tip = "Plan mode: tools that are not read-only are refused"
        action = "screen.show_part('plan')"
        yield _part("● plan mode", "bold $text-warning", action, tip, "●plan", rank=75, right=True)
    if jobs := work.running_jobs:
        text, action = f"▸ {counted(jobs, 'job')}", "screen.show_part('jobs')"
        yield _part(text, "$text-primary", action, "Jobs in the background", f"▸{jobs}", rank=60, right=True)
    if countdown_text:
        action, tip = "screen.show_part('callbacks')", "Time until the next callback"
        yield _part(f"◷ {countdown_text}", "", action, tip, f"◷{countdown_text}", rank=55, right=True)
    if waiting_count:
        text, style = f"? {counted(waiting_count, 'question')}", "bold $text-warning"
        action, tip = "screen.open_question", "Answer (a)"
        yield _part(text, style, action, tip, f"?{waiting_count}", rank=80, right=True)


CURRENT_TAB_STYLE = "bold $block-cursor-foreground on $block-cursor-background"
"""Style of the current tab."""
CURRENT_TAB_STYLE_WITHOUT_COLOUR = "bold reverse"
"""Style of the current tab on a screen without colours."""


class DeskTabs(PartLine):
    """One tab for each screen. A click or a digit selects it."""

    DEFAULT_CSS = """
    DeskTabs { background: $surface; color: $text-muted; }
    """

    def __init__(self, names: Collection[str] = tuple(SCREENS)) -> None:
        """Create the tabs. `names` are the names of the existing screens."""
        super().__init__()
        self._names = names

    def mark(self, current: str, badge: str = "") -> None:
        """Mark the current screen.

        `badge` is a short text such as `?1` next to the title of the activity screen.
        """
        style = CURRENT_TAB_STYLE_WITHOUT_COLOUR if self.app.no_color else CURRENT_TAB_STYLE
        tabs = []
        for name, action in SCREENS.items():
            if name in self._names:
                tab_badge = badge if name == "activity" else ""
                tabs.append(_tab(action, tab_badge, style if name == current else ""))
        if current == "servers":  # a screen without a digit
            title = Content.assemble(" ", Content(" Servers ").stylize(style))
            tabs.append(LinePart(title, "screen.servers", rank=99))
        self.show(tabs)


def _tab(action: Action, badge: str, style: str) -> LinePart:
    """Return the tab of a screen. `style` is the style of the current tab, or "" for any other tab."""
    mark = Content.styled(f" {badge}", "bold $text-warning") if badge else Content("")
    key = Content.styled(action.keys, "" if style else "$footer-key-foreground")
    short_title = action.title if style else action.title[:4]
    text = Content.assemble(" ", key, f" {action.title}", mark, " ").stylize(style)
    short = Content.assemble(" ", key, f" {short_title}", mark, " ").stylize(style)
    rank = 99 if style else 50
    return LinePart(Content.assemble(" ", text), f"screen.{action.name}", action.help, short, rank)


class NewsRow(PartLine):
    """Row with the last news item, above the footer, if the screen has spare rows."""

    DEFAULT_CSS = """
    NewsRow { color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._news: tuple[float, str, str, str] | None = None

    def show_news(self, time_s: float, severity: str, text: str, hint: str = "") -> None:
        """Show a news item.

        `time_s` is Unix time in seconds. `hint` is the end of the line, which is never cut off.
        """
        self._news = (time_s, severity, text, hint)
        self._draw()

    def on_resize(self) -> None:
        """Cut the news to the new width."""
        self._draw()

    def _draw(self) -> None:
        if self._news is None:
            return
        time_s, severity, text, hint = self._news
        sign, style = NEWS_SIGNS.get(severity, ("·", ""))
        messages_key = Content.assemble(" ", ("!", "bold $footer-key-foreground"), " messages ")
        room = self.size.width - messages_key.cell_length - cell_len(hint) - len(" 12:03:40 ! ")
        news_text = shortened(text, max(20, room), REASON_TAIL) + hint
        news = Content.assemble(f" {clock(time_s)[:8]} ", (f"{sign} ", style), news_text)
        action = "app.show_news"
        self.show([LinePart(news, action, rank=90), LinePart(messages_key, action, rank=50, right=True)])


NEWS_SIGNS = {"error": ("✗", "$text-error"), "warning": ("!", "$text-warning")}
"""Severity -> sign before news of this severity, and the style of the sign."""
ANSWER_ACTION = "main.open_question"
"""Id of the action whose key the footer shows while a question waits."""
MAX_KEYS = 7
"""Maximum number of keys in the footer. The help and the action menu show all keys."""
LIKELY_WEIGHT = 50
"""Weight of the likely actions of the focused pane, which are first in the footer."""
DESK_ID_PREFIXES = ("app.", "main.")
"""Prefixes of the ids of actions whose keys are on the right of the footer."""


class DeskFooter(PartLine):
    """Line with the keys of the focused widget, and while a question waits, the key that opens it.

    The line is empty while a dialog is open.
    """

    DEFAULT_CSS = """
    DeskFooter { background: $panel; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._has_question = False
        self._is_covered = False
        """True while a dialog, which shows its own keys, is open."""

    def set_covered(self, *, is_covered: bool) -> None:
        """Hide all keys, or show them again."""
        if is_covered != self._is_covered:
            self._is_covered = is_covered
            if self.is_attached:
                self._redraw(self.screen)

    def set_has_question(self, *, has_question: bool) -> None:
        """Show the key that opens a waiting question, or hide it."""
        if has_question != self._has_question:
            self._has_question = has_question
            self._redraw(self.screen)

    def on_mount(self) -> None:
        """Redraw whenever the active keys change."""
        self.screen.bindings_updated_signal.subscribe(self, self._redraw)
        self._redraw(self.screen)

    def action_press(self, key: str) -> None:
        """Press the key, or the keys of a sequence."""
        for single_key in key.split():
            self.app.simulate_key(single_key)

    def _redraw(self, screen: Screen[object]) -> None:
        if self._is_covered:
            self.show([])
        elif self.is_attached and screen is self.screen:
            parts = list(_key_parts(screen, {ANSWER_ACTION} if self._has_question else ()))
            highest_ranks = sorted((part.rank for part in parts), reverse=True)[:MAX_KEYS]
            lowest_shown_rank = min(highest_ranks, default=0)
            self.show([part for part in parts if part.rank >= lowest_shown_rank])


def _key_parts(screen: Screen[object], additional_ids: Collection[str]) -> Iterator[LinePart]:
    """Yield the keys of the focused pane on the left and the keys of the desk on the right, each action once.

    Keys that only a wide footer shows are hidden first. `additional_ids` are ids of additional actions.
    """
    ancestors = (screen.focused or screen).ancestors_with_self
    pane = next((one for one in ancestors if isinstance(one, Pane)), None)
    likely, titles = ((), {}) if pane is None else (pane.likely_actions, pane.action_titles)

    def is_shown(binding: Binding) -> bool:
        return binding.show or binding.id in additional_ids or binding.id in likely

    active_bindings = screen.active_bindings  # read once, because Textual computes them at each access
    enabled = [
        active.binding
        for active in active_bindings.values()
        if active.enabled and _can_be_pressed(active_bindings, active.binding.key)
    ]
    spare_bindings = [one for one in enabled if not is_shown(one) and one.id in BY_ID and BY_ID[one.id].wide]
    # Highest remaining rank, by whether a key belongs to the pane. Each key takes one rank.
    ranks_of_shown, ranks_of_spare = {True: 60, False: 40}, {True: 20, False: 0}
    seen_actions = set[tuple[str | None, str]]()
    own_bindings = [one for one in enabled if is_shown(one) and _is_own(one)]
    own_bindings.sort(key=lambda one: likely.index(one.id) if one.id in likely else len(likely))
    desk_bindings = (one for one in enabled if is_shown(one) and not _is_own(one))
    for binding in (*own_bindings, *spare_bindings, *desk_bindings):
        identity = (binding.id, binding.action)
        if identity not in seen_actions:
            seen_actions.add(identity)
            is_own = _is_own(binding)
            ranks = ranks_of_shown if is_shown(binding) else ranks_of_spare
            key = binding.key_display or key_name(binding.key)
            title = titles.get(binding.id or "", binding.description)
            text = Content.assemble(" ", (key, "bold $footer-key-foreground"), " ", title, " ")
            weight = LIKELY_WEIGHT if binding.id in likely else _weight(binding)
            action, rank = f"press({binding.key!r})", ranks[is_own] + weight
            yield LinePart(text, action, binding.tooltip, rank=rank, right=not is_own)
            ranks[is_own] -= 1


def _can_be_pressed(active_bindings: Mapping[str, ActiveBinding], key: str) -> bool:
    """Return True if a key triggers its action at present.

    An action without a key cannot be triggered, and a sequence cannot while its prefix types text.
    """
    prefix, _, second = key.partition(" ")
    return key != NO_KEY and (not second or is_prefix(active_bindings, prefix))


def _is_own(binding: Binding) -> bool:
    """Return True if a key belongs to the focused pane."""
    return not (binding.id or "").startswith(DESK_ID_PREFIXES)


def _weight(binding: Binding) -> int:
    return BY_ID[binding.id].weight if binding.id in BY_ID else 0
