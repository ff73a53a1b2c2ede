"""The folder with a tool for every kind of answer, for tests that need a real server."""

from __future__ import annotations

from tests.bridge.conftest import folder

__all__ = ["folder"]
