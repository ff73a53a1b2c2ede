"""Patience of engines in tests that are not about it, because a busy machine answers late."""

from __future__ import annotations

import pytest

from mcpdesk.features.replicas.engine import engine as engines
from tests.support.patience import WITHIN_S

IMPATIENT = frozenset({"test_engine", "test_failover"})
"""Modules whose tests wait until an engine counts as lost."""


@pytest.fixture(autouse=True)
def patient_engines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up no command early."""
    if request.module.__name__.rpartition(".")[2] not in IMPATIENT:
        monkeypatch.setattr(engines, "COMMAND_TIMEOUT_S", WITHIN_S)
