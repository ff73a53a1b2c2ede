"""A rolling restart behind HAProxy fails no call; `python -m tests.load.rolling` runs longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.load import rolling
from tests.support.engine import needs_engine
from tests.support.features import needs_feature
from tests.support.haproxy import needs_haproxy

pytestmark = [needs_engine, needs_feature("replicas"), needs_haproxy, pytest.mark.slow]


async def test_a_replica_behind_haproxy_is_restarted_without_one_failed_call(tmp_path: Path) -> None:
    found = await rolling.run(1, 200, tmp_path, clients=8, replicas=2)
    assert found.failures == [] and set(found.codes) == {0}, str(found)
    assert found.restarts == 1 and found.calls >= 200
