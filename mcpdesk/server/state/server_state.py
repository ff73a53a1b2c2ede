"""State of a hosted server that is kept between calls.

Each part is created at first use, so a server without state costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.errors import StorageError
from mcpdesk.protocol.marked_ids import first_number
from mcpdesk.server.asks.approval_policies import Approvals

if TYPE_CHECKING:
    from collections.abc import Sequence
    from sqlite3 import Connection

    from mcpdesk.jobs.call_files import CallFolders, CreatedFiles
    from mcpdesk.jobs.output_budget import OutputBudget
    from mcpdesk.jobs.programs import Program, Programs
    from mcpdesk.server.calls.threads.folder_loops import FolderLoops
    from mcpdesk.server.offer.tool import Tool
    from mcpdesk.server.state.callback_timers import CallbackTimers, CoreIdentity, Listener
    from mcpdesk.storage.database import StateData
    from mcpdesk.storage.tasks import Task

MAX_BROWSERS = 4
"""Maximum number of browsers that render pages for one server. Each needs hundreds of megabytes."""
MAX_SNAPSHOT_TASKS = 100
"""Maximum number of tasks in a snapshot of the task lists."""
PLAN_PREFIX = "plan:"
"""Prefix of the keys of plans in the state file. The session follows the prefix."""
MAX_PLANS = 500
"""Maximum number of stored plans for each server. The newest are kept."""
PROGRAMS_PREFIX = "programs:"
"""Prefix of the keys of programs in shared state. The id of the process that runs the programs follows the
prefix.
"""
MAX_PROGRAMS = 100
"""Maximum number of programs that other processes can see. The newest are kept."""
MAX_COMMAND_LENGTH = 500
"""Maximum length in characters of a program's command."""
SESSION_PREFIX = "session:"
"""Prefix of session keys."""


class ToolOptions(Struct, frozen=True):
    """Settings that built-in tools use."""

    output_chars: int = 30_000
    """Maximum length in characters of a program's output, or of a document, in one result."""
    outputs_keep_bytes: int = 1 << 30
    """Maximum disk space in bytes for the outputs of programs."""
    ask_order: str = "desk-first"
    """Order of the parties that AskUserQuestion asks: `desk-first`, `client-first` or `both`."""
    model: str = ""
    """Model that sampling requests ask for, if the tool has no preference."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of the settings that only one tool uses, by name."""


class Plan(Struct, frozen=True):
    """Current or last plan of a session."""

    goal: str
    file: str
    """Absolute path of the file with the plan."""
    since: str
    """Time when plan mode began, in ISO 8601 format."""
    is_active: bool
    is_own: bool = False
    """True if the file was created for this plan and may be overwritten."""
    client: str = ""
    """Display name of the client that planned."""


class ProgramRecord(Struct, frozen=True):
    """Background program as other processes see it, with its state when it started or ended."""

    id: int
    command: str
    state: Literal["running", "succeeded", "failed", "killed"]
    exit_code: int | None
    started: float
    """Unix time in seconds, like `ended_at`."""
    ended_at: float | None
    output_bytes: int
    output_file: str


class SharedState(NamedTuple):
    """State of a server that several processes share."""

    core: CoreIdentity
    """Identity of this process among the processes."""
    clock: Callable[[], float]
    """Returns the Unix time in seconds that all these processes use."""
    open: Callable[[], StateData]
    """Opens the stored state."""


class Todo:
    """Task lists of the tool TaskManager. Any thread may read `snapshot`, `version` and `is_stale`."""

    def __init__(self, data: StateData) -> None:
        self.version = 0
        """Number that increases with every snapshot that differs from the previous one."""
        self.snapshot: tuple[Task, ...] = ()
        """Newest tasks, oldest first."""
        self.is_stale = True
        """True if tasks changed after the last snapshot."""
        self._data = data

    def mark_stale(self) -> None:
        """Mark the snapshot as stale, because the task lists were written."""
        self.is_stale = True

    async def refresh(self) -> None:
        """Take a new snapshot. Raises: StorageError."""
        from mcpdesk.storage import tasks

        self.is_stale = False
        snapshot = tuple(
            await self._data.run(lambda connection: tasks.named(connection, "", MAX_SNAPSHOT_TASKS))
        )
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self.version += 1


