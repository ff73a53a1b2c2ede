"""What servers do on their own, as frozen values: jobs, callbacks, tasks of a list, plans."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class JobKind(StrEnum):
    """What kind of work a job is."""

    PROGRAM = "program"
    """A command in the background."""
    TASK = "task"
    """A call that outlives its request, as the protocol has them."""
    CALL = "call"
    """A call that was asked for as a job, whose output is kept."""


class JobState(StrEnum):
    """How a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "needs input"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after it."""
        return self not in (JobState.QUEUED, JobState.RUNNING, JobState.WAITING)


class MadeFile(Struct, frozen=True):
    """A file a call produced."""

    name: str
    """Unique among those of its job."""
    size: int
    """Bytes, when the job ended."""


class JobView(Struct, frozen=True):
    """One piece of work that outlives its call. Times are Unix seconds."""

    id: str
    """Unique among all jobs of a core."""
    kind: JobKind
    server: str
    name: str
    """The command of a program, the tool of a task."""
    peer: str
    """Who began it."""
    state: JobState
    message: str
    """What a task or call is at; how a program ended."""
    started: float
    ended: float | None = None
    number: int = 0
    """What the tools call a program; 0 for others."""
    pid: int = 0
    size: int = 0
    """Bytes of output when this was looked at."""
    file: str = ""
    """Where the output is."""
    problem: str = ""
    """Why that file is not whole; empty when it is."""
    made: tuple[MadeFile, ...] = ()
    """What a call produced, known once it is over."""

    @property
    def has_output(self) -> bool:
        """Whether what it writes can be read."""
        return self.kind is not JobKind.TASK

    def runtime_s(self, now: float) -> float:
        """Seconds from its start to its end, or to `now`."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


class JobUse(Struct, frozen=True):
    """What a program and everything it started use now."""

    cpu: float | None
    """Processors kept busy since the last look, 1.0 is one of them; None at the first look."""
    memory: int
    """Bytes resident."""
    processes: int


class JobOutput(Struct, frozen=True):
    """A piece of a program's output."""

    text: str
    start: int
    """Bytes that come before it."""
    end: int
    """Where the next piece begins."""
    is_last: bool
    """Whether nothing more will come."""


class CallbackView(Struct, frozen=True):
    """A message of a server that comes back. Times are Unix seconds."""

    server: str
    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    """None once it is over."""
    peer: str
    """Who set it."""
    created: float
    last_fired: float | None

    @property
    def is_cancelled(self) -> bool:
        """Whether it is over before it fired as often as it was to."""
        return self.due is None and self.fired < self.repeat_count


class StepView(Struct, frozen=True):
    """A part of a task. `completed` is Unix time, None while it is open."""

    id: int
    text: str
    completed: float | None


class TodoView(Struct, frozen=True):
    """A task of the lists a server keeps for its clients. Times are Unix seconds."""

    server: str
    id: int
    name: str
    created: float
    completed: float | None
    is_current: bool
    steps: tuple[StepView, ...]

    @property
    def done(self) -> int:
        """How many steps are completed."""
        return sum(step.completed is not None for step in self.steps)


class PlanView(Struct, frozen=True):
    """What a server's clients are planning, or planned last. `since` is ISO 8601, `file` an absolute path."""

    server: str
    goal: str
    file: str
    since: str
    is_active: bool


class WorkView(Struct, frozen=True):
    """Versions, each of which grows with every change of its list, and what is small enough to be here."""

    jobs_version: int = 0
    running_jobs: int = 0
    callbacks_version: int = 0
    next_callback: float | None = None
    """Unix time."""
    todo_version: int = 0
    plans: tuple[PlanView, ...] = ()

    @property
    def is_planning(self) -> bool:
        """Whether tools of some server are held back until its plan is made."""
        return any(plan.is_active for plan in self.plans)
