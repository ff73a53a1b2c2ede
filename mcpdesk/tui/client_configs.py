"""The menu that hands out client configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpdesk.link.values import ServerView
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.link.link import Over
    from mcpdesk.tui.screens.main import MainScreen


class Client(NamedTuple):
    """One way in which a client can be told of a server."""

    name: str
    """What the link knows it by."""
    over: Over
    """`stdio`: it starts the server itself; `http`: it is given the URL."""
    title: str
    place: str
    """Where the text goes."""


CLIENTS = (
    Client("claude-code", "http", "Claude Code", "a command for the shell"),
    Client("claude-desktop", "stdio", "Claude Desktop", "claude_desktop_config.json"),
    Client("cursor", "http", "Cursor", ".cursor/mcp.json"),
    Client("vscode", "http", "VS Code", ".vscode/mcp.json"),
    Client("curl", "http", "curl", "one request by hand"),
    Client("claude-code", "stdio", "Claude Code, starting it", "a command for the shell"),
    Client("cursor", "stdio", "Cursor, starting it", ".cursor/mcp.json"),
    Client("vscode", "stdio", "VS Code, starting it", ".vscode/mcp.json"),
)
"""Those that come to the server as it runs here, then those that start one, or find it, by a command."""


def clients_of(server: ServerView) -> list[Client]:
    """Those that can reach a server: a URL takes a listener, and a socket is for curl alone."""
    is_served = server.url.startswith("http")
    return [one for one in CLIENTS if is_served or one.over == "stdio" or (one.name == "curl" and server.url)]


async def choose_client(main: MainScreen) -> None:
    """Ask which client and, where there are modes, which tools; copy the configuration."""
    server = next((one for one in main.link.view().servers if one.name == main.server), None)
    if server is None:
        return
    choices = [Choice(one.title, one, one.place, str(at)) for at, one in enumerate(clients_of(server), 1)]
    chosen = await main.app.push_screen_wait(Menu(f"Connect a client to {server.name}", choices))
    mode = "" if chosen is None or server.mode or not server.modes else await _choose_mode(main, server)
    if chosen is None or mode is None:
        return
    text = main.link.client_config(server.name, chosen.name, mode=mode, over=chosen.over)
    what = f"{chosen.title} in the mode {mode}" if mode else chosen.title
    main.app.copy(text, f"the configuration for {what}")


async def _choose_mode(main: MainScreen, server: ServerView) -> str | None:
    """A mode, or nothing for all tools; None when nothing was chosen."""
    choices = [Choice("all tools", "", "without ?mode=", "0")]
    for at, mode in enumerate(server.modes, 1):
        hint = mode.description or ", ".join(mode.tools)
        choices.append(Choice(mode.name, mode.name, hint, str(at) if at < 10 else ""))
    chosen: str | None = await main.app.push_screen_wait(Menu("With which tools?", choices))
    return chosen