class ServerState:
    """State of a server with a folder. It uses the server folder, and another folder for its data.

    Use it on the core's loop.
    """

    def __init__(
        self,
        folder: Path,
        state: Path,
        skills: Sequence[Path] = (),
        options: ToolOptions | None = None,
        shared: SharedState | None = None,
    ) -> None:
        """If `shared` is given, other processes share the state, and no state file is used."""
        self._shared = shared
        self.options = options or ToolOptions()
        self.on_callback: Listener = lambda _callback, _has_fired: None
        """Function that is called with each callback that is set, fires or is cancelled."""
        self.on_program_over: Callable[[Program], None] = lambda _program: None
        """Function that is called with each background program that has ended."""
        self.log_to_clients: Callable[[str, Any], Iterable[str]] = lambda _level, _data: ()
        """Function that logs a callback's message to all clients of the server, and returns their names."""
        self.notify_person: Callable[[str], object] = lambda text: None
        """Function that shows a notice at the desk. May be called on any thread."""
        self.on_write: Callable[[], object] = lambda: None
        """Function that is called on a worker thread after this process has changed the state file."""
        self.is_brief = False
        """True if this process ends after one call. It fires no callbacks and starts no background
        programs.
        """
        self.rules_version = 0
        """Number that increases when a plan or a policy changes which tools may run."""
        self._is_stopping = False
        self.approvals = Approvals(lambda: self.data, self.look_for_state, self._change_rules)
        """Approval policies of the tools."""
        self.plan: Plan | None = None
        """Plan that was changed last, of any session."""
        self.plans: Mapping[str, Plan] = {}
        """Current or last plan of each session. The keys are those of `Call.session`."""
        self._sessions: dict[str, int] = {}
        """Number of conversations in this process, for each session that may have a plan."""
        self._unread_sessions: set[str] = set()
        """Sessions whose stored plan this process has not read yet."""
        self.broken_skills: Mapping[str, str] = {}
        """Reasons why skills cannot be used, by name of the skill."""
        self.skills = tuple(skills)
        """Folders with skills. If several have a skill of the same name, the first one is used."""
        self.folder = folder
        """Server folder. Programs run in it."""
        self.state = state
        """Folder for the data of this server. The folder is created before the first write."""
        self.folder_loops: FolderLoops | None = None
        """Separate event loops for the folder's code, if the code has blocked the core's loop."""
        self._has_state = False
        self._publish_task: asyncio.Task[None] | None = None
        """Task that informs other processes about the programs of this one."""

    def _change_rules(self) -> None:
        self.rules_version += 1

    def set_plans(self, plans: Mapping[str, Plan], last_plan: Plan | None) -> None:
        """Set the plans of all sessions. `last_plan` is the plan that was changed last."""
        if plans != self.plans:
            self.rules_version += 1
        self.plans, self.plan = plans, last_plan

    def join(self, session: str, *, is_read: bool = True) -> None:
        """Record a conversation of a session. Other processes may have served the session before.

        `is_read` is False if the stored plan of the session must still be read.
        """
        if not is_read:
            self._unread_sessions.add(session)
        if self._unread_sessions or session not in self._sessions:
            self.rules_version += 1
        self._sessions[session] = self._sessions.get(session, 0) + 1

    def serves(self, session: str) -> bool:
        """Return True if a session that may have a plan has a conversation in this process."""
        return session in self._sessions

    @property
    def has_read_plans(self) -> bool:
        """True if the plans of all sessions in this process were read."""
        return not self._unread_sessions

    async def read_plans(self) -> None:
        """Read the plans of sessions that continue in this process. Raises: StorageError."""
        unread_sessions = set(self._unread_sessions)
        if await self.look_for_state():
            await load_plans(self)
        self._unread_sessions -= unread_sessions
        self.rules_version += 1

    @property
    def shown_plans(self) -> list[tuple[str, Plan]]:
        """Active plans of sessions in this process, newest first, or else the last plan. Each plan has the
        key of its session, or "" if the session is unknown.

        May be read on any thread.
        """
        plans, sessions, last_plan = self.plans, self._sessions, self.plan
        active_plans = [(key, plan) for key, plan in plans.items() if plan.is_active and key in sessions]
        if active_plans or last_plan is None:
            return sorted(active_plans, key=lambda key_and_plan: key_and_plan[1].since, reverse=True)
        last_session = next((key for key, plan in plans.items() if plan == last_plan), "")
        return [(last_session, last_plan)]

    def leave(self, session: str) -> None:
        """Record the end of a conversation. After its last conversation, a session leaves plan mode.

        The plan is kept.
        """
        count = self._sessions.pop(session, 1)
        if count > 1:
            self._sessions[session] = count - 1
            return
        self._unread_sessions.discard(session)
        plan = self.plans.get(session)
        if plan is not None:
            last_plan = replace(plan, is_active=False) if plan == self.plan else self.plan
            self.set_plans({key: each for key, each in self.plans.items() if key != session}, last_plan)

    def refusal(self, tool: Tool, session: str = "", arguments: Mapping[str, Any] | None = None) -> str:
        """Return the reason why a tool may not run in a session with these arguments, or "" if the tool may
        run.
        """
        if self._is_stopping:
            return f"{tool.name} was not called: the server is stopping. Call again once it is back."
        reason = plan_refusal(tool, self.plans.get(session), arguments)
        return reason or self.approvals.refusal(tool.name)

    def may_run_now(self, tool: Tool) -> bool:
        """Return True if a tool may run now for any caller and with any arguments."""
        sessions, plans = self._sessions, self.plans
        is_planning = bool(self._unread_sessions) or any(
            plan.is_active for key, plan in plans.items() if key in sessions
        )
        return (not is_planning or is_exempt(tool)) and not self.refusal(tool)

    def stop(self) -> None:
        """Refuse new tool calls from now on. Running calls continue."""
        self._is_stopping = True
        self.rules_version += 1

    @property
    def outputs(self) -> Path:
        """Folder for long outputs of programs."""
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
        """Folders for the files of single calls."""
        from mcpdesk.jobs.call_files import CallFolders

        return CallFolders(self.state / "produced")

    @cached_property
    def created_files(self) -> CreatedFiles:
        """Files that programs created at paths that clients chose."""
        from mcpdesk.jobs.call_files import CreatedFiles

        return CreatedFiles()

    @cached_property
    def data(self) -> StateData:
        """Stored state of the server, in a file or shared."""
        if self._shared is not None:
            return self._shared.open()
        from mcpdesk.storage.database import Database

        return Database(
            self._file, report=lambda text: self.notify_person(text), on_change=lambda: self.on_write()
        )

    @cached_property
    def callbacks(self) -> CallbackTimers:
        """Callback timers of the server."""
        from mcpdesk.server.state.callback_timers import CallbackTimers

        shared = self._shared
        timers = CallbackTimers(self.data) if shared is None else self._shared_timers(shared)
        timers.fires_due_callbacks = not self.is_brief
        timers.subscribe(lambda callback, has_fired: self.on_callback(callback, has_fired))
        timers.log_to_clients = lambda level, data: self.log_to_clients(level, data)
        return timers

    def _shared_timers(self, shared: SharedState) -> CallbackTimers:
        from mcpdesk.server.state.callback_timers import CallbackTimers

        return CallbackTimers(self.data, shared.clock, shared.core)

    @cached_property
    def programs(self) -> Programs:
        """Background programs. With shared state, the number of a program shows which process runs it."""
        from mcpdesk.jobs.programs import Programs

        first_id = 1 if self._shared is None else first_number(self._shared.core.mark)
        return Programs(self._program_outputs, self._on_program_over, first_id, self.output_budget)

    def _on_program_over(self, program: Program) -> None:
        self.on_program_over(program)
        self.publish_programs()

    def publish_programs(self) -> None:
        """Inform other processes soon about the programs of this one, if the state is shared."""
        is_publishing = self._publish_task is not None and not self._publish_task.done()
        if self._shared is not None and not is_publishing and not self._is_stopping:
            self._publish_task = asyncio.create_task(self._publish_programs(self._shared.core))

    async def _publish_programs(self, core: CoreIdentity) -> None:
        published_version = -1
        while published_version != self.programs.version:
            published_version = self.programs.version
            try:
                await store_programs(self, core)
            except StorageError:
                return  # the next report includes all programs

    async def remote_programs(self) -> list[ProgramRecord]:
        """Return the programs of other processes. Raises: StorageError."""
        return [] if self._shared is None else await load_remote_programs(self, self._shared.core)

    @cached_property
    def browsers(self) -> asyncio.Semaphore:
        """Semaphore to hold while a browser renders a page."""
        return asyncio.Semaphore(MAX_BROWSERS)

    @cached_property
    def todo(self) -> Todo:
        """Task lists, for front ends that display them."""
        return Todo(self.data)

    @property
    def has_state(self) -> bool:
        """True if the state file is known to exist. May be read on any thread."""
        return self._has_state or self._shared is not None

    def find_state(self) -> bool:
        """Check whether the state file exists, because another process may have created it. May be called on
        any thread.
        """
        self._has_state = self.has_state or self._file.exists()
        return self._has_state

    async def look_for_state(self) -> bool:
        """Check on a worker thread whether the state file exists."""
        return self.has_state or await asyncio.to_thread(self.find_state)

    def has_created(self, part: str) -> bool:
        """Return True if a part was already created. May be called on any thread."""
        return part in self.__dict__

    @property
    def _file(self) -> Path:
        return self.state / "state.sqlite"

    async def wake(self) -> None:
        """Load the state of a previous run. Raises: StorageError."""
        if await self.look_for_state():
            await self.approvals.load()
            await self.callbacks.wake()
            await load_plans(self)  # last, because an invalid plan raises an error

    async def reload(self) -> None:
        """Load the changes of another process. Raises: StorageError."""
        if not await self.look_for_state():
            return
        await self.approvals.load()
        await self.callbacks.reload()
        if "todo" in self.__dict__:
            self.todo.mark_stale()
        await load_plans(self)

    def isolate(self) -> None:
        """Run the folder's code on separate loops from now on, because the code blocks the core's loop."""
        from mcpdesk.server.calls.threads.folder_loops import FolderLoops

        if self.folder_loops is None:
            self.folder_loops = FolderLoops(self.folder.name)
        self.folder_loops.is_on = True

    async def close(self) -> None:
        """End loops, callbacks and programs, and close the state."""
        if self.folder_loops is not None:
            await self.folder_loops.close()
        if "callbacks" in self.__dict__:
            await self.callbacks.close()
        if self._publish_task is not None:
            await self._publish_task
        if "programs" in self.__dict__:
            await self.programs.close()
            if self._shared is not None:
                with suppress(StorageError):
                    await store_programs(self, self._shared.core)
        if "data" in self.__dict__:
            # Another process may lock the file for seconds. The thread lets other servers of this core stop
            # in the meantime.
            await asyncio.to_thread(self.data.close)


