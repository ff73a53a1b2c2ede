"""A state file in memory."""

from __future__ import annotations

from collections.abc import Iterator
from sqlite3 import Connection, connect

import pytest

from mcpdesk.storage.database import MIGRATIONS


@pytest.fixture
def connection() -> Iterator[Connection]:
    opened = connect(":memory:")
    for script in MIGRATIONS:
        opened.executescript(script)
    yield opened
    opened.close()
