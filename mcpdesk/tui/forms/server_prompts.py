"""Prompts about servers: add and remove them, their log level and revision, and the desk's roots."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from mcpdesk.link.values import ServerOffer, connected
from mcpdesk.protocol.methods import LOG_LEVELS
from mcpdesk.protocol.revisions import REVISIONS, Revision
from mcpdesk.tui.actions import bindings_for, key_or_palette
from mcpdesk.tui.forms.trust_prompt import TrustPrompt
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.menu import Choice, Dialog, Menu, Result, is_confirmed
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.text_field import TextField

if TYPE_CHECKING:
    from mcpdesk.link.link import Link
    from mcpdesk.tui.screens.main_screen import MainScreen

LISTING_TIMEOUT_S = 5.0
"""Timeout in seconds for a core in another process to list an added server."""
TARGET_EXAMPLES = """\
~/servers/profiles               a folder
https://example.com/mcp          a URL, and --header NAME=VALUE
-- npx -y some-server            a program
server.py                        a Python file of FastMCP or the SDK
cursor:github                    a server of a client on this machine
.mcp.json   or .mcp.json:NAME    the servers of a client's configuration"""


class ServerPrompt(Dialog[Result]):
    """Dialog with a field, a line for errors in the entered text, and a description of the allowed input."""

    DEFAULT_CSS = """
    ServerPrompt > .box { width: 76; margin-top: 3; }
    ServerPrompt Static { height: auto; color: $text-muted; }
    ServerPrompt > .box > LineField, ServerPrompt > .box > LineField:focus, ServerPrompt TextField {
        margin: 1 0; background: $foreground 8%;
    }
    ServerPrompt #trouble { display: none; margin-bottom: 1; color: $text-warning; }
    ServerPrompt #trouble.-shown { display: block; }
    """

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def show_message(self, text: str) -> None:
        """Show an error. An empty text hides it."""
        error_line = self.query_one("#trouble", Static)
        error_line.update(Content(clean(text)))
        error_line.set_class(bool(text), "-shown")


class AddServerPrompt(ServerPrompt[tuple[str, ...]]):
    """Prompt for a server, in the same form as on the command line. The result has the names of the added
    servers.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("add_prompt")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Add a server"
            box.border_subtitle = "enter add · esc close"
            yield LineField(placeholder="as after `mcpdesk` on the command line", compact=True)
            yield Static(id="trouble", markup=False)
            yield Static(TARGET_EXAMPLES, markup=False)

    @on(Input.Changed)
    def _edited(self, event: Input.Changed) -> None:
        """Hide the message about the previous input."""
        event.stop()
        self.show_message("")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value.strip():
            self._add()

    @work(exclusive=True)
    async def _add(self) -> None:
        self.show_message("… adding")
        text = self.query_one(LineField).entered_text.strip()
        try:
            names = await _add_trusted(self.app, self._link, text)
        except ValueError as reason:
            self.show_message(f"✗ {reason}")
            return
        self.dismiss(names)


async def _add_trusted(app: App[Any], link: Link, text: str) -> tuple[str, ...]:
    """Add a server after the person trusted its file. Return the names. Must run in a worker.

    Raises: ValueError with the reason if the server cannot be added or is not trusted.
    """
    trusted_sha256 = ""
    if (file := await asyncio.wrap_future(link.untrusted(text))) is not None:
        if not await app.push_screen_wait(TrustPrompt(file)):
            raise ValueError("not trusted: no program was started")
        trusted_sha256 = file.sha256
    return await asyncio.wrap_future(link.add_server(text, trusted_sha256))


class RootsPrompt(ServerPrompt[None]):
    """Editor of the desk's roots: the folders, one per line, that are sent to servers that ask for roots."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("roots_prompt")
    DEFAULT_CSS = "RootsPrompt TextField { height: auto; max-height: 10; min-height: 3; border: none; }"

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = "Roots of the desk"
            box.border_subtitle = "ctrl+s save · esc close"
            yield TextField("\n".join(self._link.view().roots), compact=True)
            yield Static(id="trouble", markup=False)
            yield Static(
                "One folder a line: file:///FOLDER or an absolute path. Servers may ask for the list."
            )

    @on(TextArea.Changed)
    def _edited(self) -> None:
        self.show_message("")

    @work(exclusive=True)
    async def action_keep(self) -> None:
        """Set these roots, if all of them are folders."""
        lines = self.query_one(TextField).entered_text.splitlines()
        try:
            await asyncio.wrap_future(self._link.choose_roots(lines))
        except ValueError as reason:
            self.show_message(f"✗ {reason}")
            return
        self.app.notify("Servers that ask for the desk's roots receive these.", markup=False)
        self.dismiss()


