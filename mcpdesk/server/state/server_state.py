"""State of a hosted server that outlives a call.

Everything is created at first use, so that a server without state costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.errors import StorageError
from mcpdesk.protocol.marked_ids import first_number
from mcpdesk.server.asks.approval_policies import Approvals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection

    from mcpdesk.hosting.replicas.replica_group import ServerInEngine
    from mcpdesk.jobs.call_files import CallFolders, MadeFiles
    from mcpdesk.jobs.output_budget import OutputBudget
    from mcpdesk.jobs.programs import Program, Programs
    from mcpdesk.server.calls.own_loops import OwnLoops
    from mcpdesk.server.offer.tool import Tool
    from mcpdesk.server.state.callback_timers import CallbackTimers, CoreMark, Listener
    from mcpdesk.storage.database import StateData
    from mcpdesk.storage.tasks import Task

BROWSERS = 4
"""Maximum number of browsers that render pages for one server; each takes hundreds of megabytes."""
NEWEST_TASKS = 100
"""Maximum number of tasks in a snapshot of the task lists."""
PLAN_KEY = "plan:"
"""Prefix of the keys of plans in the state file; the session follows."""
MOST_PLANS = 500
"""Maximum number of stored plans per server; the newest are kept."""
PROGRAMS_KEY = "programs:"
"""Prefix of the keys of programs in the state that replicas share; the replica's mark follows."""
MOST_PROGRAMS = 100
"""Maximum number of programs shared with other replicas; the newest are kept."""
COMMAND_CHARS = 500
"""Maximum characters of a program's command."""
SESSION = "session:"
"""Prefix of session keys."""


class ToolOptions(Struct, frozen=True):
    """Settings for built-in tools."""

    search_engines: tuple[str, ...] = ()
    """Names of search engines in any order; empty for the defaults."""
    search_urls: Mapping[str, str] = field(default_factory=dict)
    """URL of a mirror to use instead, by engine."""
    search_timeout_s: float = 8.0
    """Time limit per engine in seconds."""
    read_private_urls: bool = False
    """True if pages of private networks may be read."""
    output_chars: int = 30_000
    """Maximum characters of a program's output, or of a document, in one result."""
    outputs_keep_bytes: int = 1 << 30
    """Maximum disk space for the outputs of programs."""
    ask_order: str = "desk-first"
    """Target of AskUserQuestion: `desk-first`, `client-first` or `both`."""
    model: str = ""
    """Model hint for sampling requests of tools that have no preference."""


class Plan(Struct, frozen=True):
    """Current or last plan of a session. `since` is ISO 8601, `file` an absolute path."""

    goal: str
    file: str
    since: str
    is_active: bool
    is_own: bool = False
    """True if the file was created for the plan and may be overwritten."""
    client: str = ""
    """Display name of the client that planned."""


class ProgramRecord(Struct, frozen=True):
    """Program in the background as other replicas see it, with its state when it started or ended."""

    id: int
    command: str
    state: Literal["running", "succeeded", "failed", "killed"]
    exit_code: int | None
    started: float
    """Unix time, like `ended_at`."""
    ended_at: float | None
    output_bytes: int
    output_file: str


class Todo:
    """Task lists of TaskManager. `snapshot`, `version` and `is_stale` may be read on any thread."""

    def __init__(self, data: StateData) -> None:
        self.version = 0
        """Counter that increases with every snapshot that differs from the previous one."""
        self.snapshot: tuple[Task, ...] = ()
        """Newest tasks, oldest first."""
        self.is_stale = True
        """True if there were changes since the last snapshot."""
        self._data = data

    def changed(self) -> None:
        """Mark the snapshot as stale, because the task lists were written."""
        self.is_stale = True

    async def refresh(self) -> None:
        """Take a new snapshot. Raises: StorageError."""
        from mcpdesk.storage import tasks

        self.is_stale = False
        snapshot = tuple(await self._data.run(lambda connection: tasks.named(connection, "", NEWEST_TASKS)))
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self.version += 1


