"""What a core counts while it is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.hosting.figures import figures
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import Plan
from mcpdesk.inbox.question import Page
from mcpdesk.jobs.feed import Feed
from mcpdesk.settings import resolve
from tests.support.folders import write
from tests.support.patience import WITHIN_S

TOOLS = '''
    """Tools."""

    import asyncio

    from mcpdesk import refuse, tool


    @tool
    async def nap(seconds: float = 0.0) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "awake"


    @tool
    async def no() -> str:
        """Refuse."""
        refuse("no")
    '''


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    folder = write(
        tmp_path / "counted",
        {"tools/t.py": TOOLS, "tools/broken.py": "1 / 0\n", "prompts/p.md": "Hello.", "resources/r.txt": "r"},
    )
    settings = resolve({"state_dir": str(tmp_path / "state")}, {}).settings
    host = Host(Plan((folder,), settings, http=False, meet=False, watch=False))
    await host.start()
    yield host
    await host.stop()


def counted(host: Host) -> dict[str, float]:
    """Every value by its name and its labels but the server's."""
    return {
        " ".join([figure.name + each.suffix, *(v for name, v in each.labels.items() if name != "server")]): (
            each.value
        )
        for figure in figures(host)
        for each in figure.samples
    }


class Caller:
    """Calls tools over a pipe, which stays open until it is closed."""

    def __init__(self, host: Host) -> None:
        self.answered = asyncio.Semaphore(0)
        self.pipe = host.open_pipe(None, "stdio", self._came, "tester")
        hello = '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
        self.pipe.feed(f'{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{hello}}}\n'.encode())
        self.pipe.feed(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def _came(self, lines: bytes) -> None:
        for _ in lines.splitlines():
            self.answered.release()

    async def call(self, *tools: str) -> None:
        """Call each, and wait for all answers."""
        for number, tool in enumerate(tools, 1):
            params = f'{{"name":"{tool}","arguments":{{}}}}'
            self.pipe.feed(
                f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'.encode()
            )
        async with asyncio.timeout(WITHIN_S):
            for _ in ("initialize", *tools):
                await self.answered.acquire()


async def test_a_core_at_rest_counts_what_it_offers(host: Host) -> None:
    found = counted(host)
    assert (found["items tool"], found["items resource"], found["items prompt"]) == (2, 1, 1)
    assert found["items_unavailable tool"] == 1
    assert found["call_duration_seconds_count"] == found["errors_total"] == found["questions_waiting"] == 0
    assert "call_duration_seconds 0.5" not in found
    assert found["jobs call working"] == found["jobs program running"] == 0
    assert len({figure.name for figure in figures(host)}) == len(figures(host))


async def test_calls_stay_counted_when_their_peer_has_left(host: Host) -> None:
    caller = Caller(host)
    await caller.call("nap", "nap", "no", "nobody")
    during = counted(host)
    caller.pipe.close()
    after = counted(host)
    assert (during["peers stdio"], after["peers stdio"]) == (1, 0)
    for found in (during, after):
        assert found["call_duration_seconds_count"] == 4
        assert 0 <= found["call_duration_seconds 0.5"] <= found["call_duration_seconds_sum"]
        assert found["errors_total"] == 2
        assert found["frames_total"] == 11


async def test_jobs_are_counted_by_what_has_become_of_them(host: Host) -> None:
    jobs = host.services.jobs
    kept = [
        jobs.add(server="counted", owner="", tool="nap", peer="p", ttl_s=None, most=9, stop=lambda _: None)
        for _ in range(3)
    ]
    kept[0].feed = Feed()
    jobs.cancel(kept[1], "enough")
    found = counted(host)
    assert (found["jobs call queued"], found["jobs call working"], found["jobs call cancelled"]) == (1, 1, 1)
    kept[0].started = 1.0
    assert counted(host)["jobs call queued"] == 0


async def test_a_question_that_waits_is_counted(host: Host) -> None:
    number, _ = host.inbox.ask(server="s", peer="p", tool="t", pages=[Page("Well?")], timeout_s=9)
    assert counted(host)["questions_waiting"] == 1
    host.inbox.decline(number)
    assert counted(host)["questions_waiting"] == 0
