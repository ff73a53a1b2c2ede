"""Policies: their sources, their precedence, and their persistence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.server.asks.approval_policies import DESK_ORIGIN, EffectivePolicy, Policy, policies_of
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.server_state import Plan, ServerState
from mcpdesk.storage import approvals as kept
from tests.support.policies import next_policy
from tests.support.served import make_server

ALLOW, ASK, DENY = Policy


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServerState]:
    made = ServerState(tmp_path, tmp_path / "state")
    yield made
    await made.close()


def tool(name: str) -> Tool:
    return Tool(name, make_server().tools.get("echo").handler, {"type": "object"})  # type: ignore[union-attr]


def test_without_a_word_everything_is_allowed(home: ServerState) -> None:
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ALLOW, "")
    assert home.approvals.allows("Bash") and not home.refusal(tool("Bash"))


def test_the_stronger_layer_counts_and_in_it_the_tools_own_line(home: ServerState) -> None:
    home.approvals.configure(
        ("setting", {"*": ASK, "ReadImage": ALLOW}), ("mcp.json", {"Bash": DENY, "*": DENY})
    )
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ASK, "setting")
    assert home.approvals.effective_policy("ReadImage") == EffectivePolicy(ALLOW, "setting")
    home.approvals.configure(("setting", {"ReadImage": ASK}), ("mcp.json", {"Bash": DENY, "*": ASK}))
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(DENY, "mcp.json")
    assert home.approvals.effective_policy("anything") == EffectivePolicy(ASK, "mcp.json")


def test_a_refusal_names_policy_and_place(home: ServerState) -> None:
    home.approvals.configure(("mcp.json", {"Bash": DENY}))
    assert home.refusal(tool("Bash")) == "Bash must not be called: its policy is deny (mcp.json)."


async def test_the_desk_goes_through_the_policies_and_back_to_what_is_configured(home: ServerState) -> None:
    home.approvals.configure(("mcp.json", {"Bash": ASK}))
    seen = []
    for _ in range(3):
        await next_policy(home.approvals, "Bash")
        seen.append(home.approvals.effective_policy("Bash"))
    assert seen == [
        EffectivePolicy(DENY, DESK_ORIGIN),
        EffectivePolicy(ALLOW, DESK_ORIGIN),
        EffectivePolicy(ASK, "mcp.json"),
    ]


async def test_what_the_desk_chose_and_granted_outlives_the_process(home: ServerState) -> None:
    await next_policy(home.approvals, "Bash")
    await next_policy(home.approvals, "ReadImage")
    await next_policy(home.approvals, "ReadImage")
    await home.approvals.grant("Bash", "client:cursor 1")
    again = ServerState(home.folder, home.state)
    again.approvals.configure(("setting", {"*": ALLOW}))
    await again.wake()
    assert again.approvals.effective_policy("Bash") == EffectivePolicy(ASK, DESK_ORIGIN)
    assert again.approvals.effective_policy("ReadImage") == EffectivePolicy(DENY, DESK_ORIGIN)
    assert [(each.tool, each.peer) for each in again.approvals.grants] == [("Bash", "client:cursor 1")]
    await again.close()


async def test_what_another_process_was_told_can_be_taken_up(home: ServerState) -> None:
    other = ServerState(home.folder, home.state)
    await other.approvals.grant("Bash", "client:a")
    await next_policy(other.approvals, "Bash")
    assert not home.approvals.is_granted("Bash", "client:a") and home.approvals.allows("Bash")
    await home.approvals.load()
    assert home.approvals.is_granted("Bash", "client:a") and not home.approvals.allows("Bash")
    await other.approvals.revoke("Bash", "client:a")
    await home.approvals.load()
    assert not home.approvals.is_granted("Bash", "client:a")
    await other.close()


async def test_a_choice_made_while_others_are_read_stays(home: ServerState) -> None:
    await home.approvals.grant("Bash", "client:a")
    again = next_policy(home.approvals, "Bash")
    await asyncio.gather(home.approvals.load(), again, home.approvals.load())
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ASK, DESK_ORIGIN)
    await asyncio.gather(next_policy(home.approvals, "Bash"), next_policy(home.approvals, "Bash"))
    other = ServerState(home.folder, home.state)
    await other.approvals.load()
    await next_policy(other.approvals, "Bash")
    await home.approvals.load()
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ASK, DESK_ORIGIN)
    await other.close()


async def test_a_choice_that_could_not_be_kept_is_not_read_over(
    home: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.approvals.grant("Bash", "client:a")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(kept, "set_policy", full)
        with pytest.raises(StorageError, match="No space left"):
            await next_policy(home.approvals, "Bash")
    await home.approvals.load()
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ASK, DESK_ORIGIN)


async def test_every_change_of_a_policy_and_of_the_plan_is_a_change_of_the_rules(home: ServerState) -> None:
    seen = [home.rules_version]
    home.approvals.configure(("mcp.json", {"Bash": ASK}))
    seen.append(home.rules_version)
    home.approvals.configure(("mcp.json", {"Bash": ASK}))
    assert home.rules_version == seen[-1]
    await next_policy(home.approvals, "Bash")
    seen.append(home.rules_version)
    home.set_plans({}, None)
    assert home.rules_version == seen[-1]
    plan = Plan("Move house", "plan.md", "2026-08-01T10:00:00+00:00", is_active=True)
    home.set_plans({"session": plan}, plan)
    seen.append(home.rules_version)
    assert seen == sorted(set(seen))


async def test_a_policy_that_cannot_be_kept_counts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    home = ServerState(tmp_path, tmp_path / "state")
    with pytest.raises(StorageError):
        await next_policy(home.approvals, "Bash")
    assert home.approvals.effective_policy("Bash") == EffectivePolicy(ASK, DESK_ORIGIN)
    await home.close()


def test_pairs_are_read_and_the_last_of_two_counts() -> None:
    assert policies_of(["Bash=ask", "*=deny", "Bash=allow"]) == {"Bash": ALLOW, "*": DENY}
