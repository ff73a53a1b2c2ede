"""Check-up of all servers in the configurations of clients on this machine."""

from __future__ import annotations

from mcpdesk.feature import Feature, FeatureCommand


class Doctor(Feature):
    """The command `doctor`."""

    commands = {
        "doctor": FeatureCommand(
            "mcpdesk.features.doctor.doctor_command", "Clients and recordings", before="trust"
        )
    }


FEATURE = Doctor()
