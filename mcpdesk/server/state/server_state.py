"""What a hosted server has besides what it offers: a place for state that outlives a call.

Everything here is made at its first use, so that a server that keeps nothing costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.errors import StorageError
from mcpdesk.protocol.marked_ids import first_number
from mcpdesk.server.asks.approval_policies import Approvals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection

    from mcpdesk.jobs.call_files import CallFolders, MadeFiles
    from mcpdesk.jobs.output_budget import OutputBudget
    from mcpdesk.jobs.programs import Program, Programs
    from mcpdesk.server.calls.own_loops import OwnLoops
    from mcpdesk.server.offer.tool import Tool
    from mcpdesk.server.state.callback_timers import CallbackTimers, CoreMark, Listener
    from mcpdesk.storage.database import StateData
    from mcpdesk.storage.tasks import Task

BROWSERS = 4
"""That draw pages at one time for one server; each takes hundreds of megabytes."""
NEWEST_TASKS = 100
"""Tasks in a snapshot of the task lists."""
PLAN_KEY = "plan:"
"""What the keys of plans in the state file begin with; the session follows."""
MOST_PLANS = 500
"""Plans kept of a server, the newest."""
PROGRAMS_KEY = "programs:"
"""What the keys of programs in the state of all replicas begin with; the replica's mark follows."""
MOST_PROGRAMS = 100
"""Programs that other replicas know of, the newest."""
COMMAND_CHARS = 500
"""Of its command."""
SESSION = "session:"
"""What the keys of sessions begin with."""


class ToolOptions(Struct, frozen=True):
    """What settings say to built-in tools."""

    search_engines: tuple[str, ...] = ()
    """Names, in no order; none: the usual ones."""
    search_urls: Mapping[str, str] = field(default_factory=dict)
    """By engine: a mirror to ask instead."""
    search_timeout_s: float = 8.0
    """What each engine has."""
    read_private_urls: bool = False
    """Whether pages of private networks may be read."""
    output_chars: int = 30_000
    """Characters of a program's output, or of a document, that a result carries."""
    outputs_keep_bytes: int = 1 << 30
    """Disk space for the outputs of programs."""
    ask_order: str = "desk-first"
    """Where AskUserQuestion asks: `desk-first`, `client-first` or `both`."""
    model: str = ""
    """Hinted at where a tool asks for sampling and has no preference of its own."""


class Plan(Struct, frozen=True):
    """What a session is planning, or planned last. `since` is ISO 8601, `file` an absolute path."""

    goal: str
    file: str
    since: str
    is_active: bool
    is_own: bool = False
    """Whether the file was made for the plan, and may be written anew."""
    client: str = ""
    """Display name of the client that planned."""


class ProgramRecord(Struct, frozen=True):
    """What other replicas know of a program in the background, as it was when it began or ended."""

    id: int
    command: str
    state: Literal["running", "succeeded", "failed", "killed"]
    exit_code: int | None
    started: float
    """Unix time, as `ended_at`."""
    ended_at: float | None
    output_bytes: int
    output_file: str


class Todo:
    """What TaskManager keeps. `snapshot`, `version` and `is_stale` may be read on any thread."""

    def __init__(self, data: StateData) -> None:
        self.version = 0
        """Grows with every snapshot that differs from the one before."""
        self.snapshot: tuple[Task, ...] = ()
        """The newest tasks, oldest first."""
        self.is_stale = True
        """Whether something changed since the snapshot was taken."""
        self._data = data

    def changed(self) -> None:
        """Something was written."""
        self.is_stale = True

    async def refresh(self) -> None:
        """Take a new snapshot. Raises: StorageError."""
        from mcpdesk.storage import tasks

        self.is_stale = False
        snapshot = tuple(await self._data.run(lambda connection: tasks.named(connection, "", NEWEST_TASKS)))
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self.version += 1


class SharedState(Protocol):
    """Where the state of a server lies that several replicas serve."""

    core: CoreMark
    """What tells this replica from the others."""

    def open(self) -> StateData:
        """The state."""

    def clock(self) -> float:
        """Unix time, the same on all of them."""