class ServerState:
    """State of a server with a folder: the server folder, and a folder for its data.

    Used on the core's loop.
    """

    def __init__(
        self,
        folder: Path,
        state: Path,
        skills: Sequence[Path] = (),
        options: ToolOptions | None = None,
        shared: ServerInEngine | None = None,
    ) -> None:
        """With `shared` the state is shared by all replicas and not stored in a file."""
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
        """Called on a thread after this process has changed the state file."""
        self.is_brief = False
        """True if this process ends after one call, so it fires no callbacks and starts no programs."""
        self.rules = 0
        """Counter that increases when the set of tools that may run changes, by a plan or a policy."""
        self._is_stopping = False
        self.approvals = Approvals(lambda: self.data, self.look_for_state, self._change_rules)
        """Approval policies of the tools."""
        self.plan: Plan | None = None
        """Last plan of any session."""
        self.plans: Mapping[str, Plan] = {}
        """Current or last plan of each session, by `Call.session`."""
        self._sessions: dict[str, int] = {}
        """Number of conversations of each session here that may have a plan."""
        self._unread: set[str] = set()
        """Sessions whose plan another process may have stored, and that was not read yet."""
        self.broken_skills: Mapping[str, str] = {}
        """Skills that cannot be used, with the reason."""
        self.skills = tuple(skills)
        """Folders with one folder per skill. If a name exists in several, the first one is used."""
        self.folder = folder
        """Server folder; programs run here."""
        self.state = state
        """Folder for this server's data, created when it is first written."""
        self.own_loops: OwnLoops | None = None
        """Event loops for the folder's code, after it has blocked the core's loop."""
        self._has_state = False
        self._telling_aio: asyncio.Task[None] | None = None
        """Task that reports the programs here to the other replicas."""

    def _change_rules(self) -> None:
        self.rules += 1

    def take_plans(self, plans: Mapping[str, Plan], last: Plan | None) -> None:
        """Set the plans of all sessions; `last` is the plan changed last."""
        if plans != self.plans:
            self.rules += 1
        self.plans, self.plan = plans, last

    def join(self, session: str, *, is_read: bool = True) -> None:
        """Register a conversation of a session that other processes may have served before.

        `is_read` is True if the session's plan, if any, has been read.
        """
        if not is_read:
            self._unread.add(session)
        if self._unread or session not in self._sessions:
            self.rules += 1
        self._sessions[session] = self._sessions.get(session, 0) + 1

    def serves(self, session: str) -> bool:
        """Return True if a session that may have a plan is here."""
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
        """Active plans of the sessions here, newest first; without an active one the last plan, if any.

        May be read on any thread.
        """
        plans, sessions, last = self.plans, self._sessions, self.plan
        active = [(key, plan) for key, plan in plans.items() if plan.is_active and key in sessions]
        if active or last is None:
            return sorted(active, key=lambda each: each[1].since, reverse=True)
        return [(next((key for key, plan in plans.items() if plan == last), ""), last)]

    def leave(self, session: str) -> None:
        """Unregister a conversation. With its last one a session leaves plan mode; the plan is kept."""
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
        """Return the reason a tool may not run now in a session, with these arguments; empty if it may."""
        if self._is_stopping:
            return f"{tool.name} was not called: the server is stopping. Call again once it is back."
        reason = refused(tool, self.plans.get(session), arguments)
        return reason or self.approvals.refusal(tool.name)

    def is_free(self, tool: Tool) -> bool:
        """Return True if a tool may run now for any caller and any arguments."""
        sessions, plans = self._sessions, self.plans
        is_planned = bool(self._unread) or any(
            plan.is_active for key, plan in plans.items() if key in sessions
        )
        return (not is_planned or is_exempt(tool)) and not self.refusal(tool)

    def stop(self) -> None:
        """Start no more tool calls; running calls continue."""
        self._is_stopping = True
        self.rules += 1

    @property
    def outputs(self) -> Path:
        """Folder of long program outputs."""
        return self.state / "outputs"

    @cached_property
    def output_budget(self) -> OutputBudget:
        """Disk space shared by the outputs of programs."""
        from mcpdesk.jobs.output_budget import OutputBudget

        return OutputBudget(self.options.outputs_keep_bytes, (self.outputs, self._program_outputs))

    @property
    def _program_outputs(self) -> Path:
        return self.state / "programs"

    @cached_property
    def call_folders(self) -> CallFolders:
        """Folders for files that single calls produce."""
        from mcpdesk.jobs.call_files import CallFolders

        return CallFolders(self.state / "produced")

    @cached_property
    def made_files(self) -> MadeFiles:
        """Files that programs created at paths chosen by clients."""
        from mcpdesk.jobs.call_files import MadeFiles

        return MadeFiles()

    @cached_property
    def data(self) -> StateData:
        """State of the server, in a file or shared by replicas."""
        if self._shared is not None:
            return self._shared.open()
        from mcpdesk.storage.database import Database

        return Database(self._file, tell=lambda text: self.notify_person(text), wrote=lambda: self.on_write())

    @cached_property
    def callbacks(self) -> CallbackTimers:
        """Callback timers of the server."""
        from mcpdesk.server.state.callback_timers import CallbackTimers

        shared = self._shared
        made = CallbackTimers(self.data) if shared is None else self._shared_timers(shared)
        made.fires = not self.is_brief
        made.subscribe(lambda callback, has_fired: self.on_callback(callback, has_fired))
        made.log_to_clients = lambda level, data: self.log_to_clients(level, data)
        return made

    def _shared_timers(self, shared: ServerInEngine) -> CallbackTimers:
        from mcpdesk.server.state.callback_timers import CallbackTimers

        return CallbackTimers(self.data, shared.clock, shared.core)

    @cached_property
    def programs(self) -> Programs:
        """Programs in the background. With replicas, their numbers identify the replica."""
        from mcpdesk.jobs.programs import Programs

        first = 1 if self._shared is None else first_number(self._shared.core.mark)
        return Programs(self._program_outputs, self._program_is_over, first, self.output_budget)

    def _program_is_over(self, program: Program) -> None:
        self.on_program_over(program)
        self.tell_of_programs()

    def tell_of_programs(self) -> None:
        """Report the programs here to the other replicas soon; no effect without replicas."""
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
                return  # the next program that starts or ends reports all of them

    async def programs_elsewhere(self) -> list[ProgramRecord]:
        """Return the programs of the other replicas in any order. Raises: StorageError."""
        return [] if self._shared is None else await recall_programs(self, self._shared.core)

    @cached_property
    def browsers(self) -> asyncio.Semaphore:
        """Semaphore to hold while a browser renders a page."""
        return asyncio.Semaphore(BROWSERS)

    @cached_property
    def todo(self) -> Todo:
        """Task lists, for front ends that display them."""
        return Todo(self.data)

    @property
    def has_state(self) -> bool:
        """True if the state file is known to exist; safe on any thread."""
        return self._has_state or self._shared is not None

    def find_state(self) -> bool:
        """Check whether the state file exists; another process may have created it. Safe on any thread."""
        self._has_state = self.has_state or self._file.exists()
        return self._has_state

    async def look_for_state(self) -> bool:
        """Check for the state file on a thread."""
        return self.has_state or await asyncio.to_thread(self.find_state)

    def has_made(self, part: str) -> bool:
        """Return True if a lazily created part exists; safe on any thread."""
        return part in self.__dict__

    @property
    def _file(self) -> Path:
        return self.state / "state.sqlite"

    async def wake(self) -> None:
        """Load the state of a previous run. Raises: StorageError."""
        if await self.look_for_state():
            await self.approvals.recall()
            await self.callbacks.wake()
            await recall(self)  # last, so that an invalid plan does not keep the rest from being loaded

    async def hear(self) -> None:
        """Load the changes of another process or replica. Raises: StorageError."""
        if not await self.look_for_state():
            return
        await self.approvals.recall()
        await self.callbacks.hear()
        if "todo" in self.__dict__:
            self.todo.changed()
        await recall(self)

    def isolate(self) -> None:
        """Run the folder's code on separate loops from now on, because it blocks."""
        from mcpdesk.server.calls.own_loops import OwnLoops

        if self.own_loops is None:
            self.own_loops = OwnLoops(self.folder.name)
        self.own_loops.is_on = True

    async def close(self) -> None:
        """End loops, callbacks and programs, and close the state."""
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
            # Another process may lock the file for seconds. Other servers of this core stop in the meantime.
            await asyncio.to_thread(self.data.close)


