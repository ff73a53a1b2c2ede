"""Agreement to configuration files that a test wrote itself."""

from __future__ import annotations

from mcpdesk.client.config_files import ConfigFile

TRUSTING = {"MCPDESK_TRUST": "1"}
"""Environment of a program that opens such a file."""


def agree(config: ConfigFile) -> None:
    """Agree to every content."""
