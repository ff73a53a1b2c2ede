"""Background commands: started, read piece by piece, listed, killed; none survives the server."""

from __future__ import annotations

import asyncio
import re
import threading
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from mcpdesk.errors import HandlerError
from mcpdesk.jobs import programs
from mcpdesk.jobs.process import LOWEST_PRIORITY
from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState
from tests.support.patience import WITHIN_S, in_time, until, within
from tests.support.processes import is_alive
from tests.tools.support import ToolContext, fields, use


async def begin(context: ToolContext, command: str) -> int:
    begun = await use("BackgroundBash", context, command=command)
    return int(fields(begun)["task_id"])


async def read(context: ToolContext, number: int) -> ToolResult[Any]:
    return await use("ReadBgOutput", context, task_id=number)


async def ended(context: ToolContext, number: int) -> None:
    program = context.hosted.programs.get(number)
    assert program is not None
    await in_time(program.over.wait())


async def written(context: ToolContext, number: int, what: str) -> None:
    """Wait until a task has written something."""
    program = context.hosted.programs.get(number)
    assert program is not None
    loop = asyncio.get_running_loop()
    async with within():
        while what not in program.output.text():
            more = asyncio.Event()
            program.output.notify(partial(call_soon_safely, loop, more.set))
            if what not in program.output.text():
                await more.wait()


async def test_a_command_runs_while_the_caller_goes_on(context: ToolContext) -> None:
    gate = context.hosted.folder / "gate"
    number = await begin(context, f"mkfifo {gate}; echo first; read < {gate}; echo second; exit 3")
    assert number == 1
    await written(context, number, "first")
    early = await read(context, number)
    assert (fields(early)["output"], fields(early)["task"]["status"]) == ("first\n", "running")
    gate.write_text("go\n")
    await ended(context, number)
    late = await read(context, number)
    assert fields(late)["output"] == "second\n"
    assert (fields(late)["task"]["status"], fields(late)["task"]["exit_code"]) == ("failed", 3)
    assert (
        (await read(context, number)).content[0]["text"].startswith("(no new output)\n[failed, exit code 3")
    )


async def test_every_caller_has_a_place_of_its_own_in_the_output(context: ToolContext) -> None:
    number = await begin(context, "echo out; echo err >&2")
    await ended(context, number)
    other = ToolContext(home=context.hosted)
    other.caller = "another"
    mine, theirs = await read(context, number), await read(other, number)
    assert (
        sorted(fields(mine)["output"].split()) == ["err", "out"] == sorted(fields(theirs)["output"].split())
    )


async def test_of_large_output_the_start_and_the_newest_are_given_and_where_it_is(
    context: ToolContext,
) -> None:
    gate = context.hosted.folder / "gate"
    number = await begin(context, f"mkfifo {gate}; seq 1 400000; read < {gate}; echo more")
    await written(context, number, "400000")
    piece = await read(context, number)
    told, output = piece.content[0]["text"], fields(piece)["output"]
    assert fields(piece)["truncated"] and len(told) <= 30_000
    assert output.startswith("1\n2\n") and output.endswith("399999\n400000\n") and "left out" in output
    path = Path(fields(piece)["task"]["output_file"])
    assert f"the full output is in {path}" in told and path.read_text().startswith("1\n2\n")
    assert fields(await read(context, number))["output"] == ""
    gate.write_text("go\n")
    await ended(context, number)
    rest = await read(context, number)
    assert (fields(rest)["output"], fields(rest)["truncated"]) == ("more\n", False)


async def test_a_character_is_never_torn_apart(context: ToolContext) -> None:
    gate = context.hosted.folder / "gate"
    number = await begin(context, rf"mkfifo {gate}; printf '\xe2\x82'; read < {gate}; printf '\xac!'")
    await written(context, number, "\ufffd")
    assert fields(await read(context, number))["output"] == ""
    gate.write_text("go\n")
    await ended(context, number)
    assert fields(await read(context, number))["output"] == "€!"


async def test_tasks_are_listed_with_status_and_runtime(context: ToolContext) -> None:
    await ended(context, await begin(context, "true"))
    await begin(context, "sleep 100")
    listed = await use("ListBgTasks", context)
    assert [(task["task_id"], task["status"]) for task in fields(listed)["tasks"]] == [
        (1, "succeeded"),
        (2, "running"),
    ]
    assert re.search(r"2  running, \d+\.\d.*sleep 100", listed.content[0]["text"])


