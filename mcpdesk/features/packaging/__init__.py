"""MCPB bundles of server folders, and their entries for the registry."""

from __future__ import annotations

from mcpdesk.feature import Feature, FeatureCommand


class Packaging(Feature):
    """The command `pack`."""

    commands = {"pack": FeatureCommand("mcpdesk.features.packaging.pack_command", "Build and test a server")}


FEATURE = Packaging()
