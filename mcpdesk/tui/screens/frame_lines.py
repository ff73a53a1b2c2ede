"""The lines around the panes: the header about server, clients and work, and the footer with the keys."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen

from mcpdesk.link.values import CoreView, Protection, ServerView, Stuck, WorkView, connected
from mcpdesk.tui.actions import key_name
from mcpdesk.tui.render.amounts import countdown, rate, sparkline
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.part_line import LinePart, PartLine

PROTECTIONS: dict[Protection, tuple[str, str, str]] = {
    Protection.KEY: ("key ●", "$text-success", "Callers need the key."),
    Protection.LOOPBACK: ("loopback ○", "$text-muted", "No key: only this machine can reach it."),
    Protection.OPEN: (
        "OPEN ▲",
        "bold $text-error",
        "Callers need no key, although tools run programs or other machines can reach it.",
    ),
    Protection.OFFLINE: ("not listening ✕", "$text-warning", "Nothing listens on TCP."),
}
"""Word and glyph, style, and what they mean."""
TOKEN = ("token ●", "$text-success", "Callers need a bearer token.")
TOKENS = {Protection.KEY: ("key, token ●", "$text-success", "Callers need the key and a bearer token.")}
"""The same for a server that asks for tokens: these, else `TOKEN`."""

SPARK_SECONDS = 8


class DeskHeader(PartLine):
    """Shows a `CoreView`; everything on it can be clicked."""

    DEFAULT_CSS = """
    DeskHeader { dock: top; background: $panel; color: $text; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[object, ...] = ()

    def show_view(self, view: CoreView, server: str, rates: Sequence[float], waiting: int) -> None:
        """Show a new view. `rates` are messages per second, newest last; `waiting` counts questions."""
        due = view.work.next_callback
        left = "" if due is None else countdown(due - time.time())
        peers = connected(view.clients, time.time())
        seen = (view, server, tuple(rates), waiting, left, peers)
        if seen == self._seen:
            return
        self._seen = seen
        shown = next((one for one in view.servers if one.name == server), None)
        parts = [_brand(), _server(shown, several=len(view.servers) > 1)]
        if view.capture_failing:
            parts.append(_capture(view.capture_failing))
        if view.stuck is not None:
            parts.append(_stuck(view.stuck))
        else:
            wants_token = shown is not None and shown.wants_token
            parts.extend((_place(shown), _protection(view.protection, wants_token)))
        parts.extend((_clients(peers), _rate(rates)))
        parts.extend(_work(view.work, left))
        if waiting:
            parts.append(_questions(waiting))
        self.show(parts)


def _brand() -> LinePart:
    return LinePart(Content.styled(" mcpdesk ", "bold $text-primary"), "app.palette", "All actions", rank=10)


def _server(server: ServerView | None, several: bool) -> LinePart:
    if server is None:
        return LinePart(Content.styled(" no server ", "$text-warning"), rank=90)
    mode = f" · {one_line(server.mode, 16)}" if server.mode else ""
    text = Content.styled(f" {one_line(server.name, 30)}{mode}{' ▾' if several else ''} ", "bold")
    short = Content.styled(f" {one_line(server.name, 16)} ", "bold")
    tip = f"{server.title or server.name} {server.version}\n{server.folder}"
    return LinePart(text, "screen.pick_server" if several else "", tip, short, rank=90)


def _place(server: ServerView | None) -> LinePart:
    url = server.url if server else ""
    if not url:
        return LinePart(Content.styled("  not reachable ", "$text-muted"), rank=50)
    near = url.partition("://")[2] or url
    tip = "Click copies it; U offers the client configuration"
    return LinePart(_url(url), "screen.copy_url", tip, _url(one_line(near, 34)), rank=50)


def _url(text: str) -> Content:
    return Content.assemble("  ", (one_line(text), "$text-secondary"), " ")


def _protection(protection: Protection, wants_token: bool) -> LinePart:
    word, style, tip = PROTECTIONS[protection]
    if wants_token and protection is not Protection.OFFLINE:
        word, style, tip = TOKENS.get(protection, TOKEN)
    short = Content.assemble(" ", (word, style), " ")
    return LinePart(Content.assemble(" ", short), "screen.client_config", tip, short, rank=70)


def _clients(count: int) -> LinePart:
    text = f"{count} client{'' if count == 1 else 's'}"
    return LinePart(
        Content(f"  {text} "),
        "screen.show_screen('clients')",
        "Who is connected",
        Content(f" {count}⇄ "),
        40,
        True,
    )


def _rate(rates: Sequence[float]) -> LinePart:
    now = rates[-1] if rates else 0.0
    bars = sparkline(rates[-SPARK_SECONDS:])
    text = Content.assemble(f"  {rate(now):>5} ", (bars.rjust(SPARK_SECONDS), "$text-accent"), " ")
    tip = f"Messages per second, the last {SPARK_SECONDS} seconds"
    return LinePart(text, "screen.show_screen('traffic')", tip, Content(f" {rate(now)} "), 20, True)


def _work(work: WorkView, left: str) -> Iterator[LinePart]:
    """What goes on besides calls; `left` is the time to the next callback."""
    if work.is_planning:
        tip = "Plan mode: tools that are not read-only are refused"
        text = Content.styled("  ● plan mode ", "bold $text-warning")
        short = Content.styled(" ●plan ", "bold $text-warning")
        yield LinePart(text, "screen.show_part('plan')", tip, short, 75, True)
    if jobs := work.running_jobs:
        text = Content.styled(f"  ▸ {jobs} job{'' if jobs == 1 else 's'} ", "$text-primary")
        short = Content.styled(f" ▸{jobs} ", "$text-primary")
        yield LinePart(text, "screen.show_part('jobs')", "What runs in the background", short, 60, True)
    if left:
        text, short = Content(f"  ◷ {left} "), Content(f" ◷{left} ")
        yield LinePart(text, "screen.show_part('callbacks')", "Until the next callback", short, 55, True)


def _questions(waiting: int) -> LinePart:
    text = f"? {waiting} question{'' if waiting == 1 else 's'}"
    style = "bold $text-warning"
    short = Content.styled(f" ?{waiting} ", style)
    return LinePart(
        Content.styled(f"  {text} ", style), "screen.open_question", "Answer (a)", short, 80, True
    )


def _capture(failing: str) -> LinePart:
    style = "bold $text-error"
    text = Content.assemble("  ", ("✗ capture not written", style), " ")
    short = Content.assemble(" ", ("✗ capture", style), " ")
    return LinePart(text, "screen.show_screen('logs')", one_line(failing, 300), short, 95)


def _stuck(stuck: Stuck) -> LinePart:
    where = f" {stuck.where}" if stuck.where else ""
    start = f"loop stuck {stuck.seconds:.1f} s"
    place = f" in {stuck.tool}{where}" if stuck.tool else where
    style = "bold $text-error"
    text = Content.assemble("  ", (f"▲ {start}{one_line(place)}", style), " ")
    short = Content.assemble(" ", (f"▲ {start}{one_line(place, 32)}", style), " ")
    tip = "Hosted code blocks the core; calls wait until it returns"
    return LinePart(text, "screen.show_screen('logs')", tip, short, 100)


EVERYWHERE = ("app.", "main.")
"""Scopes whose keys stand last."""


class DeskFooter(PartLine):
    """Follows the focus by itself."""

    DEFAULT_CSS = """
    DeskFooter { background: $panel; color: $text-muted; }
    """

    def on_mount(self) -> None:
        """Redraw whenever the active keys change."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)
        self._follow(self.screen)

    def action_press(self, key: str) -> None:
        """Do what the key does."""
        self.app.simulate_key(key)

    def _follow(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.show(list(_parts(screen)))


def _parts(screen: Screen[object]) -> Iterator[LinePart]:
    found = [
        active.binding for active in screen.active_bindings.values() if active.binding.show and active.enabled
    ]
    unique = {(binding.id or "", binding.action): binding for binding in reversed(found)}
    bindings = [*reversed(unique.values())]
    own = [binding for binding in bindings if not (binding.id or "").startswith(EVERYWHERE)]
    for place, binding in enumerate(own):
        yield _part(binding, rank=60 - place)
    for place, binding in enumerate(b for b in bindings if b not in own):
        yield _part(binding, rank=90 - place, right=True)


def _part(binding: Binding, rank: int, right: bool = False) -> LinePart:
    key = binding.key_display or key_name(binding.key)
    text = Content.assemble(" ", (key, "bold $footer-key-foreground"), " ", binding.description, " ")
    return LinePart(text, f"press({binding.key!r})", binding.tooltip, rank=rank, right=right)