def is_exempt(tool: Tool) -> bool:
    """Return True if plan mode allows a tool with any arguments."""
    return tool.while_planning is True or bool(tool.annotations.get("readOnlyHint"))


def refused(tool: Tool, plan: Plan | None, arguments: Mapping[str, Any] | None = None) -> str:
    """Return the reason why plan mode refuses a tool; empty if it does not."""
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
    """Return the first bytes of a plan's file, and its size; None if it is missing or cannot be read."""
    try:
        status = os.stat(plan.file)
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would block
            return None
        with open(plan.file, "rb") as file:
            return file.read(limit), status.st_size
    except OSError:
        return None


async def recall(state: ServerState) -> None:
    """Load the plans of a previous run or another process. Raises: StorageError."""
    from mcpdesk.storage.facts import facts

    kept = await state.data.run(lambda connection: facts(connection, PLAN_KEY))
    try:
        plans = {
            session: msgspec.json.decode(text, type=Plan)
            for session, text in kept.items()
            if session.startswith(SESSION)
        }
    except msgspec.DecodeError as error:
        reason = f"{state.data.place} has a plan that cannot be read; PlanMode reset discards it: {error}"
        raise StorageError(reason) from error
    newest = max(plans, key=lambda session: plans[session].since, default="")
    last = plans.get(newest)
    if last is not None and not state.serves(newest):
        last = replace(last, is_active=False)  # its session ended with its process
    state.take_plans(plans, last)


