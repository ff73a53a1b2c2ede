"""Jobs, callbacks, task lists and plans of the servers in this process.

Snapshots are cached until something changes. Intents run on the core's loop.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import DeskError
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.journal import Severity
from mcpdesk.jobs.feed import ProgressReport
from mcpdesk.jobs.job import Job
from mcpdesk.link.link import WorkFacet
from mcpdesk.link.values import (
    CallbackView,
    CallFile,
    JobKind,
    JobOutput,
    JobState,
    JobUse,
    JobView,
    PlanView,
    StepView,
    TodoView,
    WorkView,
)
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.state.server_state import Plan, ServerState, end_plan, read_plan

if TYPE_CHECKING:
    from mcpdesk.jobs.programs import Program
    from mcpdesk.storage.callbacks import Callback
    from mcpdesk.storage.tasks import Task

STATE_CHECK_S = 1.0
"""Seconds between two checks whether a state file exists."""
MAX_OUTPUT_BYTES = 1 << 16
"""Maximum size in bytes of output returned at once.

A reader that asks for older output gets only the last part.
"""
MAX_PLAN_BYTES = 200_000
"""Maximum size in bytes of a plan that is shown."""
_NUMBER = re.compile(r"[0-9]{1,9}")
"""Number of a program in a job id."""
_STATES = {
    TaskStatus.WORKING: JobState.RUNNING,
    TaskStatus.INPUT_REQUIRED: JobState.WAITING,
    TaskStatus.COMPLETED: JobState.SUCCEEDED,
    TaskStatus.FAILED: JobState.FAILED,
    TaskStatus.CANCELLED: JobState.CANCELLED,
}
"""State of a job, by status of its task."""


class LocalWork(WorkFacet):
    """Work of a host's servers. Any thread may use it, but only one thread at a time may call `usage`."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._running: set[asyncio.Task[None]] = set()
        """Running work on the core's loop."""
        self._refreshing: set[str] = set()
        """Servers whose task lists are being reloaded."""
        self._file_checks = ThreadPoolExecutor(1, "looks")
        self._file_check_times: dict[str, float] = {}
        """Time of the last check whether a state file exists, by server."""
        self._running_count = (-1, 0)
        """Version of the jobs, and the number of running jobs at this version."""
        self._measurements: dict[str, tuple[float, float]] = {}
        """Monotonic time of the last measurement, and the processor seconds used until then, by job id."""

    def work_view(self) -> WorkView:
        """Return versions and small values. Task lists that another process has changed are reloaded."""
        todo_version = 0
        for name, state in self._states():
            if state.has_created("todo"):
                todo_version += state.todo.version
            self._refresh(name, state)
        return WorkView(
            jobs_version=self._jobs_version(),
            running_jobs=self._running_jobs(),
            callbacks_version=sum(state.callbacks.version for _, state in self._states("callbacks")),
            next_callback=min(self._due_times(), default=None),
            todo_version=todo_version,
            plans=tuple(
                _plan_view(name, session, plan)
                for name, state in self._states()
                for session, plan in state.shown_plans
            ),
        )

    def jobs(self) -> tuple[JobView, ...]:
        """Return background programs, asynchronous calls and tasks, oldest first."""
        views = [_job_view(job) for job in self._host.services.jobs.snapshot()]
        for name, state in self._states("programs"):
            views += [_program_view(name, program) for program in state.programs.all()]
        return tuple(sorted(views, key=lambda job: job.started))

    def usage(self) -> dict[str, JobUse]:
        """Return resource usage of running programs.

        Takes milliseconds, so do not call it on the UI thread.
        """
        now = time.monotonic()
        usages: dict[str, JobUse] = {}
        measurements: dict[str, tuple[float, float]] = {}
        for name, state in self._states("programs"):
            for number, usage in state.programs.usage().items():
                job_id = _program_job_id(name, number)
                measurements[job_id] = (now, usage.cpu_s)
                busy_processors: float | None = None
                if (previous := self._measurements.get(job_id)) is not None:
                    previous_time, previous_cpu_s = previous
                    busy_processors = max(0.0, (usage.cpu_s - previous_cpu_s) / (now - previous_time))
                usages[job_id] = JobUse(busy_processors, usage.memory, usage.processes)
        self._measurements = measurements
        return usages

    def output(self, job: str, after: int) -> JobOutput | None:
        """Return output of a job from byte `after` on, or the last part of the output.

        None if the job has no readable output. Reads a file, so do not call it on the UI thread.
        """
        program = self._program(job)
        if program is None:
            return self._call_output(job, after)
        size = program.output.size
        last_part_start = max(0, size - MAX_OUTPUT_BYTES)
        is_recent = after >= 0 and 0 <= size - after <= MAX_OUTPUT_BYTES
        start = after if is_recent else last_part_start
        try:
            piece = program.piece(start, MAX_OUTPUT_BYTES)
        except OSError:
            return None
        if piece.end == start < size and program.output.problem:
            # The file lacks this part. The end of the output is in memory.
            return JobOutput(program.output.end(MAX_OUTPUT_BYTES), last_part_start, size, is_last=False)
        return JobOutput(piece.text, start, piece.end, piece.is_last)

    def _call_output(self, job: str, after: int) -> JobOutput | None:
        """Return output of a call. Offsets are in characters."""
        stored_job = self._host.services.jobs.by_id(job)
        if stored_job is None or stored_job.feed is None:
            return None
        is_last = stored_job.is_over
        text, start, end = stored_job.feed.combined_output(after)
        return JobOutput(text, start, end, is_last)

    def kill_job(self, job: str) -> None:
        """Kill a job. Ignored if it has ended."""
        program = self._program(job)
        if program is None:
            store = self._host.services.jobs
            self._host.call_soon(lambda: store.cancel_by_id(job, "cancelled at the desk"))
        else:
            # Signal the processes from this thread, because the core may be stuck.
            program.process.stop()

    def callbacks(self) -> tuple[CallbackView, ...]:
        """Return all stored callbacks, oldest first."""
        return tuple(sorted(self._callback_views(), key=lambda callback: callback.created))

    def fire_callback(self, server: str, number: int) -> None:
        """Fire a callback now. Ignored if it has ended."""
        self._start(lambda: self._state(server).callbacks.fire(number))

    def cancel_callback(self, server: str, number: int) -> None:
        """Cancel a callback. Ignored if it has ended."""
        self._start(lambda: self._state(server).callbacks.cancel(number))

    def todo(self) -> tuple[TodoView, ...]:
        """Return the newest tasks of each server's lists, oldest first."""
        return tuple(
            _todo_view(name, task) for name, state in self._states("todo") for task in state.todo.snapshot
        )

    def plan_text(self, server: str, session: str) -> str | None:
        """Return the text of a session's plan, or None if the session has no plan. Reads a file."""
        state = self._host.folders[server].server.hosted if server in self._host.folders else None
        plan = None if state is None else dict(state.shown_plans).get(session)
        text = None if plan is None else read_plan(plan, MAX_PLAN_BYTES)
        return None if text is None else text[0].decode(errors="replace")

    def end_plan(self, server: str, session: str) -> None:
        """End the plan mode of a session. Ignored if it has ended."""
        self._start(lambda: end_plan(self._state(server), session))

    def _states(self, part: str = "") -> Iterator[tuple[str, ServerState]]:
        """Yield names and states of the servers that have created a part of their state.

        If `part` is empty, yield those of all servers. Folders may still be loading.
        """
        for name, hosted in list(self._host.folders.items()):
            state = hosted.server.hosted
            if state is not None and (not part or state.has_created(part)):
                yield name, state

    def _state(self, server: str) -> ServerState:
        state = self._host.folders[server].server.hosted
        assert state is not None
        return state

    def _program(self, job: str) -> Program | None:
        """Return the program with a job id, or None if the id does not belong to a program."""
        server, _, number = job.rpartition(":")
        if server not in self._host.folders or _NUMBER.fullmatch(number) is None:
            return None
        state = self._state(server)
        return state.programs.get(int(number)) if state.has_created("programs") else None

    def _jobs_version(self) -> int:
        programs = sum(state.programs.version for _, state in self._states("programs"))
        return self._host.services.jobs.version + programs

    def _running_jobs(self) -> int:
        """Return the number of running jobs, which is counted again only after a change."""
        version = self._jobs_version()
        if version != self._running_count[0]:
            self._running_count = (version, sum(1 for job in self.jobs() if not job.state.is_final))
        return self._running_count[1]

    def _due_times(self) -> Iterator[float]:
        """Yield the Unix times of the callbacks that will fire."""
        for _, state in self._states("callbacks"):
            yield from (callback.due for callback in state.callbacks.snapshot if callback.due is not None)

    def _callback_views(self) -> Iterator[CallbackView]:
        for name, state in self._states("callbacks"):
            for callback in state.callbacks.snapshot:
                yield _callback_view(name, callback)

    def _refresh(self, name: str, state: ServerState) -> None:
        """Schedule a reload of a server's task lists on the core's loop. Only one reload runs at a time."""
        is_stale = not state.has_created("todo") or state.todo.is_stale
        if not is_stale or name in self._refreshing:
            return
        if state.has_state:
            self._refreshing.add(name)
            self._start(lambda: state.todo.refresh(), lambda: self._refreshing.discard(name))
        elif self._is_check_due(name):
            self._file_checks.submit(self._check_state_file, name, state)

    def _check_state_file(self, name: str, state: ServerState) -> None:
        """Reload the task lists if a state file exists.

        Scheduling work on the loop counts as a change, so it is done only if necessary.
        """
        if state.find_state():
            self._host.call_soon(lambda: self._refresh(name, state))

    def _is_check_due(self, name: str) -> bool:
        """Return True if it is time to check again whether another process has created a state file."""
        now = time.monotonic()
        if now - self._file_check_times.get(name, 0.0) < STATE_CHECK_S:
            return False
        self._file_check_times[name] = now
        return True

    def _start(
        self, work: Callable[[], Coroutine[Any, Any, object]], on_end: Callable[[], object] = int
    ) -> None:
        """Run a coroutine on the core's loop. May be called on any thread. A notice reports errors."""

        async def run() -> None:
            try:
                await work()
            except DeskError as error:
                self._host.journal.notify(str(error), Severity.ERROR, "logs")
            finally:
                on_end()

        def start_task() -> None:
            task = asyncio.create_task(run())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        self._host.call_soon(start_task)


