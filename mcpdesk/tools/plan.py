"""PlanMode: while a plan is being made, tools that change things are refused."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from mcpdesk.errors import HandlerError, StorageError
from mcpdesk.protocol import codec, content
from mcpdesk.server.authoring import tool
from mcpdesk.server.context import Context
from mcpdesk.server.home import Home
from mcpdesk.server.planning import Plan, recall, remember, written
from mcpdesk.server.tool import ToolResult
from mcpdesk.tools.texts import given

GOAL_LIMIT = 2_000
PATH_LIMIT = 1_000
PLAN_BYTES = 200_000
"""How much of a plan file is given back."""
SLUG = re.compile(r"[^a-z0-9]+")

Action = Literal["enter", "exit", "status", "json", "reset"]


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """Plan mode as it is now.

    Attributes:
        active: Whether tools that are not read-only are refused
        since: When plan mode began, ISO 8601
        plan_file: The Markdown file the plan lives in
        plan: Its text
    """

    active: bool
    goal: str | None = None
    since: str | None = None
    plan_file: str | None = None
    plan: str | None = None


@tool(
    name="PlanMode",
    title="Plan before doing",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    while_planning=True,
)
async def plan_mode(
    action: Action, ctx: Context, goal: str | None = None, plan_file: str | None = None
) -> ToolResult[PlanStatus]:
    """Manage plan mode for complex tasks. While it is on, tools that are not read-only are refused, and the
    plan is written to a Markdown file. enter needs a goal; exit ends plan mode and returns the plan; status
    and json tell how things stand; reset ends plan mode and forgets the plan, but leaves its file.

    Args:
        action: Action: enter, exit, status, json, reset
        goal: Goal/description
        plan_file: Path to markdown plan file
    """
    if ctx.home.has_state:
        try:
            await recall(ctx.home)  # another process may have begun or ended it
        except StorageError:
            if action != "reset":
                raise
    said = await _RUNS[action](ctx, goal, plan_file)
    status = _status(ctx.home.plan)
    text = codec.encode(asdict(status)).decode() if action == "json" else said or _words(status)
    return ToolResult((content.text(text),), status)


async def _enter(ctx: Context, goal: str | None, plan_file: str | None) -> str:
    wanted = given("goal", goal, GOAL_LIMIT)
    plan = ctx.home.plan
    if plan is not None and plan.is_active:
        raise HandlerError(f"plan mode is on already, for: {plan.goal}. Use exit or reset first")
    now = datetime.now(UTC)
    path = _inside(ctx.home.folder, plan_file) if plan_file is not None else _own(ctx.home, wanted, now)
    is_new = _begin(path, wanted)
    await remember(ctx.home, Plan(wanted, str(path), now.isoformat(timespec="seconds"), is_active=True))
    kept = "Write the plan to" if is_new else "Go on with the plan in"
    return f"Plan mode is on: tools that are not read-only are refused until exit. {kept} {path}"


async def _exit(ctx: Context, _goal: str | None, _plan_file: str | None) -> str:
    plan = ctx.home.plan
    if plan is None or not plan.is_active:
        raise HandlerError("plan mode is off; enter begins it")
    await remember(ctx.home, replace(plan, is_active=False))
    text = _text(plan)
    return f"Plan mode is off. The plan in {plan.file}:\n\n{text}" if text else "Plan mode is off."


async def _tell(_ctx: Context, _goal: str | None, _plan_file: str | None) -> str:
    return ""


async def _reset(ctx: Context, _goal: str | None, _plan_file: str | None) -> str:
    plan = ctx.home.plan
    await remember(ctx.home, None)
    return "There was no plan." if plan is None else f"Plan mode is off. {plan.file} was left as it is."


_RUNS: dict[str, Callable[[Context, str | None, str | None], Awaitable[str]]] = {
    "enter": _enter,
    "exit": _exit,
    "status": _tell,
    "json": _tell,
    "reset": _reset,
}


def _status(plan: Plan | None) -> PlanStatus:
    if plan is None:
        return PlanStatus(active=False)
    return PlanStatus(plan.is_active, plan.goal, plan.since, plan.file, _text(plan))


def _words(status: PlanStatus) -> str:
    if status.goal is None:
        return "Plan mode is off, and there is no plan."
    how = f"on since {status.since}" if status.active else "off"
    head = f"Plan mode is {how}. Goal: {status.goal}\nPlan file: {status.plan_file}"
    return f"{head}\n\n{status.plan or ''}".rstrip()


def _inside(folder: Path, wanted: str) -> Path:
    """A file a caller names, which has to lie in the server folder, whatever links are on the way."""
    # Not Path.resolve, which raises where links go in circles.
    path = Path(os.path.realpath(folder / given("plan_file", wanted, PATH_LIMIT)))
    if not path.is_relative_to(folder.resolve()):
        raise HandlerError(f"plan_file: {wanted!r} lies outside the server folder {folder}")
    if path.suffix.lower() not in (".md", ".markdown"):
        raise HandlerError(f"plan_file: {wanted!r} is no Markdown file; its name has to end with .md")
    return path


def _own(home: Home, goal: str, now: datetime) -> Path:
    slug = SLUG.sub("-", goal.lower()).strip("-")[:40].rstrip("-") or "plan"
    return home.state / "plans" / f"{now:%Y%m%d-%H%M%S}-{slug}.md"


def _begin(path: Path, goal: str) -> bool:
    """Make the file unless it is there; returns whether it is new."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(f"# Plan: {goal}\n\n")
    except FileExistsError:
        if not path.is_file():
            raise HandlerError(f"plan_file: {path} is no file") from None
        return False
    except OSError as error:
        raise StorageError(f"plan_file: {path} cannot be written: {error.strerror}") from error
    return True


def _text(plan: Plan) -> str | None:
    found = written(plan, PLAN_BYTES)
    if found is None:
        return None
    data, size = found
    text = data.decode(errors="replace")
    return text if size <= PLAN_BYTES else f"{text}\n[{size - PLAN_BYTES} bytes more]"
