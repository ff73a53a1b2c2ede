"""Keys of the servers screen that open the check-up, and the check of a login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpdesk.feature import ScreenAction
from mcpdesk.tui.action import Action

if TYPE_CHECKING:
    from mcpdesk.link.values import CoreView
    from mcpdesk.tui.screens.servers import ServersPane


def open_doctor(pane: ServersPane) -> None:
    """Check the servers of all clients on this machine."""
    from mcpdesk.features.doctor.doctor_page import DoctorPage

    pane.app.push_screen(DoctorPage(pane.app.main.desk.copy))


def open_login(pane: ServersPane) -> None:
    """Check the login at the selected server."""
    from mcpdesk.features.doctor.login_lane import NO_LOGIN, LoginLanes
    from mcpdesk.features.doctor.login_page import LoginPage

    main, server = pane.app.main, pane.selected_server
    if server not in main.link.feature_part(LoginLanes).servers:
        main.notify(f"{server or 'This line'} {NO_LOGIN}.", severity="warning", markup=False)
        return
    pane.app.push_screen(LoginPage(main.link, server, main.desk.copy))


def _is_available(view: CoreView) -> bool:
    """Return True, because the page does not depend on the servers of the desk."""
    return True


# fmt: off
ACTIONS = (
    ScreenAction(
        Action("doctor", "v h", "health of all clients",
            "Start the servers of all clients on this machine whose files you trust, and show which of them "
            "fail, what they cost and what is unsafe. `mcpdesk doctor` prints the same.",
            footer=False, wide=True, scope="servers", group="Servers"),
        "servers.back", "Check the servers of all clients on this machine",
        "doctor health diagnose claude cursor vscode configuration duplicates tokens unsafe lock login",
        open_doctor, _is_available, is_offered_everywhere=True,
    ),
    ScreenAction(
        Action("login_steps", "v t", "login step by step",
            "Check each step of the login at the selected server: discovery, registration, authorization, "
            "token and refresh, with the rules that it follows or breaks. `mcpdesk doctor --login` prints "
            "the same.",
            footer=False, wide=True, scope="servers", group="Servers"),
        "servers.back", "Check the login at a server, step by step",
        "oauth token refresh expired metadata registration scope resource authorization",
        open_login, _is_available,
    ),
)
# fmt: on
