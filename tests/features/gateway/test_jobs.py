"""Jobs on real processes: their time limit, their owner, immediate refusals, and effects of a restart."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.cli.conftest import Service, started_services
from tests.seeds.test_runtime import address, rpc
from tests.support.curl import JSON, fetch
from tests.support.folders import write
from tests.support.patience import WITHIN_S, until, within

TOOLS = '''
    """Tools worth running as jobs."""

    import asyncio

    from mcpdesk import Context, tool


    async def nap(seconds: float) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "slept"


    async def forever(ctx: Context) -> str:
        """Report, and never end."""
        ctx.feed.stdout("begun\\n")
        await asyncio.Event().wait()
        return "never"


    async def draw(ctx: Context) -> str:
        """Make a file."""
        (ctx.folder / "plot.txt").write_text("a plot")
        ctx.produced("plot.txt")
        return "made"


    async def forbidden() -> str:
        """Nobody may call this."""
        return "called"
    '''
MANIFEST = {"name": "lab", "approvals": {"forbidden": "deny", "draw": "allow"}}
KEY = {"X-API-Key": "sesame"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "lab", {"mcp.json": json.dumps(MANIFEST), "tools/lab.py": TOOLS})


@pytest.fixture
def start(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "state"))
    with started_services() as begin:

        def started(**environ: str) -> tuple[Service, str]:
            for name, value in environ.items():
                monkeypatch.setenv(f"MCPDESK_{name}", value)
            service = begin(str(folder), "--port", "0")
            return service, address(service, "lab")

        yield started


Start = Callable[..., tuple[Service, str]]


def calling(name: str, arguments: dict[str, Any], mode: str = "sync") -> str:
    return rpc("tools/call", {"name": name, "arguments": arguments, "mode": mode})


async def begin(url: str, name: str, headers: dict[str, str] = KEY, **arguments: Any) -> str:
    request = calling(name, arguments, mode="async")
    return str((await fetch(f"{url}/v1/mcp", request, JSON | headers)).json["result"]["job_id"])


async def over(url: str, job: str, headers: dict[str, str] = KEY) -> Any:
    async with aiohttp.ClientSession() as client, within():
        await (await client.get(f"{url}/v1/mcp/progress/{job}?interval_ms=20", headers=headers)).read()
    return (await fetch(f"{url}/jobs/{job}", headers=headers)).json


async def until_written(url: str, job: str) -> None:
    async def has_begun() -> bool:
        return bool((await fetch(f"{url}/jobs/{job}", headers=KEY)).json["stdout"] == "begun\n")

    await until(has_begun, within_s=WITHIN_S)


async def until_kept(state: Path, job: str) -> None:
    """Wait until the end of a job is on disk. No call waits for that, so a kill may come first."""
    await until(lambda: any(_is_kept(file, job) for file in state.rglob("*.sqlite")))


def _is_kept(file: Path, job: str) -> bool:
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as data:
            rows = data.execute("SELECT record FROM jobs WHERE id = ?", (job,)).fetchall()
    except sqlite3.Error:
        return False  # another file, or one that is being written
    return any(b"completed" in record for (record,) in rows)


@pytest.mark.slow
async def test_the_limit_of_a_job_is_its_own(start: Start) -> None:
    _, url = start(API_KEY="sesame", TOOL_TIMEOUT_MS="100", JOB_TIMEOUT_MS="1500")
    at_once = await fetch(f"{url}/v1/mcp", calling("nap", {"seconds": 0.5}), JSON | KEY)
    assert "limit of 0.1 s" in at_once.json["error"]["data"]["stderr"]
    assert (await over(url, await begin(url, "nap", seconds=0.5)))["status"] == "succeeded"
    late = await over(url, await begin(url, "forever"))
    assert late["status"] == "failed" and "limit of 1.5 s" in late["message"]


@pytest.mark.process
async def test_jobs_are_listed_to_whoever_began_them_alone(start: Start) -> None:
    _, url = start()
    first, second = {"Mcp-Session-Id": await session(url)}, {"Mcp-Session-Id": await session(url)}
    job = await begin(url, "nap", first, seconds=0)
    other = await begin(url, "nap", second, seconds=0)
    unknown = await begin(url, "nap", {}, seconds=0)
    for headers, own in ((first, [job]), (second, [other]), ({}, [])):
        listed = (await fetch(f"{url}/jobs", headers=headers)).json
        assert [each["job_id"] for each in listed["jobs"]] == own
        assert ("Mcp-Session-Id" in listed.get("note", "")) == (not own)
    assert (await over(url, unknown, {}))["status"] == "succeeded", "its id is enough"
    (told,) = (await fetch(f"{url}/jobs", headers=first)).json["jobs"]
    assert {"status", "tool", "poll", "created_at"} <= told.keys()


@pytest.mark.process
async def test_who_has_the_key_is_told_of_all_jobs_and_who_has_not_of_none(start: Start) -> None:
    _, url = start(API_KEY="sesame")
    jobs = [await begin(url, "nap", seconds=0) for _ in range(2)]
    listed = (await fetch(f"{url}/v1/jobs", headers=KEY)).json["jobs"]
    assert [each["job_id"] for each in listed] == jobs[::-1], "the newest first"
    assert (await fetch(f"{url}/jobs")).status == 401


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "arguments"), [("nobody", {}), ("nap", {"seconds": "long"}), ("nap", {}), ("forbidden", {})]
)
async def test_what_is_refused_at_once_is_refused_as_a_job_in_the_same_words(
    start: Start, name: str, arguments: dict[str, Any]
) -> None:
    _, url = start(API_KEY="sesame")
    answers = [
        (await fetch(f"{url}/v1/mcp", calling(name, arguments, mode=mode), JSON | KEY)).json
        for mode in ("sync", "async")
    ]
    assert answers[0] == answers[1]
    assert "error" in answers[0] or answers[0]["result"]["isError"]
    assert (await fetch(f"{url}/jobs", headers=KEY)).json["jobs"] == []


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_jobs_are_known_after_a_restart(start: Start, number: signal.Signals, tmp_path: Path) -> None:
    service, url = start(API_KEY="sesame", DRAIN_TIMEOUT_S="0")
    done, running = await begin(url, "draw"), await begin(url, "forever")
    before = await over(url, done)
    assert before["status"] == "succeeded"
    await until_written(url, running)
    await until_kept(tmp_path / "state", done)
    service.end(number)
    _, url = start()
    assert (await fetch(f"{url}/jobs/{done}", headers=KEY)).json == before
    assert (await fetch(f"{url}/jobs/{done}/download", headers=KEY)).text == "a plot"
    ended = await over(url, running)
    assert (ended["status"], ended["exit_code"]) == ("failed", None)
    assert "interrupted" in ended["message"] and "interrupted" in ended["error"]["message"]
    assert ended["finished_at"] and (number == signal.SIGKILL or ended["stdout"] == "begun\n")
    listed = (await fetch(f"{url}/jobs", headers=KEY)).json["jobs"]
    assert {each["job_id"]: each["status"] for each in listed} == {done: "succeeded", running: "failed"}
    assert (await fetch(f"{url}/jobs/{done}")).status == 401


async def session(url: str) -> str:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = await fetch(f"{url}/v1/mcp", rpc("initialize", hello), JSON)
    return str(answer.headers["mcp-session-id"])
