"""The menu of what was approved for good, where it can be ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from mcpdesk.link.values import GrantView
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.screens.main import MainScreen

NONE = "Nothing is approved for good. Tools of policy ask offer that with each call of a client."


async def choose_grant(main: MainScreen) -> None:
    """List the standing approvals of all servers, and end the chosen one."""
    granted = main.link.grants()
    if not granted:
        main.notify(NONE, markup=False)
        return
    now = time.time()
    choices = [
        Choice(f"{one.tool} for {whom(one)}", one, f"{since(now - one.granted)} ago", help=told(one))
        for one in granted
    ]
    grant = await main.app.push_screen_wait(Menu("Approved for good: enter ends it", choices))
    if grant is not None:
        main.link.revoke(grant)


def whom(grant: GrantView) -> str:
    """The peer, as people know it."""
    return one_line(grant.peer.partition(":")[2], 40)


def told(grant: GrantView) -> str:
    """What a standing approval allows, in a sentence."""
    kind, _, name = grant.peer.partition(":")
    who = f"Whoever has the token of {name}" if kind == "token" else f"Clients called {name}"
    return one_line(f"{who} may call {grant.tool} of {grant.server}.")
