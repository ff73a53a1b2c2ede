"""Fixtures of the command line."""

from tests.cli.conftest import folder as folder
from tests.cli.conftest import mcpdesk as mcpdesk