async def choose_log_level(main: MainScreen) -> None:
    """Ask for the log level of the selected server. Must run in a worker."""
    server = main.server_view
    if server is None:
        return
    if not server.log_level:
        main.notify(f"{one_line(server.name, 40)} sends no log messages.", markup=False)
        return
    choices = [Choice(level, level, "" if index else "everything") for index, level in enumerate(LOG_LEVELS)]
    cursor = LOG_LEVELS.index(server.log_level)
    level = await main.app.push_screen_wait(Menu(f"Log messages of {server.name}", choices, cursor=cursor))
    if level is None:
        return
    try:
        await asyncio.wrap_future(main.link.set_log_level(server.name, level))
    except ValueError as reason:
        main.notify(f"{server.name}: {one_line(str(reason))}", severity="error", markup=False)
    else:
        main.notify(f"{server.name} sends log messages from level {level} up.", markup=False)


async def choose_revision(main: MainScreen) -> None:
    """Ask for the revision to use with the selected server. Must run in a worker."""
    server = main.server_view
    if server is None:
        return
    if server.upstream is None:
        message = "The desk uses one revision for all folders: the setting desk_revision, read at the start"
        main.notify(f"{message} (MCPDESK_DESK_REVISION=2025-11-25 mcpdesk …).", markup=False)
        return
    current = server.upstream.revision
    choices = [Choice("the newest that both support", "", "negotiated on connecting")]
    choices += [
        Choice(
            revision.name, revision.name, "in use" if revision.name == current else _request_manner(revision)
        )
        for revision in reversed(REVISIONS)
    ]
    cursor = next((index for index, choice in enumerate(choices) if choice.value == current), 0)
    title = f"Use another revision with {one_line(server.name, 40)}"
    revision_name = await main.app.push_screen_wait(Menu(title, choices, cursor=cursor))
    if revision_name is not None:
        main.link.reconnect_with_revision(server.name, revision_name)
        main.notify(
            f"Reconnecting to {server.name} with {revision_name or 'the newest revision'}.", markup=False
        )


def _request_manner(revision: Revision) -> str:
    """Describe the manner in which a server sends requests in a revision."""
    if revision.is_stateless:
        return "the server asks through results"
    return "the server sends its own requests"


async def add_server(main: MainScreen) -> None:
    """Ask for a server, add it to the desk and select it. Must run in a worker."""
    names = await main.app.push_screen_wait(AddServerPrompt(main.link))
    if names:
        await _select_first(main, names)


async def open_offer(main: MainScreen, offer: ServerOffer) -> None:
    """Add an offered server and select it. First ask whether its code may run, or whether its file is
    trusted. Must run in a worker.
    """
    title = one_line(offer.title, 40)
    if offer.runs_code:
        run_choice = Choice("run", True, "with your rights and your environment")
        if not await is_confirmed(main.app, f"Run the code of {title}?", run_choice, "cancel"):
            return
    try:
        names = await _add_trusted(main.app, main.link, offer.target)
    except ValueError as reason:
        main.notify(f"{title}: {one_line(str(reason), 300)}", severity="warning", markup=False)
        return
    await _select_first(main, names)


async def _select_first(main: MainScreen, names: tuple[str, ...]) -> None:
    """Select the first of the added servers as soon as it is listed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            while all(server.name != names[0] for server in main.link.view().servers):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    main.server = names[0]
    if isinstance(main.pane, Pane):
        main.pane.select_added(names[0])
    main.refresher.refresh()
    main.notify(f"Added {one_line(', '.join(names), 80)}.", markup=False)


async def remove_server(main: MainScreen) -> None:
    """Remove a server from the desk after a confirmation. Must run in a worker."""
    name = main.target
    if not name:
        main.notify(f"No servers. {key_or_palette('main.add_server')} adds one.", markup=False)
        return
    losses = _losses(main.link, name)
    hint = f"and lose {' and '.join(losses)}" if losses else "nothing is lost"
    remove_choice = Choice("remove", True, hint, help="Its traffic is kept. You can add the server again.")
    if await is_confirmed(main.app, f"Remove {one_line(name, 40)}?", remove_choice, "keep"):
        main.link.remove_server(name)


def _losses(link: Link, server: str) -> list[str]:
    """Return a phrase for each kind of state that is lost with a server: `1 waiting question`."""
    question_count = sum(item.server == server and item.state == "waiting" for item in link.questions())
    job_count = sum(item.server == server and not item.state.is_final for item in link.jobs())
    clients = (client for client in link.view().clients if client.server == server)
    client_count = connected(clients, time.time())
    counts = (
        ("waiting question", question_count),
        ("running job", job_count),
        ("connected client", client_count),
    )
    return [f"{number} {noun}{'s' * (number > 1)}" for noun, number in counts if number]
