"""Details of a server besides its items: location, connection attempts, capabilities, instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.content import Content

from mcpdesk.link.state_looks import CORES
from mcpdesk.link.values import ServerView, ShownCore
from mcpdesk.tui.actions import BY_ID, bindings_for, key_or_menu
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.render.tones import TEXT_STYLES
from mcpdesk.tui.screens.frame_lines import upstream_state
from mcpdesk.tui.widgets.menu import Choice, Menu, PageDialog


def server_text(server: ServerView) -> Content:
    """Return the details of a server as shown on its page."""
    title = f"{server.title} {server.version}".strip()
    parts = [Content.styled(clean(title), "bold"), *_location_lines(server)]
    if server.log_level:
        level_text = f"log messages from level {clean(server.log_level)} up · {key_or_menu('main.log_level')}"
        parts.append(Content.styled(level_text, "$text-muted"))
    is_disabled = server.upstream is not None and server.upstream.state == "disabled"
    sign, style = ("○", "$text-muted") if is_disabled else ("✕", "$text-error")
    parts += [Content.styled(f"{sign} {clean(problem)}", style) for problem in server.problems]
    parts += [Content.styled(f"· {clean(helper)}", "$text-muted") for helper in server.helpers]
    if server.cores:
        parts += [Content(""), Content.styled("Replicas", "bold $text-primary")]
        parts += [_core_line(core) for core in server.cores]
    upstream = server.upstream
    if upstream is None:
        return Content("\n").join(parts)
    if upstream.hint:
        parts.append(Content.styled(clean(upstream.hint), "$text-muted"))
    if upstream.steps and upstream.state != "ready":
        parts += [Content(""), Content.styled("Connection attempts", "bold $text-primary")]
        parts += [Content(f"  {clean(step)}") for step in upstream.steps]
    if upstream.capabilities:
        parts += [Content(""), Content.styled("Capabilities", "bold $text-primary")]
        parts += [Content(f"  {line}") for line in _capability_lines(upstream.capabilities)]
    if upstream.instructions:
        parts += [Content(""), Content.styled("Instructions for models", "bold $text-primary")]
        parts += [Content(clean(upstream.instructions.strip()))]
    return Content("\n").join(parts)


def server_choice(server: ServerView) -> Choice:
    """Return the line of a server in the palette: its location, or the reason why it is down."""
    upstream, reason = server.upstream, " ".join("; ".join(server.problems).split())
    if upstream is None:
        hint = f"✕ {reason}" if reason else server.url or server.shown_location
        return Choice(server.name, server.name, hint, help=reason)
    if upstream.state == "ready":
        return Choice(server.name, server.name, server.shown_location)
    word, _ = upstream_state(upstream)
    help_text = reason or upstream.hint or server.shown_location
    if reason and upstream.hint:
        help_text = f"{reason.rstrip('.')}. {upstream.hint}"
    hint = f"{word} · {reason or server.shown_location}"
    return Choice(server.name, server.name, hint, help=help_text)


def _core_line(core: ShownCore) -> Content:
    look = CORES[core.state]
    state = clean(f"{look.text}{': ' + core.reason if core.reason else ''}")
    style = TEXT_STYLES[look.tone]
    return Content.assemble(f"  {clean(core.name)}  ", (state, style), f"  {clean(core.address)}")


def _location_lines(server: ServerView) -> Iterator[Content]:
    upstream = server.upstream
    if upstream is not None:
        word, style = upstream_state(upstream)
        state = Content.styled(word, style)
        revision_hint = (f" · {key_or_menu('main.speak_revision')}", "$text-muted")
        yield Content.assemble(state, f" · {upstream.revision}" if upstream.revision else "", revision_hint)
    for text in (server.shown_location, server.url, "" if upstream is None else upstream.login):
        if text:
            yield Content.styled(clean(text), "$text-secondary")


def _capability_lines(capabilities: dict[str, object]) -> Iterator[str]:
    """Yield lines such as `tools: listChanged`, and a separate line per extension."""
    for name, options in capabilities.items():
        members = options if isinstance(options, dict) else {}
        if name == "extensions":
            yield from (f"extension {clean(str(key))}" for key in members)
        else:
            details = ", ".join(clean(str(key)) for key, value in members.items() if value)
            yield clean(f"{name}: {details}" if details else name)


class ServerScreen(PageDialog):
    """Dialog with the page of one server."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("server_page")

    def __init__(
        self,
        server: ServerView,
        choose_revision: Callable[[], object] = lambda: None,
        choose_level: Callable[[], object] = lambda: None,
    ) -> None:
        """Create the dialog. The functions let the person choose another revision and another log level."""
        super().__init__(clean(server.name))
        self._server = server
        self._choose_revision, self._choose_level = choose_revision, choose_level

    @work
    async def action_action_menu(self) -> None:
        """Show the actions of the page. The chosen action closes the page."""
        actions = (BY_ID["server_page.speak_revision"], BY_ID["server_page.log_level"])
        choices = [Choice(action.title, action.name, help=action.help) for action in actions]
        chosen = await self.app.push_screen_wait(Menu(f"{self._server.name}: actions", choices))
        if chosen is not None:
            await self.run_action(chosen)

    def action_speak_revision(self) -> None:
        """Close the dialog, and choose the revision."""
        self.dismiss()
        self._choose_revision()

    def action_log_level(self) -> None:
        """Close the dialog, and choose the log level."""
        self.dismiss()
        self._choose_level()

    def page(self) -> Content:
        return server_text(self._server)
