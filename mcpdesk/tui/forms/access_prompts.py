"""Access to servers: the prompt for the desk's token for a server, and standing approvals."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mcpdesk.link.values import CatalogueItem, GrantView, ServerView, TokenView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.menu import Choice, Dialog, Menu

if TYPE_CHECKING:
    from mcpdesk.link.link import Link
    from mcpdesk.tui.screens.main_screen import MainScreen

_TOKEN_PREFIX = re.compile(r"\s*(?:Authorization\s*:)?\s*Bearer\s+", re.IGNORECASE)
"""Header name and scheme before a token, which a person may have copied together with the token."""


def open_token_prompt(main: MainScreen) -> None:
    """Ask for a token for the selected server, or start the login to an upstream that supports it.

    If the server ignores tokens, only a warning is shown.
    """
    server = main.server_view
    if server is None:
        return
    if server.upstream is not None:
        if server.upstream.wants_token:
            main.app.push_screen(TokenPrompt(main.link, server))
        else:
            main.link.log_in(server.name)
        return
    if not server.checks_tokens:
        main.notify(f"{server.name}: {NO_JWT_TEXT}", severity="warning", markup=False)
        return
    item = getattr(main.pane, "item", None)
    main.app.push_screen(TokenPrompt(main.link, server, item if isinstance(item, CatalogueItem) else None))


class TokenInput(LineField):
    """Field for a token. A pasted header is accepted. The text cannot be copied out of the field."""

    @property
    def selected_text(self) -> str:
        """Always empty, so that nothing can be copied."""
        return ""

    def action_cut(self) -> None:
        """Delete the selection without copying it."""
        self.delete_selection()

    def on_paste(self, event: events.Paste) -> None:
        """Insert the pasted text as one line without the header. Terminals break long tokens into several
        lines.
        """
        event.prevent_default()
        event.stop()
        self.replace("".join(_TOKEN_PREFIX.sub("", event.text, count=1).split()), *sorted(self.selection))


class TokenPrompt(Dialog[None]):
    """Prompt for a token, which is never shown. If the field is empty, the current token is removed.

    The dialog also checks whether the token has the scopes that the open `item` needs.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("token_prompt")
    DEFAULT_CSS = """
    TokenPrompt > .box { width: 72; margin-top: 4; }
    TokenPrompt Static { height: auto; color: $text-muted; }
    TokenPrompt > .box > Input, TokenPrompt > .box > Input:focus { margin: 1 0; background: $foreground 8%; }
    TokenPrompt #trouble { display: none; margin-bottom: 1; color: $text-warning; }
    TokenPrompt #trouble.-shown { display: block; }
    """

    def __init__(self, link: Link, server: ServerView, item: CatalogueItem | None = None) -> None:
        super().__init__()
        self._link = link
        self._server = server
        self._item = item
        self._needed_scopes = None if item is None else scopes_for(item, server)
        """Scopes that the open item needs, or None if no item is open or it needs no token."""
        self._accepts_missing_scopes = False
        """True if the next enter accepts a token without the needed scopes."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = Content(f"Token for {one_line(self._server.name, 40)}")
            box.border_subtitle = "enter check · esc close"
            yield Static(Content("\n".join(self._facts())))
            yield TokenInput(placeholder="paste a token", password=True, compact=True)
            yield Static(id="trouble", markup=False)
            yield Static("It is not stored, recorded or shown, and is forgotten when the desk closes.")

    def _facts(self) -> Iterator[str]:
        server, token = self._server, self._server.token
        if server.upstream is not None:
            yield f"{server.name} has no login. The desk sends this token to it, also with calls of clients."
        elif token is None:
            yield f"The desk calls {server.name} without a token."
        elif token.ended:
            yield f"The token of {_subject(token)} is no longer accepted: {token.ended}."
        else:
            scope_text = " ".join(one_line(scope, 60) for scope in sorted(token.scopes))
            yield f"The desk calls {server.name} as {_subject_and_time(token, time.time())}."
            yield f"Scopes: {scope_text or 'none'}. Enter without a token removes it."
        if self._item is not None and self._needed_scopes is not None:
            yield f"{one_line(self._item.title, 60)} needs one{scope_words(self._needed_scopes, ' with ')}."

    @on(Input.Changed)
    def _edited(self, event: Input.Changed) -> None:
        """Hide the message about the previous token."""
        event.stop()
        self._accepts_missing_scopes = False
        self._show_message("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        """Check the entered token. If the field is empty, remove the current token."""
        event.stop()
        if event.value.strip():
            self._check()
            return
        if self._server.token is not None:
            self._link.drop_token(self._server.name)
            self.app.notify(f"{self._server.name} is called without a token again", markup=False)
        self.dismiss()

    @work(exclusive=True)
    async def _check(self) -> None:
        name = self._server.name
        needed_scopes = () if self._accepts_missing_scopes else self._needed_scopes or ()
        self._show_message("… checking")
        # Not kept in a local variable, because tracebacks show local variables.
        pending_check = self._link.give_token(name, self.query_one(TokenInput).value.strip(), needed_scopes)
        try:
            missing_scopes = await asyncio.wrap_future(pending_check)
        except ValueError as reason:
            self._show_message(f"✗ The token was rejected: {reason}.")
            return
        if missing_scopes:
            self._accepts_missing_scopes = True
            self._show_message(
                f"✗ The token is valid, but lacks {scope_words(missing_scopes)}. Enter uses it anyway."
            )
            return
        if self._server.upstream is not None:
            self.app.notify(f"Connecting to {name} with the token.", markup=False)
            self.dismiss()
            return
        token = next((server.token for server in self._link.view().servers if server.name == name), None)
        self.app.notify(f"{name} is called as {_subject(token) if token else 'before'}", markup=False)
        self.dismiss()

    def _show_message(self, text: str) -> None:
        error_line = self.query_one("#trouble", Static)
        error_line.update(Content(one_line(text)))
        error_line.set_class(bool(text), "-shown")


NO_JWT_TEXT = "this server accepts no tokens: mcp.json has no auth.jwt"


def scopes_for(item: CatalogueItem, server: ServerView) -> tuple[str, ...] | None:
    """Return the scopes that a token for an item must have, or None if no token is needed."""
    if not item.needs_token and not server.wants_token:
        return None
    return tuple(dict.fromkeys((*server.token_scopes, *item.scopes)))


def token_line(item: CatalogueItem, server: ServerView, now: float) -> tuple[str, str]:
    """Return the line about tokens that is shown above an item, and the colour of this line.

    Both are empty if no line is needed. `now` is Unix time.
    """
    needed_scopes, token = scopes_for(item, server), server.token
    if needed_scopes is None:
        if token is None or token.ended:
            return "", ""
        return f"called as {_subject_and_time(token, now)}", "$text-muted"
    if not server.checks_tokens:
        return f"✕ needs a token, and {NO_JWT_TEXT}", "$text-error"
    if token is None or token.ended:
        ended_note = f" · the token of {_subject(token)} ended: {token.ended}" if token is not None else ""
        return (
            f"● needs a token{scope_words(needed_scopes, ' with ')}{ended_note} · F6 sets one",
            "$text-warning",
        )
    missing_scopes = [scope for scope in needed_scopes if scope not in token.scopes]
    if missing_scopes:
        missing_note = scope_words(missing_scopes, ", without ")
        return (
            f"✕ called as {_subject_and_time(token, now)}{missing_note} · F6 sets another token",
            "$text-warning",
        )
    return (
        f"✓ called as {_subject_and_time(token, now)}{scope_words(needed_scopes, ', with ')}",
        "$text-success",
    )


def scope_words(scopes: Iterable[str], prefix: str = "") -> str:
    """Return `scope wallet:send` or `scopes a, b`, preceded by `prefix`, or "" if there are no scopes."""
    names = [one_line(scope, 60) for scope in scopes]
    return f"{prefix}scope{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _subject_and_time(token: TokenView, now: float) -> str:
    """Return the subject of the token and its remaining time: `ada, 59 min left`."""
    time_left = f", {since(token.expires - now)} left" if token.expires is not None else ""
    return _subject(token) + time_left


def _subject(token: TokenView) -> str:
    return one_line(token.name, 40)


NO_GRANTS_TEXT = (
    "No standing approvals. A call that waits for approval (policy ask) offers to approve all later ones."
)


async def choose_grant(main: MainScreen) -> None:
    """List the standing approvals of all servers, and revoke the selected one."""
    grants = main.link.grants()
    if not grants:
        main.notify(NO_GRANTS_TEXT, markup=False)
        return
    choices = [grant_choice(grant, time.time()) for grant in grants]
    grant = await main.app.push_screen_wait(Menu("Revoke a standing approval", choices))
    if grant is not None:
        main.link.revoke(grant)


def grant_choice(grant: GrantView, now: float) -> Choice:
    """Return the menu line of a standing approval, with a sentence about its effect. `now` is Unix time."""
    kind, _, name = grant.peer.partition(":")
    clients = f"Clients with the token of {name}" if kind == "token" else f"Clients called {name}"
    effect = one_line(f"{clients} may call {grant.tool} of {grant.server}.")
    return Choice(
        f"{grant.tool} for {one_line(name, 40)}", grant, f"{since(now - grant.granted)} ago", help=effect
    )
