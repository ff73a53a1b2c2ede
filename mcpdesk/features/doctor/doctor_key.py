"""Key of the servers screen that opens the check-up."""

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
)
# fmt: on
