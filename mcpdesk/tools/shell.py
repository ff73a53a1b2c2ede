"""Bash runs one command to its end; BackgroundBash and its companions manage background tasks.

The parameters of these tools must not change, because clients use them.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from mcpdesk.errors import HandlerError, StorageError
from mcpdesk.jobs.output import Output, Stream
from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult

if TYPE_CHECKING:
    from mcpdesk.jobs.feed import CallFeed
    from mcpdesk.jobs.output_budget import OutputBudget
    from mcpdesk.jobs.process import ProgramEnd
    from mcpdesk.jobs.programs import Program
    from mcpdesk.server.state.server_state import ProgramRecord

MAX_MS = 600_000
"""Maximum time limit of a command in milliseconds."""
MAX_READERS = 1_000
"""Maximum number of callers whose position in the output of a background task is stored."""
MAX_COMMAND_BYTES = 100_000
"""Maximum bytes of a command. Operating systems limit the length of an argument to little more."""
PROGRESS_EVERY_S = 0.2
"""Minimum seconds between two progress messages."""
MAX_PROGRESS_BYTES = 4_000
"""Maximum bytes of recent output in a progress message."""


class Run(Struct, frozen=True):
    """Outcome and output of the command.

    Attributes:
        exit_code: 128 + n if the command died of signal n
        truncated: True if only the start and the end of the output are returned
        output_file: File with the full output, if it was too large to return
    """

    exit_code: int
    duration_ms: int
    stdout: str
    stderr: str
    truncated: bool
    output_file: str | None
    timed_out: bool


@tool(
    name="Bash",
    title="Run a bash command",
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=True,
    timeout=MAX_MS / 1000 + 10,
    runs_programs=True,
)
async def bash(
    command: str, ctx: Context, timeout: Annotated[int, Meta(ge=1, le=MAX_MS)] = 30_000
) -> ToolResult[Run]:
    """Execute a bash command in the server's folder, without input, and return its output. Processes
    that it leaves running in the background are ended. A non-zero exit code is reported as an error. stdout
    and stderr are two pipes, so the order of their lines may change; `2>&1` in the command keeps the order.
    If the output is long, its start and its end are returned, with the path of a file that has all of it.

    Args:
        command: The bash command to execute
        timeout: Timeout in milliseconds (default: 30000)
    """
    max_chars = ctx.hosted.options.output_chars
    folder = ctx.hosted.outputs
    budget = ctx.hosted.output_budget
    if ctx.feed is None:
        output = Output(folder, reader_length=max_chars, budget=budget)
    else:
        output = _feeding_output(folder, ctx.feed, max_chars, budget)
    sends_progress = ctx.wants_progress and ctx.feed is None
    reporter = asyncio.create_task(_report_progress(output, ctx)) if sends_progress else None
    try:
        program_end = await _run(command, timeout, ctx, output)
    finally:
        if reporter is not None:
            reporter.cancel()
            await asyncio.wait({reporter})
    return _result(program_end, output, timeout, max_chars)


async def bash_argv(command: str) -> list[str]:
    """Return the argument list that runs a command.

    Raises: HandlerError if the command or bash is unusable.
    """
    if not command.strip():
        raise HandlerError("command: is empty; give a bash command")
    if "\0" in command:
        raise HandlerError("command: must not contain a NUL character")
    if len(command.encode(errors="replace")) > MAX_COMMAND_BYTES:
        raise HandlerError(
            f"command: is longer than {MAX_COMMAND_BYTES} bytes; put it into a file and run that"
        )
    program = await asyncio.to_thread(shutil.which, "bash")
    if program is None:
        raise HandlerError("bash is not installed, or not in PATH")
    return [program, "-c", command]


def environment_of(ctx: Context) -> dict[str, str]:
    """Return the environment of the process without secrets, and with the caller's trace."""
    return ctx.environment | ctx.trace.environment()


async def _run(command: str, timeout_ms: int, ctx: Context, output: Output) -> ProgramEnd:
    # This import loads psutil, which is not needed before the first call.
    from mcpdesk.jobs.process import run

    try:
        return await run(
            await bash_argv(command),
            folder=ctx.hosted.folder,
            environment=environment_of(ctx),
            output=output,
            timeout_s=timeout_ms / 1000,
        )
    except OSError as error:
        raise HandlerError(f"bash could not be started in {ctx.hosted.folder}: {error.strerror}") from error


