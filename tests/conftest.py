"""What every test gets: folders of its own for state and configuration, and no settings from the outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from mcpdesk.settings import BY_VARIABLE

# How long an example takes says something of the machine's other work only.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep tests out of the person's files and settings out of the tests. Yields the folder of both."""
    for variable in (*BY_VARIABLE, "COLUMNS", "LINES"):  # the last two are set by what runs tests in parallel
        monkeypatch.delenv(variable, raising=False)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("MCPDESK_CONFIG_DIR", str(home / "config"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    yield home


@pytest.fixture
def repository() -> Path:
    """The root of the checkout."""
    return Path(os.path.abspath(__file__)).parent.parent
