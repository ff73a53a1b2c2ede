"""Fixtures of the built-in tools."""

from tests.tools.conftest import context as context
from tests.tools.conftest import home as home