class ServerState:
    """A server's own folder of files, and a folder for state. Used on the core's loop."""

    def __init__(
        self,
        folder: Path,
        state: Path,
        skills: Sequence[Path] = (),
        options: ToolOptions | None = None,
        shared: SharedState | None = None,
    ) -> None:
        """With `shared` its state is that of all replicas, and lies in no file."""
        self._shared = shared
        self.options = options or ToolOptions()
        self.on_callback: Listener = lambda _callback, _has_fired: None
        """Called with each callback that is set, fires or is cancelled."""
        self.on_program_over: Callable[[Program], None] = lambda _program: None
        """Called with each program in the background that has ended."""
        self.log_to_clients: Callable[[str, Any], Iterable[str]] = lambda _level, _data: ()
        """Logs a callback's message to every client of the server; returns their names."""
        self.notify_person: Callable[[str], object] = lambda text: None
        """Shows a notice to the person at the desk. May be called on any thread."""
        self.on_write: Callable[[], object] = lambda: None
        """Called on a thread when this process has changed the state file."""
        self.is_brief = False
        """Whether this process ends with one call: callbacks are left to others, programs have no time."""
        self.rules = 0
        """Grows whenever other tools may run than before: the plan changed, or a policy."""
        self._is_stopping = False
        self.approvals = Approvals(self)
        """Which tools clients may call."""
        self.plan: Plan | None = None
        """What was planned last, by whichever session."""
        self.plans: Mapping[str, Plan] = {}
        """What each session plans, or planned last, by `Call.session`."""
        self._sessions: dict[str, int] = {}
        """Sessions here that may have a plan, with the number of their conversations."""
        self._unread: set[str] = set()
        """Sessions of which another process may have kept a plan that was not read yet."""
        self.broken_skills: Mapping[str, str] = {}
        """Skills that cannot be used, and why."""
        self.skills = tuple(skills)
        """Folders with a folder for each skill; the first one that has a name counts."""
        self.folder = folder
        """The server folder: programs run here."""
        self.state = state
        """A folder of this server alone, for what outlives a call; made when something is put there."""
        self.own_loops: OwnLoops | None = None
        """Loops for the folder's code, once it has blocked the core's loop."""
        self._has_state = False
        self._telling_aio: asyncio.Task[None] | None = None
        """Tells the other replicas of the programs here."""

    def take_plans(self, plans: Mapping[str, Plan], last: Plan | None) -> None:
        """Set the plans of all sessions; `last` is what was planned last."""
        if plans != self.plans:
            self.rules += 1
        self.plans, self.plan = plans, last

    def join(self, session: str, *, is_read: bool = True) -> None:
        """A conversation begins of a session that other processes may have served before.

        `is_read`: its plan is among those that were read, if it has one.
        """
        if not is_read:
            self._unread.add(session)
        if self._unread or session not in self._sessions:
            self.rules += 1
        self._sessions[session] = self._sessions.get(session, 0) + 1

    def serves(self, session: str) -> bool:
        """True if a session that may have a plan is here."""
        return session in self._sessions

    @property
    def is_settled(self) -> bool:
        """True if the plans of all sessions here were read."""
        return not self._unread

    async def settle(self) -> None:
        """Read the plans of sessions that continue here. Raises: StorageError."""
        joined = set(self._unread)
        if await self.look_for_state():
            await recall(self)
        self._unread -= joined
        self.rules += 1

    @property
    def shown_plans(self) -> list[tuple[str, Plan]]:
        """Active plans of the sessions here, the newest first; without any the last one that was made.

        May be read on any thread.
        """
        plans, sessions, last = self.plans, self._sessions, self.plan
        active = [(key, plan) for key, plan in plans.items() if plan.is_active and key in sessions]
        if active or last is None:
            return sorted(active, key=lambda each: each[1].since, reverse=True)
        return [(next((key for key, plan in plans.items() if plan == last), ""), last)]

    def leave(self, session: str) -> None:
        """A conversation ended. With its last one a session is in plan mode no longer; the plan is kept."""
        count = self._sessions.pop(session, 1)
        if count > 1:
            self._sessions[session] = count - 1
            return
        self._unread.discard(session)
        plan = self.plans.get(session)
        if plan is not None:
            last = replace(plan, is_active=False) if plan == self.plan else self.plan
            self.take_plans({key: each for key, each in self.plans.items() if key != session}, last)

    def refusal(self, tool: Tool, session: str = "", arguments: Mapping[str, Any] | None = None) -> str:
        """Why a tool may not run now, called so by a session; empty when it may."""
        if self._is_stopping:
            return f"{tool.name} was not called: the server is stopping. Call again once it is back."
        reason = refused(tool, self.plans.get(session), arguments)
        return reason or self.approvals.refusal(tool.name)

    def is_free(self, tool: Tool) -> bool:
        """Whether a tool may run now, whoever calls and how."""
        sessions, plans = self._sessions, self.plans
        is_planned = bool(self._unread) or any(
            plan.is_active for key, plan in plans.items() if key in sessions
        )
        return (not is_planned or is_exempt(tool)) and not self.refusal(tool)

    def stop(self) -> None:
        """Begin no calls of tools any more; those that run go on."""
        self._is_stopping = True
        self.rules += 1

    @property
    def outputs(self) -> Path:
        """Where programs' long outputs go."""
        return self.state / "outputs"

    @cached_property
    def output_budget(self) -> OutputBudget:
        """Disk space that the outputs of programs share."""
        from mcpdesk.jobs.output_budget import OutputBudget

        return OutputBudget(self.options.outputs_keep_bytes, (self.outputs, self._program_outputs))

    @property
    def _program_outputs(self) -> Path:
        return self.state / "programs"

    @cached_property
    def call_folders(self) -> CallFolders:
        """Where single calls put the files they make."""
        from mcpdesk.jobs.call_files import CallFolders

        return CallFolders(self.state / "produced")

    @cached_property
    def made_files(self) -> MadeFiles:
        """What programs made elsewhere, where clients asked for it."""
        from mcpdesk.jobs.call_files import MadeFiles

        return MadeFiles()

    @cached_property
    def data(self) -> StateData:
        """The server's state."""
        if self._shared is not None:
            return self._shared.open()
        from mcpdesk.storage.database import Database

        return Database(self._file, tell=lambda text: self.notify_person(text), wrote=lambda: self.on_write())

    @cached_property
    def callbacks(self) -> CallbackTimers:
        """Messages that come back later."""
        from mcpdesk.server.state.callback_timers import CallbackTimers

        shared = self._shared
        made = CallbackTimers(self.data) if shared is None else self._shared_timers(shared)
        made.fires = not self.is_brief
        made.subscribe(lambda callback, has_fired: self.on_callback(callback, has_fired))
        made.log_to_clients = lambda level, data: self.log_to_clients(level, data)
        return made

    def _shared_timers(self, shared: SharedState) -> CallbackTimers:
        from mcpdesk.server.state.callback_timers import CallbackTimers

        return CallbackTimers(self.data, shared.clock, shared.core)

    @cached_property
    def programs(self) -> Programs:
        """Programs in the background. Where several replicas serve, their numbers tell the replica."""
        from mcpdesk.jobs.programs import Programs

        first = 1 if self._shared is None else first_number(self._shared.core.mark)
        return Programs(self._program_outputs, self._program_is_over, first, self.output_budget)

    def _program_is_over(self, program: Program) -> None:
        self.on_program_over(program)
        self.tell_of_programs()

    def tell_of_programs(self) -> None:
        """Let the other replicas know what runs here, soon; alone nothing happens."""
        is_telling = self._telling_aio is not None and not self._telling_aio.done()
        if self._shared is not None and not is_telling and not self._is_stopping:
            self._telling_aio = asyncio.create_task(self._tell_of_programs(self._shared.core))

    async def _tell_of_programs(self, core: CoreMark) -> None:
        told = -1
        while told != self.programs.version:
            told = self.programs.version
            try:
                await remember_programs(self, core)
            except StorageError:
                return  # the next program that begins or ends tells of all

    async def programs_elsewhere(self) -> list[ProgramRecord]:
        """The programs of the other replicas, in no order. Raises: StorageError."""
        return [] if self._shared is None else await recall_programs(self, self._shared.core)

    @cached_property
    def browsers(self) -> asyncio.Semaphore:
        """To be held while a browser draws a page."""
        return asyncio.Semaphore(BROWSERS)

    @cached_property
    def todo(self) -> Todo:
        """The task lists, for whoever follows them."""
        return Todo(self.data)

    @property
    def has_state(self) -> bool:
        """Whether there is a state file, as far as anybody looked; from any thread."""
        return self._has_state or self._shared is not None

    def find_state(self) -> bool:
        """Look whether there is a state file by now, which another process may have made; from any thread."""
        self._has_state = self.has_state or self._file.exists()
        return self._has_state

    async def look_for_state(self) -> bool:
        """Look for a state file on a thread."""
        return self.has_state or await asyncio.to_thread(self.find_state)

    def has_made(self, part: str) -> bool:
        """Whether something that is made at its first use is there; from any thread."""
        return part in self.__dict__

    @property
    def _file(self) -> Path:
        return self.state / "state.sqlite"

    async def wake(self) -> None:
        """Load what a previous run left. Raises: StorageError."""
        if await self.look_for_state():
            await self.approvals.recall()
            await self.callbacks.wake()
            await recall(self)  # last: a plan that cannot be read keeps nothing else from counting

    async def hear(self) -> None:
        """Another process or replica wrote something: load it again. Raises: StorageError."""
        if not await self.look_for_state():
            return
        await self.approvals.recall()
        await self.callbacks.hear()
        if "todo" in self.__dict__:
            self.todo.changed()
        await recall(self)

    def isolate(self) -> None:
        """Run the folder's code on loops of its own from now on, because it blocks."""
        from mcpdesk.server.calls.own_loops import OwnLoops

        if self.own_loops is None:
            self.own_loops = OwnLoops(self.folder.name)
        self.own_loops.is_on = True

    async def close(self) -> None:
        """The server stops."""
        if self.own_loops is not None:
            await self.own_loops.close()
        if "callbacks" in self.__dict__:
            await self.callbacks.close()
        if self._telling_aio is not None:
            await self._telling_aio
        if "programs" in self.__dict__:
            await self.programs.close()
            if self._shared is not None:
                with suppress(StorageError):
                    await remember_programs(self, self._shared.core)
        if "data" in self.__dict__:
            # Another process may hold the file for seconds; other servers of this core stop meanwhile.
            await asyncio.to_thread(self.data.close)


