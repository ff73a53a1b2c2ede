"""Checks of a server: errors in its items, limits of known clients, and a lock of its definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mcpdesk.protocol.catalogue.contract import Definitions


class ContractFeature(Feature):
    """The command `check`, the lock file of a folder, and limits of clients for results."""

    commands = {
        "check": FeatureCommand(
            "mcpdesk.features.contract.check_command",
            "Build and test a server",
            before="schemas",
            takes_any_server=True,
        )
    }

    def agreed_definitions(self, lock_file: Path) -> Definitions | None:
        """Return the definitions in the lock file, or None if it is missing or unusable."""
        from mcpdesk.features.contract.lock_file import read_lock

        try:
            return read_lock(lock_file.read_bytes()).definitions
        except (OSError, ValueError):
            return None

    def result_limits(self, message: bytes, definition: Mapping[str, Any], peer: str) -> Sequence[str]:
        """Return a sentence for each known client whose limit the result exceeds."""
        from mcpdesk.features.contract.result_limits import exceeded_limits

        return exceeded_limits(message, definition, peer)


FEATURE = ContractFeature()
