"""A person cancels a running call: its code ends, and its caller receives an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcpdesk.recorder.index.exchange import Status
from tests.support.desk import running_desk
from tests.support.folders import write
from tests.support.patience import result_of, until

FILES = {
    "mcp.json": '{"name": "near"}',
    "tools/tools.py": """
        import asyncio
        import pathlib
        import threading

        async def wait() -> str:
            try:
                await asyncio.sleep(600)
            finally:
                pathlib.Path(__file__).parents[2].joinpath("ended").touch()
            return "late"

        def block() -> str:
            threading.Event().wait(0.2)
            return "late"

        async def stubborn() -> str:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                return "late"
            return "later"
        """,
}


@pytest.mark.parametrize("tool", ["wait", "block", "stubborn"])
async def test_the_caller_of_a_cancelled_call_receives_an_error(tool: str, tmp_path: Path) -> None:
    async with running_desk(write(tmp_path / "near", FILES)) as desk:
        call = desk.request("near", "tools/call", {"name": tool, "arguments": {}})

        def is_running() -> bool:
            client = desk.client(call.connection)
            return client is not None and [one.id for one in client.running] == [call.request_id]

        await until(is_running)
        client = desk.client(call.connection)
        assert client is not None
        started = client.running[0].started
        assert not result_of(desk.cancel_call(call.connection, call.request_id, started - 1)), (
            "an earlier call"
        )
        assert is_running()
        assert result_of(desk.cancel_call(call.connection, call.request_id, started))
        outcome = result_of(call.outcome)
        assert outcome.error is not None and outcome.result is None
        assert outcome.error["message"] == "Not finished: cancelled by the person at the desk"
        await until(lambda: not is_running())
        assert not result_of(desk.cancel_call(call.connection, call.request_id, started))
        if tool == "wait":
            await until((tmp_path / "ended").exists)
        desk.traffic.catch_up(1.0)
        one = next(each for each in desk.traffic.exchanges if each.name == tool)
        assert one.status is Status.ERROR and one.ended is not None and one.ended <= time.time()


async def test_a_call_that_does_not_run_is_not_cancelled(tmp_path: Path) -> None:
    async with running_desk(write(tmp_path / "near", FILES)) as desk:
        assert not result_of(desk.cancel_call(999, 1, 0.0))