def is_exempt(tool: Tool) -> bool:
    """Whether plan mode has nothing to say to a tool, whatever it is called with."""
    return tool.while_planning is True or bool(tool.annotations.get("readOnlyHint"))


def refused(tool: Tool, plan: Plan | None, arguments: Mapping[str, Any] | None = None) -> str:
    """Why a tool may not run now; empty when it may."""
    if plan is None or not plan.is_active or is_exempt(tool):
        return ""
    actions = tool.while_planning or ()
    assert not isinstance(actions, bool)
    if arguments is not None and arguments.get("action") in actions:
        return ""
    what = f"{tool.name} is not read-only" + (f" except for {', '.join(actions)}" if actions else "")
    return (
        f"{what}, and plan mode is on (goal: {plan.goal[:200]}). Write the plan with PlanMode, action enter "
        "and the text to add as goal; leave plan mode with action exit."
    )


def written(plan: Plan, limit: int) -> tuple[bytes, int] | None:
    """The first bytes of a plan's file and its size; None when there is no file, or it cannot be read."""
    try:
        status = os.stat(plan.file)
        if not stat.S_ISREG(status.st_mode):  # a pipe in its place would be waited for
            return None
        with open(plan.file, "rb") as file:
            return file.read(limit), status.st_size
    except OSError:
        return None


