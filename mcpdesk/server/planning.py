"""The plan of a server: while one is being made, tools that change things are refused."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from mcpdesk.errors import StorageError

if TYPE_CHECKING:
    from mcpdesk.server.home import Home
    from mcpdesk.server.tool import Tool

KEY = "plan"


class Plan(Struct, frozen=True):
    """What is being planned, or was last. `since` is ISO 8601, `file` an absolute path."""

    goal: str
    file: str
    since: str
    is_active: bool


def refused(tool: Tool, plan: Plan | None) -> str:
    """Why a tool may not run now; empty when it may."""
    if plan is None or not plan.is_active or tool.while_planning or tool.annotations.get("readOnlyHint"):
        return ""
    return (
        f"{tool.name} is not read-only, and plan mode is on (goal: {plan.goal[:200]}). "
        "Finish the plan and leave with PlanMode, action exit."
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


async def recall(home: Home) -> None:
    """Take up the plan a previous run left. Raises: StorageError."""
    from mcpdesk.storage.facts import fact

    kept = await home.data.run(lambda connection: fact(connection, KEY))
    try:
        home.plan = None if kept is None else msgspec.json.decode(kept, type=Plan)
    except msgspec.DecodeError as error:
        told = f"{home.data.path} holds a plan that cannot be read; PlanMode reset forgets it: {error}"
        raise StorageError(told) from error


async def remember(home: Home, plan: Plan | None) -> None:
    """Keep a plan; None forgets it. Raises: StorageError, and nothing has changed then."""
    from mcpdesk.storage.facts import keep

    text = None if plan is None else msgspec.json.encode(plan).decode()
    await home.data.run(lambda connection: keep(connection, KEY, text))
    home.plan = plan
