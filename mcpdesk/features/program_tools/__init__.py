"""Programs as tools: the entries of `commands` in `mcp.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpdesk.feature import Feature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpdesk.hosting.folder.file_items import FileItems
    from mcpdesk.hosting.folder.manifest import Manifest


class ProgramTools(Feature):
    """A tool for each entry of `commands`."""

    def command_tools(self, manifest: Manifest, environment: Mapping[str, str]) -> FileItems:
        """Return the tools of `commands`."""
        from mcpdesk.features.program_tools.command_tools import read_commands

        return read_commands(manifest, environment)


FEATURE = ProgramTools()
