"""BackgroundBash and its kin: commands that go on while the caller does something else."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.authoring import tool
from mcpdesk.server.context import Context
from mcpdesk.server.tool import ToolResult
from mcpdesk.tools.shell import bash_argv, environment_of

if TYPE_CHECKING:
    from mcpdesk.jobs.programs import Program, ProgramView

NOTES_LENGTH = 500
"""Characters of a result that are left for what is said besides the output."""
SHOWN = 100
"""Characters of a command in a list."""

Status = Literal["running", "succeeded", "failed", "killed"]


@dataclass(frozen=True, slots=True)
class Task:
    """A background task.

    Attributes:
        exit_code: None while it runs
        runtime_s: From its start to its end, or to now
        output_bytes: What it has written so far
        output_file: Where all of it is, until the server ends
    """

    task_id: int
    command: str
    status: Status
    exit_code: int | None
    runtime_s: float
    output_bytes: int
    output_file: str


@dataclass(frozen=True, slots=True)
class NewOutput:
    """What a background task has written since it was last read by this caller.

    Attributes:
        truncated: Whether only the start and the end of that are given
    """

    task: Task
    output: str
    truncated: bool


@dataclass(frozen=True, slots=True)
class TaskList:
    """Every background task that is known, oldest first."""

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
    and without a time limit, until it ends, is killed or the server ends. ReadBgOutput gives what it writes.

    Args:
        command: The bash command to execute
    """
    argv, environment = bash_argv(command), environment_of(ctx)
    try:
        program = await ctx.home.programs.start(argv, command, ctx.home.folder, environment, ctx.peer)
    except RuntimeError as error:
        raise HandlerError(str(error)) from error
    except OSError as error:
        raise HandlerError(f"bash could not be started in {ctx.home.folder}: {error.strerror}") from error
    task = _task(program.view())
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
    """Read new output from a background task: what it has written since this caller read it last. Of more
    than fits, its start and its newest end are given, and the next read goes on behind that; all of it is in
    the file `output_file` of the result.

    Args:
        task_id: The task ID returned by BackgroundBash
    """
    program = _program(task_id, ctx)
    async with program.reading:
        start = program.read_by.get(ctx.caller, 0)
        try:
            piece = await asyncio.to_thread(
                program.unread, start, ctx.home.options.output_chars - NOTES_LENGTH
            )
        except OSError as error:
            raise HandlerError(f"the output of task {task_id} cannot be read: {error}") from error
        program.read_by[ctx.caller] = piece.end
    task = _task(program.view())
    is_cut = piece.left_out > 0
    notes = [f"[{_words(task)}]", *([f"[all of it is in {task.output_file}]"] if is_cut else [])]
    if problem := program.output.problem:
        notes.append(f"[{problem}]")
    text = "\n".join([piece.text.removesuffix("\n") or "(no new output)", *notes])
    return ToolResult((content.text(text),), NewOutput(task, piece.text, is_cut))


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
    tasks = tuple(_task(view) for view in ctx.home.programs.views())
    lines = [f"{task.task_id}  {_words(task)}  {_one_line(task.command)}" for task in tasks]
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
    """Kill a running background task by ID, with everything it has started. One that has ended stays
    as it is.

    Args:
        task_id: The task ID to kill
    """
    program = _program(task_id, ctx)
    had_ended = program.over.is_set()
    await ctx.home.programs.kill(program)
    task = _task(program.view())
    how = " had ended before" if had_ended else ""
    said = f"Task {task_id}{how}: {_words(task)}"
    return ToolResult((content.text(said),), task)


def _program(number: int, ctx: Context) -> Program:
    program = ctx.home.programs.get(number)
    if program is None:
        known = ", ".join(str(view.id) for view in ctx.home.programs.views()) or "none"
        raise HandlerError(f"task_id: there is no background task {number}. Known: {known}")
    return program


def _task(view: ProgramView) -> Task:
    return Task(
        task_id=view.id,
        command=view.command,
        status=view.state.value,
        exit_code=view.exit_code,
        runtime_s=round(view.runtime_s(time.time()), 3),
        output_bytes=view.size,
        output_file=view.file,
    )


def _words(task: Task) -> str:
    code = "" if task.exit_code is None else f", exit code {task.exit_code}"
    return f"{task.status}{code}, {task.runtime_s:.1f} s, {task.output_bytes:,} bytes"


def _one_line(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