async def recall(state: ServerState) -> None:
    """Load the plans a previous run or another process left. Raises: StorageError."""
    from mcpdesk.storage.facts import facts

    kept = await state.data.run(lambda connection: facts(connection, PLAN_KEY))
    try:
        plans = {
            session: msgspec.json.decode(text, type=Plan)
            for session, text in kept.items()
            if session.startswith(SESSION)
        }
    except msgspec.DecodeError as error:
        reason = f"{state.data.place} holds a plan that cannot be read; PlanMode reset forgets it: {error}"
        raise StorageError(reason) from error
    newest = max(plans, key=lambda session: plans[session].since, default="")
    last = plans.get(newest)
    if last is not None and not state.serves(newest):
        last = replace(last, is_active=False)  # its session ended with the process it was in
    state.take_plans(plans, last)


async def end_plan(state: ServerState, session: str) -> None:
    """End the plan mode of a session, as a person decided; its plan stays. Raises: StorageError."""
    plan = state.plans.get(session)
    if plan is not None and plan.is_active and state.serves(session):
        await remember(state, replace(plan, is_active=False), session)


async def remember_programs(state: ServerState, core: CoreMark) -> None:
    """Keep what the other replicas know of the programs here. Raises: StorageError."""
    from mcpdesk.storage import facts

    records = [
        ProgramRecord(
            each.id,
            each.command[:COMMAND_CHARS],
            each.state.value,
            each.exit_code,
            each.started,
            each.ended_at,
            each.output.size,
            str(each.output.file or ""),
        )
        for each in state.programs.all()[-MOST_PROGRAMS:]
    ]
    text = msgspec.json.encode(records).decode() if records else None

    def work(connection: Connection) -> None:
        facts.keep(connection, f"{PROGRAMS_KEY}{core.mark}", text)
        for mark in facts.facts(connection, PROGRAMS_KEY):
            if mark != core.mark and not core.is_running(mark):
                facts.keep(connection, f"{PROGRAMS_KEY}{mark}", None)

    await state.data.run(work)


