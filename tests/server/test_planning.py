"""The plan of a server: kept, taken up again, and in the way of what is not read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.server_state import PLAN_KEY, Plan, ServerState, refused, remember
from mcpdesk.storage.facts import keep
from tests.support.policies import next_policy

PLAN = Plan("Move house", "/tmp/plan.md", "2026-08-01T10:00:00+00:00", is_active=True)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServerState]:
    made = ServerState(tmp_path, tmp_path / "state")
    yield made
    await made.close()


def tool(**more: Any) -> Tool:
    async def handler(arguments: dict[str, Any], context: object) -> None: ...

    return Tool("send-mail", handler, {"type": "object"}, **more)


def test_a_tool_that_says_nothing_of_itself_is_refused_while_planning() -> None:
    assert "send-mail is not read-only" in refused(tool(), PLAN)
    assert "goal: Move house" in refused(tool(), PLAN)


@pytest.mark.parametrize("more", [{"annotations": {"readOnlyHint": True}}, {"while_planning": True}])
def test_reading_goes_on_while_planning(more: dict[str, Any]) -> None:
    assert refused(tool(**more), PLAN) == ""


@pytest.mark.parametrize("plan", [None, Plan("g", "f", "s", is_active=False)])
def test_nothing_is_refused_without_a_plan_being_made(plan: Plan | None) -> None:
    assert refused(tool(), plan) == ""


async def test_a_plan_is_taken_up_by_the_next_run(home: ServerState) -> None:
    await remember(home, PLAN)
    assert home.plan == PLAN
    again = ServerState(home.folder, home.state)
    await again.wake()
    assert again.plan == PLAN
    await again.close()


async def test_a_plan_nobody_can_read_is_named_with_its_file_and_all_else_counts(home: ServerState) -> None:
    await home.data.run(lambda connection: keep(connection, PLAN_KEY, '{"goal": 5}'))
    await next_policy(home.approvals, "Bash")
    await home.callbacks.set("later", 3600, 1, "peer", lambda level, data: True)
    again = ServerState(home.folder, home.state)
    with pytest.raises(StorageError, match=r"state\.sqlite holds a plan that cannot be read"):
        await again.wake()
    assert again.plan is None and not again.approvals.allows("Bash")
    assert [callback.message for callback in again.callbacks.snapshot] == ["later"]
    await again.close()


async def test_a_forgotten_plan_stays_forgotten(home: ServerState) -> None:
    await remember(home, PLAN)
    await remember(home, None)
    await home.wake()
    assert home.plan is None


async def test_a_server_that_keeps_nothing_makes_no_file(home: ServerState) -> None:
    await home.wake()
    assert not home.state.exists()
