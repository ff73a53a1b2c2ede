"""Action of the desk that opens the dashboard in a browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import work

from mcpdesk.feature import ScreenAction
from mcpdesk.features.dashboard.browsers import NOT_SERVED, BrowserView, SignInLink, SignOutBrowsers
from mcpdesk.tui.action import Action

if TYPE_CHECKING:
    from mcpdesk.link.values import CoreView
    from mcpdesk.tui.screens.main_screen import MainScreen


@work
async def open_dashboard(main: MainScreen) -> None:
    """Let the person open the dashboard, copy a sign-in link, or sign out all browsers."""
    from mcpdesk.tui.forms.question_text import open_link
    from mcpdesk.tui.widgets.menu import Choice, Menu

    choices = [
        Choice("Open it in a browser", "open", help="With a link that signs in one browser, once."),
        Choice("Copy a sign-in link", "copy", help="It signs in one browser, once, within 10 minutes."),
        Choice("Sign out all browsers", "revoke", help="Ends their sessions, open pages and unused links."),
    ]
    choice = await main.app.push_screen_wait(Menu("Dashboard", choices))
    try:
        if choice == "revoke":
            session_count = await asyncio.wrap_future(main.link.do(SignOutBrowsers()))
            main.notify(f"Signed out {session_count} browser{'s' * (session_count != 1)}.", markup=False)
        elif choice is not None:
            if not main.link.feature_part(BrowserView).is_served:
                raise ValueError(NOT_SERVED)
            url = await asyncio.wrap_future(main.link.do(SignInLink()))
            if choice == "open":
                await open_link(main.app, url, "copy the sign-in link instead")
            else:
                main.desk.copy(url, "a sign-in link")
    except ValueError as error:
        main.notify(str(error), severity="warning", markup=False)


def _is_available(view: CoreView) -> bool:
    """Return True unless the view shows a capture, which has no server."""
    return bool(view.servers)


# fmt: off
ACTIONS = (
    ScreenAction(
        Action("dashboard", "", "dashboard in a browser",
            "Open the dashboard with a sign-in link, copy such a link, or sign out all browsers.",
            footer=False, wide=True, former_keys="W", scope="main", group="Server"),
        "main.servers", "Open the dashboard in a browser, or sign browsers out",
        "web page operator sign in link key cookie revoke log out session",
        open_dashboard, _is_available,
    ),
)
# fmt: on
