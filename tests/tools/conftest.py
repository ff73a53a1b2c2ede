"""A home for the tools under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.server.state.server_state import ServerState
from tests.tools.support import ToolContext


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServerState]:
    """State of a server with an empty folder."""
    folder = tmp_path / "folder"
    folder.mkdir()
    made = ServerState(folder, tmp_path / "state", (folder / "skills", tmp_path / "own" / "skills"))
    yield made
    await made.close()


@pytest.fixture
def context(home: ServerState) -> ToolContext:
    """A caller of the tools of that server."""
    return ToolContext(home=home)
