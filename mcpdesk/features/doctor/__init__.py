"""Check-up of all servers in the configurations of clients on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import ScreenAction


class Doctor(Feature):
    """The command `doctor`, and its page on the desk."""

    commands = {
        "doctor": FeatureCommand(
            "mcpdesk.features.doctor.doctor_command", "Clients and recordings", before="trust"
        )
    }

    def screen_actions(self) -> Sequence[ScreenAction]:
        """Return the key of the servers screen."""
        from mcpdesk.features.doctor.doctor_key import ACTIONS

        return ACTIONS


FEATURE = Doctor()