def is_exempt(tool: Tool) -> bool:
    """Return True if plan mode allows a tool with any arguments."""
    return tool.while_planning is True or bool(tool.annotations.get("readOnlyHint"))


def plan_refusal(tool: Tool, plan: Plan | None, arguments: Mapping[str, Any] | None = None) -> str:
    """Return the reason why plan mode forbids a tool, or "" if it allows the tool."""
    if plan is None or not plan.is_active or is_exempt(tool):
        return ""
    actions = tool.while_planning or ()
    assert not isinstance(actions, bool)
    if arguments is not None and arguments.get("action") in actions:
        return ""
    text = f"{tool.name} is not read-only" + (f" except for {', '.join(actions)}" if actions else "")
    return (
        f"{text}, and plan mode is on (goal: {plan.goal[:200]}). Write the plan with PlanMode, action enter "
        "and the text to add as goal; leave plan mode with action exit."
    )


def read_plan(plan: Plan, limit: int) -> tuple[bytes, int] | None:
    """Return the first bytes of a plan's file, and its size, or None if the file cannot be read."""
    try:
        status = os.stat(plan.file)
        if not stat.S_ISREG(status.st_mode):  # reading a pipe could wait forever
            return None
        with open(plan.file, "rb") as file:
            return file.read(limit), status.st_size
    except OSError:
        return None