def _feeding_output(folder: Path, feed: CallFeed, max_chars: int, budget: OutputBudget) -> Output:
    """Return an `Output` that copies all text to the feed of a job when the text arrives."""
    from mcpdesk.jobs.output import Reports

    def copy_to_feed(stream: Stream, text: str) -> None:
        (feed.stdout if stream == "stdout" else feed.stderr)(text)

    return Reports(folder, "", copy_to_feed, lambda _: None, max_chars, budget)


async def _report_progress(output: Output, context: Context) -> None:
    """Send recent output as progress whenever more output has arrived, at most once in `PROGRESS_EVERY_S`."""
    loop = asyncio.get_running_loop()
    reported_bytes = 0
    while True:
        output_arrived = asyncio.Event()
        output.notify(partial(call_soon_safely, loop, output_arrived.set))
        if output.size > reported_bytes:
            reported_bytes = output.size
            await context.progress(reported_bytes, message=output.end(MAX_PROGRESS_BYTES))
        else:
            await output_arrived.wait()
        await asyncio.sleep(PROGRESS_EVERY_S)


def _result(program_end: ProgramEnd, output: Output, timeout_ms: int, max_chars: int) -> ToolResult[Run]:
    from mcpdesk.jobs.process import end_remarks, report_end

    report = report_end(program_end, output, end_remarks(program_end, output, timeout_ms), max_chars)
    file = str(output.file) if output.file else None
    has_failed = program_end.timed_out or program_end.exit_code != 0
    return ToolResult(
        (content.text(report.text),),
        Run(output_file=file, **report.fields),
        is_error=has_failed,
    )


NOTES_LENGTH = 500
"""Number of characters of a result that are reserved for text other than the output."""
MAX_COMMAND_LENGTH = 100
"""Maximum characters of a command in a list."""

Status = Literal["running", "succeeded", "failed", "killed"]


class Task(Struct, frozen=True):
    """A background task.

    Attributes:
        exit_code: None while it runs
        runtime_s: Seconds from its start to its end, or to now
        output_bytes: Size of its output so far
        output_file: File with its full output, until the server ends
    """

    task_id: int
    command: str
    status: Status
    exit_code: int | None
    runtime_s: float
    output_bytes: int
    output_file: str


class NewOutput(Struct, frozen=True):
    """Output of a background task since the last read by this caller.

    Attributes:
        truncated: True if only the start and the end of that output are returned
    """

    task: Task
    output: str
    truncated: bool


class TaskList(Struct, frozen=True):
    """All known background tasks, oldest first."""

    tasks: tuple[Task, ...]


@tool(
    name="BackgroundBash",
    title="Run a bash command in the background",
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=True,
    runs_programs=True,
)
async def background_bash(command: str, ctx: Context) -> ToolResult[Task]:
    """Execute bash command in background, returns immediately. It runs in the server's folder, without input
    and without a time limit, until it ends, is killed or the server ends. ReadBgOutput returns its output.

    Args:
        command: The bash command to execute
    """
    if ctx.hosted.is_brief:
        raise HandlerError(
            "A background program would end with this call, because the process that hosts the server also "
            "ends. Start the desk or `mcpdesk serve` with the folder and call again, or use Bash."
        )
    argv, environment = await bash_argv(command), environment_of(ctx)
    try:
        program = await ctx.hosted.programs.start(argv, command, ctx.hosted.folder, environment, ctx.peer)
    except RuntimeError as error:
        raise HandlerError(str(error)) from error
    except OSError as error:
        raise HandlerError(f"bash could not be started in {ctx.hosted.folder}: {error.strerror}") from error
    ctx.hosted.publish_programs()
    task = _task(program)
    return ToolResult((content.text(f"Task {task.task_id} runs. Read its output with ReadBgOutput."),), task)