@pytest.mark.slow
async def test_killing_reaches_everything_the_command_started(context: ToolContext, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    number = await begin(
        context,
        f"trap '' TERM; (setsid sleep 300 & echo $! >> {pids}); sleep 300 & echo $! >> {pids}; echo up; wait",
    )
    await written(context, number, "up")
    processes = [psutil.Process(int(pid)) for pid in pids.read_text().split()]
    killed = await use("KillBgTask", context, task_id=number)
    assert fields(killed)["status"] == "killed"
    assert not [each for each in processes if is_alive(each)]
    again = await use("KillBgTask", context, task_id=number)
    assert "had ended before: killed" in again.content[0]["text"]


async def test_nothing_is_left_when_the_server_ends(home: ServerState, context: ToolContext) -> None:
    number = await begin(context, "echo up; sleep 300")
    await written(context, number, "up")
    program = home.programs.get(number)
    assert program is not None and program.output.file is not None
    shell = psutil.Process(program.process.pid)
    await home.close()
    assert not shell.is_running() and not program.output.file.exists()


@pytest.mark.parametrize("name", ["ReadBgOutput", "KillBgTask"])
async def test_an_unknown_task_is_told_which_there_are(context: ToolContext, name: str) -> None:
    with pytest.raises(HandlerError, match=r"task_id: no background task 7\. Known: none"):
        await use(name, context, task_id=7)
    await begin(context, "true")
    with pytest.raises(HandlerError, match="Known: 1"):
        await use(name, context, task_id=-1)


async def test_a_looping_client_does_not_fill_the_machine(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MAX_RUNNING_PROGRAMS", 2)
    for _ in range(2):
        await begin(context, "sleep 300")
    with pytest.raises(
        HandlerError, match="2 programs are already running, which is the limit; end one first"
    ):
        await begin(context, "true")


async def test_what_ended_long_ago_is_forgotten_with_its_file(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MAX_ENDED_PROGRAMS", 1)
    for _ in range(3):
        await ended(context, await begin(context, "echo x"))
    assert [program.id for program in context.hosted.programs.all()] == [3]
    files = context.hosted.state / "programs"
    await until(lambda: len(list(files.iterdir())) == 1)


async def test_a_folder_that_is_gone_is_named_and_leaves_no_task(context: ToolContext) -> None:
    context.hosted.folder.rmdir()
    with pytest.raises(HandlerError, match=r"could not be started in .*: No such file"):
        await begin(context, "true")
    assert context.hosted.programs.all() == ()


async def test_what_a_dead_process_left_behind_is_removed(context: ToolContext) -> None:
    folder = context.hosted.state / "programs"
    folder.mkdir(parents=True)
    (folder / "program-999999999-1-1.txt").write_text("old")
    await begin(context, "true")
    assert not list(folder.glob("program-999999999-*"))


async def test_what_a_program_uses_is_known_while_it_runs(context: ToolContext) -> None:
    number = await begin(context, "sleep 300 & sleep 300 & echo up; wait")
    await written(context, number, "up")
    used = await asyncio.to_thread(context.hosted.programs.usage)
    assert used[number].processes == 3 and used[number].memory > 100_000


async def test_an_output_file_that_was_removed_is_named(context: ToolContext) -> None:
    number = await begin(context, "echo x")
    await ended(context, number)
    program = context.hosted.programs.get(number)
    assert program is not None and program.output.file is not None
    program.output.file.unlink()
    with pytest.raises(HandlerError, match=r"output of task 1 cannot be read: .*No such file"):
        await read(context, number)


async def test_an_output_that_made_room_for_others_is_said_to_be_removed(context: ToolContext) -> None:
    context.hosted.options = replace(context.hosted.options, outputs_keep_bytes=200_000)
    first = await begin(context, "yes | head -c 150000; echo end")
    await ended(context, first)
    second = await begin(context, "yes | head -c 150000")
    await ended(context, second)
    piece = await read(context, first)
    assert "the file with the output was removed: the outputs of programs exceed" in piece.content[0]["text"]
    assert "bytes left out" in fields(piece)["output"] and fields(piece)["output"].endswith("end\n")
    folder = context.hosted.state / "programs"
    assert sum(path.stat().st_size for path in folder.iterdir()) == 150_000
    assert fields(await read(context, second))["output"].startswith("y\n")


async def test_the_newest_of_a_task_whose_file_is_full_can_be_read(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpdesk.jobs.output.MAX_FILE_BYTES", 1 << 20)
    number = await begin(context, f"yes | head -c {2 << 20}; echo end; sleep 300")
    await written(context, number, "end")
    piece = await read(context, number)
    assert fields(piece)["output"].startswith("y\n") and fields(piece)["output"].endswith("end\n")
    assert "the file holds the first 1,048,576 bytes only" in piece.content[0]["text"]
    assert fields(await read(context, number))["output"] == ""


async def test_no_task_is_left_of_a_call_that_was_cancelled(
    context: ToolContext, home: ServerState, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, is_cancelled = programs._create_output, threading.Event()

    def made(*given: Any) -> Any:
        output = make(*given)
        is_cancelled.wait(WITHIN_S)
        return output

    monkeypatch.setattr(programs, "_create_output", made)
    begun = asyncio.create_task(begin(context, "sleep 300"))
    files = home.state / "programs"
    await until(files.is_dir)
    begun.cancel()
    await asyncio.sleep(0)
    is_cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await begun
    await home.close()
    assert home.programs.all() == ()
    await until(lambda: not list(files.iterdir()))


async def test_state_that_cannot_be_written_is_named(context: ToolContext) -> None:
    context.hosted.state.parent.mkdir(exist_ok=True)
    context.hosted.state.write_text("a file")
    with pytest.raises(HandlerError, match=r"a file for its output cannot be created in .*programs: "):
        await begin(context, "true")


async def test_what_runs_in_the_background_gives_way(context: ToolContext) -> None:
    gate = context.hosted.folder / "gate"
    number = await begin(context, f"mkfifo {gate}; echo up; read < {gate}; nice")
    await written(context, number, "up")
    gate.write_text("go\n")
    await ended(context, number)
    assert fields(await read(context, number))["output"] == f"up\n{LOWEST_PRIORITY}\n"
    assert int(fields(await use("Bash", context, command="nice"))["stdout"]) < LOWEST_PRIORITY