def _program_job_id(server: str, number: int) -> str:
    """Return the job id of a background command. It contains a colon; ids of tasks do not."""
    return f"{server}:{number}"


def _program_view(server: str, program: Program) -> JobView:
    return JobView(
        id=_program_job_id(server, program.id),
        kind=JobKind.PROGRAM,
        server=server,
        name=program.command,
        peer=program.peer,
        state=JobState(program.state.value),
        message="" if program.exit_code is None else f"exit code {program.exit_code}",
        started=program.started,
        ended=program.ended_at,
        number=program.id,
        pid=program.process.pid,
        size=program.output.size,
        file=str(program.output.file or ""),
        problem=program.output.problem,
    )


def _job_view(job: Job) -> JobView:
    """Return the view of an asynchronous call or a task."""
    state, feed = _STATES[job.status], job.feed
    if feed is not None and job.status is TaskStatus.WORKING and job.started is None:
        state = JobState.QUEUED
    if state is JobState.CANCELLED and job.has_running_code:
        state = JobState.LEFT
    return JobView(
        id=job.id,
        kind=JobKind.TASK if feed is None else JobKind.CALL,
        server=job.server,
        name=job.tool,
        peer=job.peer,
        state=state,
        message=job.status_message if feed is None or state.is_final else _progress_text(feed.latest),
        started=job.started or job.created,
        ended=job.updated if state.is_final else None,
        size=0 if feed is None else feed.size,
        produced_files=tuple(CallFile(file.name, file.size) for file in job.files),
    )


def _progress_text(latest: ProgressReport | None) -> str:
    """Format progress: `40 % reading` if the total is known, else `7 reading`."""
    if latest is None:
        return ""
    amount = f"{latest.share:.0%}".replace("%", " %") if latest.total else f"{latest.value:g}"
    return f"{amount} {latest.message}".strip()


def _plan_view(server: str, session: str, plan: Plan) -> PlanView:
    return PlanView(
        server, plan.goal, plan.file, plan.since, plan.is_active, session=session, client=plan.client
    )


def _callback_view(server: str, callback: Callback) -> CallbackView:
    return CallbackView(
        server, callback.id, callback.message, callback.delay_s, callback.repeat_count, callback.fired,
        callback.due, callback.peer, callback.created, callback.last_fired,
    )  # fmt: skip


def _todo_view(server: str, task: Task) -> TodoView:
    steps = tuple(StepView(step.id, step.text, step.completed) for step in task.steps)
    return TodoView(server, task.id, task.name, task.created, task.completed, task.is_current, steps)
