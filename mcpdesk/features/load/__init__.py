"""Measurement of a server under load."""

from __future__ import annotations

from mcpdesk.feature import Feature, FeatureCommand


class Load(Feature):
    """The command `load`."""

    commands = {
        "load": FeatureCommand(
            "mcpdesk.features.load.load_command",
            "Build and test a server",
            before="schemas",
            takes_any_server=True,
        )
    }


FEATURE = Load()
