"""Bash returns everything a caller needs, whatever the command does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.protocol.trace import Trace
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState, ToolOptions
from tests.support.patience import in_time
from tests.tools.support import ToolContext, fields, use


@pytest.fixture
def home(tmp_path: Path) -> ServerState:
    (tmp_path / "folder").mkdir()
    return ServerState(tmp_path / "folder", tmp_path / "state")


async def call(home: ServerState, context: ToolContext | None = None, **arguments: Any) -> ToolResult[Any]:
    return await use("Bash", context or ToolContext(home=home), **arguments)


def text(result: ToolResult[Any]) -> str:
    return str(result.content[0]["text"])


async def test_a_command_runs_in_the_server_folder(home: ServerState) -> None:
    result = await call(home, command="pwd; echo oops >&2")
    assert not result.is_error
    assert fields(result)["stdout"] == f"{home.folder}\n"
    assert fields(result)["stderr"] == "oops\n"
    assert fields(result)["exit_code"] == 0
    *lines, remark = text(result).splitlines()
    assert sorted(lines) == sorted([str(home.folder), "oops"])
    assert remark == "[stdout and stderr are two pipes: their lines may be out of order]"


async def test_one_pipe_for_both_streams_keeps_their_order(home: ServerState) -> None:
    result = await call(home, command="for n in 1 2 3; do echo out $n; echo err $n >&2; done 2>&1")
    assert text(result).splitlines() == ["out 1", "err 1", "out 2", "err 2", "out 3", "err 3"]


async def test_a_failing_command_is_an_error_with_its_output(home: ServerState) -> None:
    result = await call(home, command="echo almost; exit 3")
    assert result.is_error
    assert fields(result)["exit_code"] == 3
    assert text(result) == "almost\n[exit code 3]"


async def test_silence_is_said(home: ServerState) -> None:
    assert text(await call(home, command="true")) == "(no output)"


@pytest.mark.slow
async def test_a_timeout_returns_what_there_was(home: ServerState) -> None:
    result = await call(home, command="echo so far; sleep 100", timeout=2000)
    assert result.is_error and fields(result)["timed_out"]
    assert 200 <= fields(result)["duration_ms"] < 5000
    assert text(result).startswith("so far\n[timed out after 2000 ms")


@pytest.mark.parametrize("command", ["seq 1 9999", "seq 1 9999 >&2; exit 3", "yes € | head -c 60000"])
async def test_output_for_a_model_is_bounded_in_every_form(home: ServerState, command: str) -> None:
    home.options = ToolOptions(output_chars=3000)
    result = await call(home, command=command)
    shown = [text(result), fields(result)["stdout"], fields(result)["stderr"]]
    assert max(map(len, shown)) <= 3000 and sum(len(each) > 2500 for each in shown) == 2
    path = fields(result)["output_file"]
    assert fields(result)["truncated"]
    assert all(f"left out; the full output is in {path}" in each for each in shown if len(each) > 2500)
    assert Path(path).stat().st_size > 40_000


async def test_background_processes_are_said_to_be_ended(home: ServerState) -> None:
    result = await call(home, command="sleep 100 >/dev/null 2>&1 & echo ok")
    assert text(result) == "ok\n[1 still running in the background, ended]"


async def test_output_so_far_is_sent_as_progress(home: ServerState) -> None:
    context = ToolContext(wants_progress=True, home=home)
    gate = home.folder / "gate"
    command = f"mkfifo {gate}; echo first; read < {gate}; echo second"
    running = asyncio.create_task(call(home, context, command=command))
    await in_time(context.reported.wait())
    assert context.reports == [(6, "first\n")]
    gate.write_text("go\n")
    assert fields(await running)["stdout"] == "first\nsecond\n"


async def test_a_folder_that_is_gone_is_named(home: ServerState) -> None:
    home.folder.rmdir()
    with pytest.raises(HandlerError, match=f"could not be started in {home.folder}: No such file"):
        await call(home, command="true")


async def test_a_nul_character_is_refused(home: ServerState) -> None:
    with pytest.raises(HandlerError, match="command: must not contain a NUL"):
        await call(home, command="a\0b")


async def test_the_callers_trace_reaches_the_environment(home: ServerState) -> None:
    context = ToolContext(home=home)
    context.trace = Trace("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=b", "k=v")
    result = await call(home, context, command='echo "$TRACEPARENT $TRACESTATE $BAGGAGE"')
    assert fields(result)["stdout"] == f"{context.trace.traceparent} a=b k=v\n"
