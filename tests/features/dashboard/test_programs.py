"""The dashboard of the real programs: beside the desk on its screen, and under `mcpdesk serve`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.conftest import started_services
from tests.support.dashboard import Events
from tests.support.folders import write
from tests.support.terminal import Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
ASK = {"questions_json": '[{"question": "Which way?", "options": ["left", "right"]}]'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server that asks, and runs no programs: no key is due."""
    return write(tmp_path / "small", {"mcp.json": '{"name": "small", "builtins": ["AskUserQuestion"]}'})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


class Looker:
    """A browser without a screen."""

    def __init__(
        self, client: aiohttp.ClientSession, url: str, events: Events, operator: dict[str, str]
    ) -> None:
        self.operator = operator
        self.client = client
        self.url = url
        self.events = events

    async def ask(self) -> dict[str, Any]:
        """Have a tool ask a person; the structured result."""
        params = {"name": "AskUserQuestion", "arguments": ASK}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json"}
        async with self.client.post(f"{self.url}/mcp/small", json=body, headers=headers) as answer:
            told = await answer.json()
        return dict(told["result"]["structuredContent"])

    async def answer(self, **given: Any) -> int:
        """Answer the question that waits."""
        asked = (await self.events.event("questions", lambda told: told["waiting"]))["waiting"][0]
        body = {"question": asked["id"], **given}
        headers = {"Origin": self.url, **self.operator}
        async with self.client.post(f"{self.url}/dashboard/answer", json=body, headers=headers) as answer:
            return answer.status


@asynccontextmanager
async def looking(url: str, state: Path) -> AsyncIterator[Looker]:
    """An open page of the core with this state folder."""
    (file,) = (state / "operator").iterdir()
    operator = {"X-Operator-Key": file.read_text().strip()}
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"{url}/dashboard/events", headers=operator) as stream,
    ):
        assert stream.status == 200
        events = Events(stream)
        await events.event("core")
        yield Looker(client, url, events, operator)


async def test_a_question_is_answered_in_the_browser_while_the_desk_shows_it(
    folder: Path, state: Path
) -> None:
    with Desk([str(folder), "--port", "0", "--state-dir", str(state)], columns=120, rows=40) as desk:
        desk.see("http://127.0.0.1:")
        found = re.search(r"http://127\.0\.0\.1:\d+", "\n".join(desk.screen.display))
        assert found is not None
        async with looking(found[0], state) as looker:
            asked = asyncio.create_task(looker.ask())
            await asyncio.to_thread(desk.see, "Which way?")
            told = asyncio.create_task(
                asyncio.to_thread(desk.see, "answered by dashboard")
            )  # it does not stay
            assert await looker.answer(answers=[{"selected": ["right"]}]) == 200
            assert (await asked)["answers"][0]["selected"] == ["right"]
            await told


async def test_a_served_core_is_seen_and_ends_with_its_page_open(folder: Path, state: Path) -> None:
    with started_services() as start:
        service = start(str(folder), "--port", "0", "--state-dir", str(state))
        url = service.says("serving small at").rpartition(" ")[2].partition("/mcp/")[0]
        async with looking(url, state) as looker:
            asked = asyncio.create_task(looker.ask())
            assert await looker.answer(answers=[{"selected": ["left"]}]) == 200
            assert (await asked)["answers"][0]["selected"] == ["left"]
            assert await asyncio.to_thread(service.end) == 0
            while await looker.events.next() is not None:
                pass
