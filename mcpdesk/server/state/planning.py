"""Plans of a server's sessions. While one is made, calls of its session that change things are refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import StorageError

if TYPE_CHECKING:
    from sqlite3 import Connection

    from mcpdesk.server.offer.tool import Tool
    from mcpdesk.storage.database import Database

KEY = "plan:"
"""What the keys of plans begin with; the session follows."""
MOST = 50
"""Plans kept of a server, the newest."""
SESSION = "session:"
"""How the keys of sessions begin that end with their connection."""


class Plan(Struct, frozen=True):
    """What a session is planning, or planned last. `since` is ISO 8601, `file` an absolute path."""

    goal: str
    file: str
    since: str
    is_active: bool
    is_own: bool = False
    """Whether the file was made for the plan, and may be written anew."""


class PlansState(Protocol):
    """What plans need of the state of their server."""

    @property
    def plans(self) -> Mapping[str, Plan]:
        """What each session plans, or planned last."""

    @property
    def data(self) -> Database:
        """The state file, made when it is asked for."""

    def take_plans(self, plans: Mapping[str, Plan], last: Plan | None) -> None:
        """From now on these sessions plan; `last` is what was planned last."""


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


async def recall(state: PlansState) -> None:
    """Take up the plans a previous run or another process left. Raises: StorageError."""
    from mcpdesk.storage.facts import facts

    kept = await state.data.run(lambda connection: facts(connection, KEY))
    try:
        plans = {session: msgspec.json.decode(text, type=Plan) for session, text in kept.items()}
    except msgspec.DecodeError as error:
        told = f"{state.data.path} holds a plan that cannot be read; PlanMode reset forgets it: {error}"
        raise StorageError(told) from error
    newest = max(plans, key=lambda session: plans[session].since, default="")
    last = plans.get(newest)
    if last is not None and newest.startswith(SESSION) and newest not in state.plans:
        last = replace(last, is_active=False)  # its session ended with the process it was in
    state.take_plans(plans, last)


async def forget_unreadable(state: PlansState) -> None:
    """Drop what is kept as a plan and is none. Raises: StorageError."""
    from mcpdesk.storage import facts

    def work(connection: Connection) -> None:
        for session, text in facts.facts(connection, KEY).items():
            try:
                msgspec.json.decode(text, type=Plan)
            except msgspec.DecodeError:
                facts.keep(connection, f"{KEY}{session}", None)

    await state.data.run(work)


async def remember(state: PlansState, plan: Plan | None, session: str = "") -> None:
    """Keep the plan of a session; None forgets it. Raises: StorageError, and nothing has changed then."""
    from mcpdesk.storage import facts

    text = None if plan is None else msgspec.json.encode(plan).decode()

    def work(connection: Connection) -> None:
        facts.keep(connection, f"{KEY}{session}", text)
        if plan is not None:
            facts.keep_newest(connection, KEY, "since", MOST)

    await state.data.run(work)
    others = {key: each for key, each in state.plans.items() if key != session}
    state.take_plans(others if plan is None else {**others, session: plan}, plan)
