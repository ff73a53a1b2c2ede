"""Check-up of all servers in the configurations of clients on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction
    from mcpdesk.hosting.host_part import HostPart, StartedCore
    from mcpdesk.link.feature_part import FeaturePart


class Doctor(Feature):
    """The command `doctor`, and its pages on the desk."""

    commands = {
        "doctor": FeatureCommand(
            "mcpdesk.features.doctor.doctor_command", "Clients and recordings", before="trust"
        )
    }

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return the part that checks logins for the screen."""
        from mcpdesk.features.doctor.login_lane import LoginChecks

        return [LoginChecks(core)]

    def link_parts(self) -> Sequence[type[FeaturePart]]:
        """Return the state of the checks of logins."""
        from mcpdesk.features.doctor.login_lane import LoginLanes

        return (LoginLanes,)

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the keys of the servers screen."""
        from mcpdesk.features.doctor.doctor_key import ACTIONS

        return ACTIONS


FEATURE = Doctor()
