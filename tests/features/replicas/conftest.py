"""Patience of links to cores in other processes, which start slowly on a busy machine."""

from __future__ import annotations

import pytest

from mcpdesk.features.replicas.desk import combined_link
from mcpdesk.link import remote
from tests.support import tiers
from tests.support.patience import WITHIN_S


@pytest.fixture(autouse=True)
def patient_links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links of tests with processes wait for the first view as long as these tests do."""
    if not tiers.is_quick(request.node):
        monkeypatch.setattr(remote, "FIRST_STATE_TIMEOUT_S", WITHIN_S)
        monkeypatch.setattr(combined_link, "FIRST_STATE_TIMEOUT_S", WITHIN_S)