async def end_plan(state: ServerState, session: str) -> None:
    """End the plan mode of a session by decision of a person; its plan is kept. Raises: StorageError."""
    plan = state.plans.get(session)
    if plan is not None and plan.is_active and state.serves(session):
        await remember(state, replace(plan, is_active=False), session)


async def remember_programs(state: ServerState, core: CoreMark) -> None:
    """Store the programs here for the other replicas. Raises: StorageError."""
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
        facts.set_fact(connection, f"{PROGRAMS_KEY}{core.mark}", text)
        for mark in facts.facts(connection, PROGRAMS_KEY):
            if mark != core.mark and not core.is_running(mark):
                facts.set_fact(connection, f"{PROGRAMS_KEY}{mark}", None)

    await state.data.run(work)


async def recall_programs(state: ServerState, core: CoreMark) -> list[ProgramRecord]:
    """Return the programs of the other running replicas. Raises: StorageError."""
    from mcpdesk.storage import facts

    kept = await state.data.run(lambda connection: facts.facts(connection, PROGRAMS_KEY))
    found = list[ProgramRecord]()
    for mark, text in kept.items():
        if mark != core.mark and core.is_running(mark):
            with suppress(msgspec.DecodeError):  # written by a replica of another version
                found += msgspec.json.decode(text, type=list[ProgramRecord])
    return found


async def forget_unreadable(state: ServerState) -> None:
    """Delete stored plans that are invalid. Raises: StorageError."""
    from mcpdesk.storage import facts

    def work(connection: Connection) -> None:
        for session, text in facts.facts(connection, PLAN_KEY).items():
            try:
                msgspec.json.decode(text, type=Plan)
            except msgspec.DecodeError:
                facts.set_fact(connection, f"{PLAN_KEY}{session}", None)

    await state.data.run(work)


async def remember(state: ServerState, plan: Plan | None, session: str) -> None:
    """Store the plan of a session; None deletes it. Raises: StorageError; nothing is changed then."""
    from mcpdesk.storage import facts

    text = None if plan is None else msgspec.json.encode(plan).decode()

    def work(connection: Connection) -> None:
        facts.set_fact(connection, f"{PLAN_KEY}{session}", text)
        if plan is not None:
            facts.keep_newest(connection, PLAN_KEY, "since", MOST_PLANS)

    await state.data.run(work)
    if not state.serves(session):
        state.join(session)
    others = {key: each for key, each in state.plans.items() if key != session}
    state.take_plans(others if plan is None else {**others, session: plan}, plan)
