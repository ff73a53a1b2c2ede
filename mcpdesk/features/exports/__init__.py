"""Exchanges in other formats: HTTP archives, JSON Lines, Markdown, Mermaid and curl commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import ExchangeCopy, Exporter


class Exports(Feature):
    """The command `export`, and the formats in the menus of the traffic screen and of the dashboard."""

    commands = {
        "export": FeatureCommand("mcpdesk.features.exports.export_command", "Clients and recordings", "diff")
    }

    def exporters(self) -> Sequence[Exporter]:
        """Return the formats for files."""
        from mcpdesk.features.exports.formats import EXPORTERS

        return EXPORTERS

    def exchange_copies(self) -> Sequence[ExchangeCopy]:
        """Return the texts for the clipboard: Markdown, JSON and a curl command."""
        from mcpdesk.features.exports.formats import COPIES

        return COPIES


FEATURE = Exports()
