"""The plan of a server: stored, resumed, and blocking every tool that is not read-only."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from mcpdesk.errors import StorageError
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state import server_state
from mcpdesk.server.state.callback_timers import CoreIdentity
from mcpdesk.server.state.server_state import (
    PLAN_PREFIX,
    Plan,
    ServerState,
    end_plan,
    plan_refusal,
    store_plan,
)
from mcpdesk.storage.facts import facts, set_fact
from tests.support.policies import next_policy

PLAN = Plan("Move house", "/tmp/plan.md", "2026-08-01T10:00:00+00:00", is_active=True)
SESSION = "session:a"


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServerState]:
    made = ServerState(tmp_path, tmp_path / "state")
    yield made
    await made.close()


def tool(**more: Any) -> Tool:
    async def handler(arguments: dict[str, Any], context: object) -> None: ...

    return Tool("send-mail", handler, {"type": "object"}, **more)


def test_a_tool_that_says_nothing_of_itself_is_refused_while_planning() -> None:
    assert "send-mail is not read-only" in plan_refusal(tool(), PLAN)
    assert "goal: Move house" in plan_refusal(tool(), PLAN)


@pytest.mark.parametrize("more", [{"annotations": {"readOnlyHint": True}}, {"while_planning": True}])
def test_reading_goes_on_while_planning(more: dict[str, Any]) -> None:
    assert plan_refusal(tool(**more), PLAN) == ""


@pytest.mark.parametrize("plan", [None, Plan("g", "f", "s", is_active=False)])
def test_nothing_is_refused_without_a_plan_being_made(plan: Plan | None) -> None:
    assert plan_refusal(tool(), plan) == ""


async def test_a_plan_is_taken_up_by_the_next_run(home: ServerState) -> None:
    await store_plan(home, PLAN, SESSION)
    assert home.plan == PLAN and home.shown_plans == [(SESSION, PLAN)]
    again = ServerState(home.folder, home.state)
    await again.wake()
    assert again.plans == {SESSION: PLAN} and again.may_run_now(tool())
    again.join(SESSION)
    assert again.shown_plans == [(SESSION, PLAN)] and not again.may_run_now(tool())
    await again.close()


async def test_a_session_that_comes_from_another_process_brings_its_plan(home: ServerState) -> None:
    other = ServerState(home.folder, home.state)
    await store_plan(home, PLAN, SESSION)
    other.join(SESSION, is_read=False)
    assert not other.may_run_now(tool()) and not other.has_read_plans
    await other.read_plans()
    assert "plan mode is on" in other.refusal(tool(), SESSION) and other.has_read_plans
    assert other.refusal(tool(), "session:other") == "", "plan mode is of one session"
    other.join(SESSION, is_read=False)
    other.leave(SESSION)
    await other.read_plans()
    assert "plan mode is on" in other.refusal(tool(), SESSION), "another connection of it is open"
    await end_plan(other, SESSION)
    assert other.refusal(tool(), SESSION) == "" and other.may_run_now(tool())
    await other.close()


async def test_all_active_plans_are_shown_and_without_one_the_last(home: ServerState) -> None:
    later = replace(PLAN, goal="Paint", since="2026-08-02T10:00:00+00:00")
    await store_plan(home, PLAN, SESSION)
    await store_plan(home, later, "session:b")
    assert home.shown_plans == [("session:b", later), (SESSION, PLAN)]
    home.leave("session:b")
    assert home.shown_plans == [(SESSION, PLAN)]
    await end_plan(home, SESSION)
    ((_, last),) = home.shown_plans
    assert not last.is_active and last.goal == "Move house"


async def test_a_plan_of_callers_without_a_session_counts_no_longer(home: ServerState) -> None:
    text = msgspec.json.encode(PLAN).decode()
    await home.data.run(lambda connection: set_fact(connection, f"{PLAN_PREFIX}|claude-code", text))
    await home.wake()
    assert not home.plans and home.may_run_now(tool())


async def test_a_plan_nobody_can_read_is_named_with_its_file_and_all_else_counts(home: ServerState) -> None:
    await home.data.run(lambda connection: set_fact(connection, PLAN_PREFIX + SESSION, '{"goal": 5}'))
    await next_policy(home.approvals, "Bash")
    await home.callbacks.set("later", 3600, 1, "peer", lambda level, data: True)
    again = ServerState(home.folder, home.state)
    with pytest.raises(StorageError, match=r"state\.sqlite has a plan that cannot be read"):
        await again.wake()
    assert again.plan is None and not again.approvals.allows("Bash")
    assert [callback.message for callback in again.callbacks.snapshot] == ["later"]
    await again.close()


async def test_a_forgotten_plan_stays_forgotten(home: ServerState) -> None:
    await store_plan(home, PLAN, SESSION)
    await store_plan(home, None, SESSION)
    await home.wake()
    assert home.plan is None


async def test_a_server_that_keeps_nothing_makes_no_file(home: ServerState) -> None:
    await home.wake()
    assert not home.state.exists()


async def test_only_the_newest_plans_are_stored(home: ServerState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_state, "MAX_PLANS", 2)
    for day in (3, 1, 2):
        await store_plan(home, replace(PLAN, since=f"2026-08-0{day}T10:00:00+00:00"), f"session:{day}")
    assert set(await home.data.run(lambda connection: facts(connection, PLAN_PREFIX))) == {
        "session:2",
        "session:3",
    }


@pytest.mark.slow
@pytest.mark.process
async def test_only_the_newest_programs_are_told_to_the_other_replicas(
    home: ServerState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_state, "MAX_PROGRAMS", 2)
    for _ in range(3):
        await home.programs.start(["true"], "true", tmp_path, dict(os.environ), "peer")
    here, there = (CoreIdentity(mark, lambda mark: True) for mark in ("a", "b"))
    await server_state.store_programs(home, here)
    newest = sorted(each.id for each in home.programs.all())[-2:]
    assert [each.id for each in await server_state.load_remote_programs(home, there)] == newest
