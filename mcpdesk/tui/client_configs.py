"""The menu that hands out client configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.screens.main import MainScreen

CLIENTS: tuple[tuple[str, str, str], ...] = (
    ("claude-code", "Claude Code", "a command for the shell, or .mcp.json"),
    ("claude-desktop", "Claude Desktop", "claude_desktop_config.json"),
    ("cursor", "Cursor", ".cursor/mcp.json"),
    ("vscode", "VS Code", ".vscode/mcp.json"),
    ("curl", "curl", "one request by hand"),
)
"""Name the link knows, name people know, where it goes."""


async def choose_client(main: MainScreen) -> None:
    """Ask which client, and copy its configuration for the server that is shown."""
    choices = [
        Choice(title, name, where, str(number)) for number, (name, title, where) in enumerate(CLIENTS, 1)
    ]
    name = await main.app.push_screen_wait(Menu(f"Connect a client to {main.server}", choices))
    if name:
        title = next(title for known, title, _ in CLIENTS if known == name)
        main.app.copy(main.link.client_config(main.server, name), f"the configuration for {title}")
