"""Two desks with one engine: decisions at one count at the other, and differing folders are reported."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.group.host_sharing import HostSharing
from mcpdesk.features.replicas.group.living import LiveReplicas
from mcpdesk.server.asks.approval_policies import Policy
from tests.support.desk import RunningDesk, running_desk
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.patience import until, within
from tests.support.session_client import calculator

__all__ = ["shared_engine"]

pytestmark = needs_engine


@pytest.fixture
def sharing(shared_engine: EngineServer, tmp_path: Path) -> dict[str, object]:
    return {"http": True, "shared": shared_engine.url, "shared_name": deployment(tmp_path)}


@pytest.fixture
async def desks(tmp_path: Path, sharing: dict[str, Any]) -> AsyncIterator[tuple[RunningDesk, RunningDesk]]:
    folder = calculator(tmp_path)
    async with running_desk(folder, **sharing) as one, running_desk(folder, **sharing) as two:
        yield one, two


async def called(desk: RunningDesk) -> Any:
    """Response to a call of `add` for a client of a desk."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message |= {"params": {"name": "add", "arguments": {"a": 1, "b": 2}}}
    async with aiohttp.ClientSession() as http, http.post(desk.view().servers[0].url, json=message) as answer:
        return await answer.json()


@pytest.mark.process
async def test_a_policy_chosen_at_one_desk_counts_at_the_other_within_a_second(
    desks: tuple[RunningDesk, RunningDesk],
) -> None:
    one, two = desks
    assert not (await called(two))["result"].get("isError")
    one.choose_policy("calc", "add", Policy.DENY)
    approvals = two.host.folders["calc"].server.hosted
    assert approvals is not None
    await until(lambda: approvals.approvals.effective_policy("add").policy == "deny", within_s=10)
    refused = (await called(two))["result"]
    assert refused["isError"] and "its policy is deny" in refused["content"][0]["text"]


@pytest.mark.slow
async def test_the_key_and_the_secrets_of_rounds_are_the_same(desks: tuple[RunningDesk, RunningDesk]) -> None:
    one, two = (desk.host.shared for desk in desks)
    assert one is not None and two is not None
    assert one.api_key == two.api_key != ""
    assert set(one.signing_keys) == set(two.signing_keys) != set()


@pytest.mark.slow
async def test_a_folder_that_differs_is_told_on_both_desks(
    tmp_path: Path, desks: tuple[RunningDesk, RunningDesk], sharing: dict[str, Any]
) -> None:
    one, two = desks
    changed = calculator(tmp_path / "other")
    (changed / "tools" / "more.py").write_text('async def more() -> str:\n    """More."""\n    return ""\n')
    async with running_desk(changed, **sharing) as three:
        for desk in (one, three):
            await until(lambda: _was_told(desk, "calc on .* has other files than on this replica"))
        (changed / "tools" / "more.py").unlink()
        three.reload("calc")
        for desk in (one, three):
            await until(lambda: _was_told(desk, "calc on .* has the same files as this replica"))
    assert not _was_told(two, "never said")


def _was_told(desk: RunningDesk, pattern: str) -> bool:
    return any(re.search(pattern, notice.text) for notice in desk.host.journal.notices())


@pytest.mark.slow
async def test_the_list_of_replicas_is_in_the_status(desks: tuple[RunningDesk, RunningDesk]) -> None:
    one, two = desks
    url = one.view().servers[0].url.partition("/mcp/")[0]

    async def names() -> int:
        async with aiohttp.ClientSession() as http, http.get(f"{url}/status") as answer:
            body = await answer.json()
            assert body["shared"] == "up"
            number = len(body["replicas"])
        async with aiohttp.ClientSession() as http, http.get(f"{url}/metrics") as answer:
            metrics = await answer.text()
        assert "mcpdesk_engine_up 1.0" in metrics and f"mcpdesk_replicas {number}.0" in metrics
        return number

    async with within():
        while await names() < 2:  # noqa: ASYNC110 (a page sends no event)
            await asyncio.sleep(0.1)
    assert isinstance(two.host.shared, HostSharing)
    assert two.host.shared.group.is_alive(two.host.shared.id)


@pytest.mark.process
async def test_nobody_is_taken_for_dead_by_who_hears_first_that_the_engine_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_server() as server:
        engine = Engine(server.url, deployment(tmp_path))
        await engine.start()
        early, late = LiveReplicas(engine), LiveReplicas(engine)
        await late.renew()
        await early.renew()
        assert set(early.others) == {late.me.id}
        server.kill()
        await early.renew()
        server.start()  # with nothing of what it had, or with leases that are over
        await until(lambda: engine.status.is_up)
        await early.renew()
        assert set(early.others) == {late.me.id}, "it could not renew its lease, either"
        monkeypatch.setattr(early, "_lenient_until", 0.0)
        await early.renew()
        assert early.others == {}
        await engine.close()