async def load_plans(state: ServerState) -> None:
    """Load the plans of a previous run or of another process. Raises: StorageError."""
    from mcpdesk.storage.facts import facts

    stored_texts = await state.data.run(lambda connection: facts(connection, PLAN_PREFIX))
    try:
        plans = {
            session: msgspec.json.decode(text, type=Plan)
            for session, text in stored_texts.items()
            if session.startswith(SESSION_PREFIX)
        }
    except msgspec.DecodeError as error:
        reason = f"{state.data.label} has a plan that cannot be read; PlanMode reset discards it: {error}"
        raise StorageError(reason) from error
    newest_session = max(plans, key=lambda session: plans[session].since, default="")
    last_plan = plans.get(newest_session)
    if last_plan is not None and not state.serves(newest_session):
        # the session of this plan ended with the process that served it
        last_plan = replace(last_plan, is_active=False)
    state.set_plans(plans, last_plan)


async def end_plan(state: ServerState, session: str) -> None:
    """End the plan mode of a session because a person decided so. The plan is kept. Raises: StorageError."""
    plan = state.plans.get(session)
    if plan is not None and plan.is_active and state.serves(session):
        await store_plan(state, replace(plan, is_active=False), session)


async def store_programs(state: ServerState, core: CoreIdentity) -> None:
    """Store the programs of this process for the others. Raises: StorageError."""
    from mcpdesk.storage import facts

    records = [
        ProgramRecord(
            each.id,
            each.command[:MAX_COMMAND_LENGTH],
            each.state.value,
            each.exit_code,
            each.started,
            each.ended_at,
            each.output.size,
            str(each.output.file or ""),
        )
        for each in state.programs.all()[-MAX_PROGRAMS:]
    ]
    text = msgspec.json.encode(records).decode() if records else None

    def work(connection: Connection) -> None:
        facts.set_fact(connection, f"{PROGRAMS_PREFIX}{core.mark}", text)
        for mark in facts.facts(connection, PROGRAMS_PREFIX):
            if mark != core.mark and not core.is_running(mark):
                facts.set_fact(connection, f"{PROGRAMS_PREFIX}{mark}", None)

    await state.data.run(work)


