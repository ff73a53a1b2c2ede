"""Real programs: in every case the call ends and no process survives."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from secrets import randbelow

import psutil
import pytest

from mcpdesk.jobs import process
from mcpdesk.jobs.child import GUARD, HAS_GUARD
from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import (
    LOWEST_PRIORITY,
    TERM_GRACE_S,
    Process,
    ProgramEnd,
    lower_priority,
    run,
)
from mcpdesk.jobs.process_table import MARK, row
from mcpdesk.jobs.schedule import call_soon_safely
from tests.support.patience import WITHIN_S, in_time, until
from tests.support.processes import is_alive

ESCAPE = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {first}
        with open({path!r} + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.rename({path!r} + ".new", {path!r})
        time.sleep(100)
    os._exit(0)
os.wait()
{then}
"""
"""A daemon in a new session whose parent has exited, started as daemons usually are."""


keeps = pytest.mark.skipif(not HAS_GUARD, reason="needs a system where orphans can be adopted")
ENVIRON = dict(os.environ)


async def bash(
    command: str, output: Output | None = None, timeout_s: float | None = 20, folder: Path = Path("/")
) -> ProgramEnd:
    return await run(
        ["bash", "-c", command],
        folder=folder,
        environment=dict(os.environ),
        output=output or Output(),
        timeout_s=timeout_s,
    )


@pytest.fixture
def limit_from_the_first_output(monkeypatch: pytest.MonkeyPatch) -> Output:
    """That of a program whose time begins with it: how long it takes to start says nothing of its limit."""
    output, within = Output(), process._within

    async def within_from_output(seconds: float | None, event: asyncio.Event) -> None:
        began = asyncio.Event()
        output.notify(began.set)
        if not output.size:
            await within(WITHIN_S, began)
        await within(seconds, event)

    monkeypatch.setattr(process, "_within", within_from_output)
    return output


def some_sleep() -> str:
    """A command that sleeps long, and that no other test and no other run has."""
    return f"sleep 100.{randbelow(10**9):09}"


def survivors(sign: str) -> list[psutil.Process]:
    """Living processes with `sign` in their command line, ourselves excluded."""
    found = []
    for each in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(each.info["cmdline"] or [])
        if sign in line and each.pid != os.getpid() and each.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(each)
    return found


async def until_written(path: Path) -> str:
    await until(lambda: path.exists() and path.read_text(), path)
    return path.read_text()


@pytest.mark.process
async def test_exit_code_output_and_folder(tmp_path: Path) -> None:
    output = Output()
    ended = await bash("pwd; echo oops >&2; exit 3", output, folder=tmp_path)
    assert (ended.exit_code, ended.timed_out, ended.stopped, ended.left_over) == (3, False, False, 0)
    assert output.stream("stdout") == f"{tmp_path}\n"
    assert output.stream("stderr") == "oops\n"


@pytest.mark.process
async def test_stdin_is_at_its_end() -> None:
    output = Output()
    assert (await bash("cat; echo done", output)).exit_code == 0
    assert output.text() == "done\n"


@pytest.mark.process
async def test_streams_are_in_order_of_arrival(tmp_path: Path) -> None:
    output = Output()
    wait = "until test -e {}; do sleep 0.01; done"
    call = asyncio.create_task(
        bash(f"echo 1; {wait.format(1)}; echo 2 >&2; {wait.format(2)}; echo 3", output, folder=tmp_path)
    )

    def ends_with(number: int) -> bool:
        return output.text().endswith(f"{number}\n")

    for number in (1, 2):
        await until(partial(ends_with, number))
        (tmp_path / str(number)).touch()
    await call
    assert output.text() == "1\n2\n3\n"


@pytest.mark.process
async def test_a_program_that_cannot_start_raises() -> None:
    with pytest.raises(FileNotFoundError):
        await run(["/nonexistent"], folder=Path("/"), environment={}, output=Output())


@pytest.mark.process
async def test_a_timeout_keeps_the_partial_output(limit_from_the_first_output: Output) -> None:
    output, sleep = limit_from_the_first_output, some_sleep()
    ended = await bash(f"echo before; {sleep}", output, timeout_s=0.1)
    assert ended.timed_out and ended.exit_code == 143
    assert output.text() == "before\n"
    assert not survivors(sleep)


