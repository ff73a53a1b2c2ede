"""One future for what several replicas were asked for."""

from __future__ import annotations

import pytest

from mcpdesk.features.replicas.desk.joint_futures import all_of
from mcpdesk.link.link import promise


def test_results_are_merged_when_the_last_has_come() -> None:
    first, last = promise(), promise()
    whole = all_of([first, last], sum)
    last.set_result(2)
    assert not whole.done()
    first.set_result(1)
    assert whole.result(0) == 3


def test_one_error_is_that_of_all() -> None:
    first, last = promise(), promise()
    whole = all_of([first, last], sum)
    first.set_exception(OSError("one is full"))
    assert not whole.done()
    last.set_result(2)
    with pytest.raises(OSError, match="one is full"):
        whole.result(0)


def test_without_a_replica_it_fails_at_once() -> None:
    with pytest.raises(ValueError, match="no replica is available"):
        all_of([], sum).result(0)
