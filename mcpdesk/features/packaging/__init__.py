"""MCPB bundles of server folders, and their entries for the registry."""

from __future__ import annotations

from mcpdesk.feature import Command, Feature


class Packaging(Feature):
    """The command `pack`."""

    commands = {"pack": Command("mcpdesk.features.packaging.pack_command", "Build and test a server")}


FEATURE = Packaging()