@pytest.mark.slow
async def test_a_program_that_ignores_term_is_killed(limit_from_the_first_output: Output) -> None:
    sleep = some_sleep()
    ended = await bash(
        f"trap '' TERM; echo; while :; do {sleep}; done", limit_from_the_first_output, timeout_s=0.1
    )
    assert ended.timed_out and ended.exit_code == 137
    assert TERM_GRACE_S <= ended.duration_s < TERM_GRACE_S + WITHIN_S
    assert not survivors(sleep)


@pytest.mark.process
async def test_a_background_child_that_holds_the_pipe_does_not_hold_the_call() -> None:
    output, sleep = Output(), some_sleep()
    began = time.monotonic()
    ended = await bash(f"{sleep} & echo started", output)
    assert time.monotonic() - began < WITHIN_S
    assert (ended.exit_code, output.text()) == (0, "started\n")
    assert ended.left_over == 1
    assert not survivors(sleep)


@pytest.mark.process
async def test_output_of_a_helper_that_ends_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "EOF_GRACE_S", WITHIN_S)
    output = Output()
    ended = await bash("(sleep 0.1; echo late) & echo early", output)
    assert output.text() == "early\nlate\n"
    assert ended.left_over == 0


@pytest.mark.process
async def test_a_helper_that_is_just_ending_is_not_taken_for_left_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "EOF_GRACE_S", WITHIN_S)
    # Files are closed one by one at a program's end: its output ends some milliseconds before itself.
    script = "import os; [os.pipe() for _ in range(400)]; os.write(1, b'late'); os._exit(0)"
    for _ in range(10):
        output = Output()
        ended = await bash(f'{shlex.quote(sys.executable)} -Sc "{script}" & printf early', output)
        assert (output.text(), ended.left_over) == ("earlylate", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    ["pass", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"],
    ids=["plain", "stubborn"],
)
async def test_a_daemon_in_its_own_session_does_not_survive(tmp_path: Path, first: str) -> None:
    path = tmp_path / "pid"
    wait = f"while not os.path.exists({str(path)!r}): time.sleep(0.01)"
    script = ESCAPE.format(first=first, path=str(path), then=wait)
    ended = await run(
        [sys.executable, "-c", script],
        folder=tmp_path,
        environment=dict(os.environ),
        output=Output(),
        timeout_s=20,
    )
    assert ended.left_over == 1
    pid = int(await until_written(path))
    found = row(pid)
    assert found is None or found.is_zombie


UNMARKED = "env -i setsid -f sh -c 'trap \"\" TERM HUP; echo $$ > {path}; exec sleep 300'"
"""A daemon that leaves session, parent and environment, and ignores SIGTERM."""


@pytest.mark.slow
@keeps
async def test_what_drops_its_session_its_parent_and_its_mark_does_not_survive(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    wait = f"while [ ! -s {path} ]; do sleep 0.01; done"
    ended = await bash(f"{UNMARKED.format(path=path)}; {wait}")
    assert (ended.exit_code, ended.left_over) == (0, 1)
    found = row(int(path.read_text()))
    assert found is None or found.is_zombie


@pytest.mark.slow
@keeps
async def test_what_got_away_from_a_program_lives_as_long_as_that_and_no_longer(tmp_path: Path) -> None:
    path, over = tmp_path / "pid", asyncio.Event()
    process = Process(
        ["bash", "-c", f"{UNMARKED.format(path=path)}; sleep 300"], Path("/"), ENVIRON, Output()
    )
    loop = asyncio.get_running_loop()
    process.start(lambda _: call_soon_safely(loop, over.set))
    daemon = psutil.Process(int(await until_written(path)))
    other = await bash("true")
    assert other.left_over == 0 and is_alive(daemon)
    process.stop()
    await in_time(over.wait())
    assert not is_alive(daemon)


@pytest.mark.process
@keeps
async def test_ended_orphans_are_collected_while_their_program_still_runs() -> None:
    output = Output()
    count = "ps -e -o stat= -o args= | grep -c '^Z.*defunct' || true"
    before = subprocess.run(["bash", "-c", count], capture_output=True, text=True).stdout
    script = f"for n in 1 2 3 4 5; do env -i setsid -f true; done; {count}"
    await bash(
        f"for n in $(seq 50); do left=$( {script} ); [ $left -le {int(before)} ] && break; done; echo $left",
        output,
    )
    assert int(output.text()) <= int(before)


@pytest.mark.process
@keeps
async def test_when_a_keeper_is_killed_its_program_ends_and_so_does_what_that_started(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    call = asyncio.create_task(bash(f"{UNMARKED.format(path=path)}; sleep 300"))
    daemon = psutil.Process(int(await until_written(path)))
    keeper = daemon.parent()
    assert keeper is not None and "-S" in keeper.cmdline()
    keeper.kill()
    ended = await in_time(call)
    assert ended.exit_code == 128 + signal.SIGKILL
    await until(lambda: not is_alive(daemon))


@pytest.mark.process
@keeps
async def test_programs_go_on_when_the_guard_is_killed_and_new_ones_get_another(tmp_path: Path) -> None:
    path, go = tmp_path / "pid", tmp_path / "go"
    command = f"echo $$ > {path}; while [ ! -e {go} ]; do sleep 0.01; done; exit 7"
    call = asyncio.create_task(bash(command))
    keeper = psutil.Process(int(await until_written(path))).parent()
    assert keeper is not None
    guard = keeper.parent()
    assert guard is not None
    guard.kill()
    await until(lambda: not is_alive(guard))
    assert (await bash("exit 3")).exit_code == 3
    go.touch()
    assert (await in_time(call)).exit_code == 7


@pytest.mark.process
async def test_without_a_guard_that_starts_programs_they_run_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(GUARD, "starts_programs", False)
    sleep = some_sleep()
    assert (await bash(f"setsid {sleep} & exit 3")).exit_code == 3
    assert not survivors(sleep)


@pytest.mark.process
@keeps
async def test_the_parents_of_a_program_show_nothing_of_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = Output()
    show = "cat /proc/$PPID/environ; read -r _ _ _ parent _ < /proc/$PPID/stat; cat /proc/$parent/environ"
    assert (await bash(show, output)).exit_code == 0
    assert set(output.text().replace("\0", "\n").split()) <= {f"{MARK}={os.environ.get(MARK, '')}"}


@pytest.mark.slow
async def test_cancelling_ends_everything(tmp_path: Path) -> None:
    path, apart, sleep = tmp_path / "pid", some_sleep(), some_sleep()
    command = f"setsid {apart} & echo $$ > {path}; trap '' TERM; {sleep}"
    call = asyncio.create_task(bash(command))
    await until_written(path)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(call)
    assert not survivors(apart) and not survivors(sleep)


@pytest.mark.process
async def test_a_flood_costs_bounded_memory_and_leaves_the_loop_free(tmp_path: Path) -> None:
    output = Output(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call = asyncio.create_task(bash("yes | head -c 100000000", output, timeout_s=50))
    turns, busiest_s = 0, 0.0
    while not call.done():
        began = time.thread_time()
        await asyncio.sleep(0.005)
        turns, busiest_s = turns + 1, max(busiest_s, time.thread_time() - began)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert output.size == 100_000_000 and output.is_cut
    assert output.file is not None and output.file.stat().st_size == 100_000_000
    assert grown_kib < 20_000
    assert turns > 10 and busiest_s < 0.5, "others wait for a flood"


@pytest.mark.slow
async def test_no_descriptor_is_left_open() -> None:
    await bash("true")
    gc.collect()  # what earlier tests left
    before = psutil.Process().num_fds()
    for _ in range(5):
        await bash("echo x; sleep 100.8 &")
        await bash("sleep 100.8", timeout_s=0.05)
    assert psutil.Process().num_fds() == before


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="sessions have no priority elsewhere")
async def test_a_program_its_children_and_its_session_lower_priority() -> None:
    command = "read; nice; nice & wait; cat /proc/self/autogroup 2>/dev/null"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    await in_time(lower_priority(process.pid))
    out, _ = await process.communicate(b"\n")
    first, second, *session = out.decode().splitlines()
    wanted = str(LOWEST_PRIORITY)
    assert first == second == wanted
    assert all(line.endswith(f" nice {LOWEST_PRIORITY}") for line in session)


BUSY_AT_THE_END = """
import os
from pathlib import Path
from mcpdesk.jobs.output import Output
from mcpdesk.jobs.process import Process
process = Process(["sleep", "100"], Path("/"), dict(os.environ), Output(), on_begin=lambda: os.write(1, b"!"))
process.start(print)
os.read(0, 1)
"""


@pytest.mark.process
def test_nothing_is_said_when_a_process_ends_with_programs_running() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY_AT_THE_END],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdout.read(1) == b"!"
        out, err = child.communicate(b"!", timeout=WITHIN_S)
    assert (out, err.decode(), child.returncode) == (b"", "", 0)