@tool(
    name="ReadBgOutput",
    title="Read a background task's new output",
    read_only=True,
    destructive=False,
    idempotent=False,
    open_world=False,
)
async def read_bg_output(task_id: int, ctx: Context) -> ToolResult[NewOutput]:
    """Read new output from a background task: its output since the last read by this caller. If that is too
    long, its start and its end are returned, and the next read continues after the end; all of it is in the
    file `output_file` of the result.

    Args:
        task_id: The task ID returned by BackgroundBash
    """
    program = _program(task_id, ctx)
    async with program.reading:
        start = program.read_by.get(ctx.caller, 0)
        try:
            excerpt = await asyncio.to_thread(
                program.unread, start, ctx.hosted.options.output_chars - NOTES_LENGTH
            )
        except OSError as error:
            raise HandlerError(f"the output of task {task_id} cannot be read: {error}") from error
        program.read_by.pop(ctx.caller, None)
        program.read_by[ctx.caller] = excerpt.end
        if len(program.read_by) > MAX_READERS:
            del program.read_by[next(iter(program.read_by))]
    task = _task(program)
    is_truncated = excerpt.omitted_bytes > 0
    notes = [f"[{_status_text(task)}]"]
    if problem := program.output.problem:
        notes.append(f"[{problem}]")
    elif is_truncated:
        notes.append(f"[the full output is in {task.output_file}]")
    text = "\n".join([excerpt.text.removesuffix("\n") or "(no new output)", *notes])
    return ToolResult((content.text(text),), NewOutput(task, excerpt.text, is_truncated))


@tool(
    name="ListBgTasks",
    title="List background tasks",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
)
async def list_bg_tasks(ctx: Context) -> ToolResult[TaskList]:
    """List all background tasks with status and runtime."""
    remote_records: list[ProgramRecord] = []
    problem_lines: list[str] = []
    try:
        remote_records = await ctx.hosted.remote_programs()
    except StorageError as error:
        problem_lines = [f"[tasks of other machines are not available now: {error}]"]
    started_tasks = [(program.started, _task(program)) for program in ctx.hosted.programs.all()]
    started_tasks += [(record.started, _remote_task(record)) for record in remote_records]
    tasks = tuple(task for _, task in sorted(started_tasks, key=itemgetter(0)))
    lines = [
        f"{task.task_id}  {_status_text(task)}  {_one_line(task.command)}" for task in tasks
    ] + problem_lines
    return ToolResult((content.text("\n".join(lines) or "No background task."),), TaskList(tasks))


@tool(
    name="KillBgTask",
    title="Kill a background task",
    read_only=False,
    destructive=True,
    idempotent=True,
    open_world=False,
)
async def kill_bg_task(task_id: int, ctx: Context) -> ToolResult[Task]:
    """Kill a running background task by ID, with everything it has started. A task that has
    ended is not changed.

    Args:
        task_id: The task ID to kill
    """
    program = _program(task_id, ctx)
    had_ended = program.over.is_set()
    await ctx.hosted.programs.kill(program)
    task = _task(program)
    note = " had ended before" if had_ended else ""
    text = f"Task {task_id}{note}: {_status_text(task)}"
    return ToolResult((content.text(text),), task)


def _program(number: int, ctx: Context) -> Program:
    program = ctx.hosted.programs.get(number)
    if program is None:
        task_ids = ", ".join(str(each.id) for each in ctx.hosted.programs.all()) or "none"
        raise HandlerError(f"task_id: no background task {number}. Known: {task_ids}")
    return program


def _task(program: Program) -> Task:
    return Task(
        task_id=program.id,
        command=program.command,
        status=program.state.value,
        exit_code=program.exit_code,
        runtime_s=round(program.runtime_s, 3),
        output_bytes=program.output.size,
        output_file=str(program.output.file or ""),
    )


def _remote_task(record: ProgramRecord) -> Task:
    """Return a program of another process as a task."""
    return Task(
        task_id=record.id,
        command=record.command,
        status=record.state,
        exit_code=record.exit_code,
        runtime_s=round((record.ended_at or time.time()) - record.started, 3),
        output_bytes=record.output_bytes,
        output_file=record.output_file,
    )


def _status_text(task: Task) -> str:
    exit_text = "" if task.exit_code is None else f", exit code {task.exit_code}"
    return f"{task.status}{exit_text}, {task.runtime_s:.1f} s, {task.output_bytes:,} bytes"


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= MAX_COMMAND_LENGTH else f"{line[: MAX_COMMAND_LENGTH - 1]}…"
