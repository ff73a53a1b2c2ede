"""A program without the feature names it where somebody asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mcpdesk.cli.desk import run_named, run_sharing
from mcpdesk.errors import DeskUserError
from mcpdesk.features import NO_FEATURE, VARIABLE
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import HostPlan
from mcpdesk.settings import resolve


@pytest.fixture(autouse=True)
def without_the_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "replicas")


def test_several_cores_cannot_be_shown() -> None:
    with pytest.raises(DeskUserError, match="several cores on one screen") as caught:
        run_named(("one", "two"))
    assert caught.value.hint == NO_FEATURE
    with pytest.raises(DeskUserError, match="several cores on one screen"):
        run_sharing("redis://127.0.0.1:1")


def test_shared_state_is_refused(tmp_path: Path) -> None:
    settings = resolve({"shared": "redis://127.0.0.1:1"}, {}).settings
    with pytest.raises(DeskUserError, match="cannot share its state") as caught:
        Host(HostPlan((), replace(settings, state_dir=tmp_path)))
    assert caught.value.hint == NO_FEATURE