async def recall_programs(state: ServerState, core: CoreMark) -> list[ProgramRecord]:
    """The programs of the other replicas that live. Raises: StorageError."""
    from mcpdesk.storage import facts

    kept = await state.data.run(lambda connection: facts.facts(connection, PROGRAMS_KEY))
    found = list[ProgramRecord]()
    for mark, text in kept.items():
        if mark != core.mark and core.is_running(mark):
            with suppress(msgspec.DecodeError):  # of a replica of another version
                found += msgspec.json.decode(text, type=list[ProgramRecord])
    return found


async def forget_unreadable(state: ServerState) -> None:
    """Drop what is kept as a plan and is none. Raises: StorageError."""
    from mcpdesk.storage import facts

    def work(connection: Connection) -> None:
        for session, text in facts.facts(connection, PLAN_KEY).items():
            try:
                msgspec.json.decode(text, type=Plan)
            except msgspec.DecodeError:
                facts.keep(connection, f"{PLAN_KEY}{session}", None)

    await state.data.run(work)


async def remember(state: ServerState, plan: Plan | None, session: str) -> None:
    """Keep the plan of a session; None forgets it. Raises: StorageError, and nothing has changed then."""
    from mcpdesk.storage import facts

    text = None if plan is None else msgspec.json.encode(plan).decode()

    def work(connection: Connection) -> None:
        facts.keep(connection, f"{PLAN_KEY}{session}", text)
        if plan is not None:
            facts.keep_newest(connection, PLAN_KEY, "since", MOST_PLANS)

    await state.data.run(work)
    if not state.serves(session):
        state.join(session)
    others = {key: each for key, each in state.plans.items() if key != session}
    state.take_plans(others if plan is None else {**others, session: plan}, plan)