async def load_remote_programs(state: ServerState, core: CoreIdentity) -> list[ProgramRecord]:
    """Return the programs of the other running processes. Raises: StorageError."""
    from mcpdesk.storage import facts

    stored_texts = await state.data.run(lambda connection: facts.facts(connection, PROGRAMS_PREFIX))
    records = list[ProgramRecord]()
    for mark, text in stored_texts.items():
        if mark != core.mark and core.is_running(mark):
            with suppress(msgspec.DecodeError):  # another version of the program wrote the record
                records += msgspec.json.decode(text, type=list[ProgramRecord])
    return records


async def delete_unreadable_plans(state: ServerState) -> None:
    """Delete stored plans that are invalid. Raises: StorageError."""
    from mcpdesk.storage import facts

    def work(connection: Connection) -> None:
        for session, text in facts.facts(connection, PLAN_PREFIX).items():
            try:
                msgspec.json.decode(text, type=Plan)
            except msgspec.DecodeError:
                facts.set_fact(connection, f"{PLAN_PREFIX}{session}", None)

    await state.data.run(work)


async def store_plan(state: ServerState, plan: Plan | None, session: str) -> None:
    """Store the plan of a session, or delete it if `plan` is None. Raises: StorageError, in which case
    nothing has changed.
    """
    from mcpdesk.storage import facts

    text = None if plan is None else msgspec.json.encode(plan).decode()

    def work(connection: Connection) -> None:
        facts.set_fact(connection, f"{PLAN_PREFIX}{session}", text)
        if plan is not None:
            facts.keep_newest(connection, PLAN_PREFIX, "since", MAX_PLANS)

    await state.data.run(work)
    if not state.serves(session):
        state.join(session)
    other_plans = {key: each for key, each in state.plans.items() if key != session}
    state.set_plans(other_plans if plan is None else {**other_plans, session: plan}, plan)
