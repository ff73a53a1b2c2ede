"""Tool PlanMode: while a session is in plan mode, its calls of tools that are not read-only are refused."""

from __future__ import annotations

import asyncio
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from mcpdesk.errors import HandlerError, StorageError
from mcpdesk.portable_files import NO_FOLLOW, NON_BLOCKING, OPEN_FLAGS
from mcpdesk.protocol import codec, content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import (
    Plan,
    ServerState,
    delete_unreadable_plans,
    load_plans,
    read_plan,
    store_plan,
)
from mcpdesk.tools import stripped_text

GOAL_LIMIT = 2_000
"""Maximum characters of a goal."""
PATH_LIMIT = 1_000
"""Maximum characters of the path of a plan's file."""
TEXT_LIMIT = 100_000
"""Maximum characters that may be added to a plan at once."""
MAX_BYTES = 2 << 20
"""Maximum bytes of a plan."""
NOTES_LENGTH = 1_000
"""Number of characters of a result that are reserved for text other than the plan."""
NON_SLUG_CHARACTERS = re.compile(r"[^a-z0-9]+")
"""Characters of a goal that are replaced in the name of the plan's file."""

Action = Literal["enter", "exit", "status", "json", "reset"]


class PlanStatus(Struct, frozen=True):
    """Current state of plan mode.

    Attributes:
        active: True if calls of tools that are not read-only are refused
        since: Time at which plan mode began, ISO 8601
        plan_file: Markdown file with the plan
        plan: Text of the plan
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
    """Manage plan mode for complex tasks. While plan mode is on, this session cannot call tools that are not
    read-only. Actions: enter, with a goal, turns plan mode on, with a Markdown file for the plan. While
    plan mode is on, enter adds the Markdown text in `goal` to the plan; a text that starts with a heading of
    level one (`# `) replaces the plan. status and json return the state and the plan. exit turns plan mode
    off and returns the plan. reset turns it off and discards the plan, but keeps the file.

    Args:
        action: Action: enter, exit, status, json, reset
        goal: Goal/description
        plan_file: Path to markdown plan file
    """
    if await ctx.hosted.look_for_state():
        try:
            await load_plans(ctx.hosted)  # another process may have started or ended plan mode
        except StorageError:
            if action != "reset":
                raise
            await delete_unreadable_plans(ctx.hosted)
    match action:
        case "enter":
            message = await _enter(ctx, goal, plan_file)
        case "exit":
            message = await _exit(ctx)
        case "reset":
            message = await _reset(ctx)
        case _:
            message = ""
    status = await _status(_plan(ctx), ctx)
    text = codec.encode(asdict(status)).decode() if action == "json" else message or _status_text(status)
    return ToolResult((content.text(text),), status)


def _plan(ctx: Context) -> Plan | None:
    return ctx.hosted.plans.get(ctx.session)


async def _enter(ctx: Context, goal: str | None, plan_file: str | None) -> str:
    """Turn plan mode on, or add to the plan if it is on. Return a message. Raises: HandlerError."""
    plan = _plan(ctx)
    if plan is not None and plan.is_active:
        return await _add_text(ctx, plan, goal, plan_file)
    goal_text = stripped_text("goal", goal, GOAL_LIMIT)
    now = datetime.now(UTC)
    if plan_file is None:
        path = _new_path(ctx.hosted, goal_text, now)
    else:
        path = await asyncio.to_thread(_plan_path, ctx.hosted.folder, plan_file)
    if not ctx.session:
        raise HandlerError(
            "plan mode belongs to a session, and this request has none. Connect over stdio, or in a revision "
            "with sessions (2025-11-25)"
        )
    is_new = await asyncio.to_thread(_create_file, path, goal_text)
    since = now.isoformat(timespec="milliseconds")
    plan = Plan(goal_text, str(path), since, is_active=True, is_own=is_new, client=ctx.peer)
    await store_plan(ctx.hosted, plan, ctx.session)
    return (
        "Plan mode is on: tools that are not read-only are refused until exit. "
        f"{'Write' if is_new else 'Continue'} the plan in {path}: call PlanMode with action enter and the "
        "text as goal, as often as needed."
    )


async def _add_text(ctx: Context, plan: Plan, text: str | None, plan_file: str | None) -> str:
    """Add a text to the plan of a session in plan mode."""
    if text is None:
        raise HandlerError(
            f"goal: is missing. Plan mode is already on, for: {plan.goal}. Give the text to add to the plan "
            "as goal, or use exit or reset first"
        )
    if plan_file is not None:
        path = await asyncio.to_thread(_plan_path, ctx.hosted.folder, plan_file)
        if str(path) != plan.file:
            raise HandlerError(
                f"plan_file: the plan is in {plan.file} until exit; leave plan_file out, or use exit first"
            )
    added_text = stripped_text("goal", text.replace("\r\n", "\n"), TEXT_LIMIT)
    replaces_plan = plan.is_own and added_text.startswith("# ")
    await asyncio.to_thread(_write_text, Path(plan.file), added_text, replaces_plan)
    plan_text = await _plan_text(plan, ctx) or ""
    return f"{'Rewritten' if replaces_plan else 'Added'}. The plan in {plan.file}:\n\n{plan_text}"


async def _exit(ctx: Context) -> str:
    plan = _plan(ctx)
    if plan is None or not plan.is_active:
        raise HandlerError("plan mode is off; the action enter turns it on")
    await store_plan(ctx.hosted, replace(plan, is_active=False), ctx.session)
    text = await _plan_text(plan, ctx)
    return f"Plan mode is off. The plan in {plan.file}:\n\n{text}" if text else "Plan mode is off."


async def _reset(ctx: Context) -> str:
    plan = _plan(ctx)
    await store_plan(ctx.hosted, None, ctx.session)
    return "No plan existed." if plan is None else f"Plan mode is off. {plan.file} was not changed."


async def _status(plan: Plan | None, ctx: Context) -> PlanStatus:
    if plan is None:
        return PlanStatus(active=False)
    return PlanStatus(plan.is_active, plan.goal, plan.since, plan.file, await _plan_text(plan, ctx))


def _status_text(status: PlanStatus) -> str:
    if status.goal is None:
        return "Plan mode is off, and no plan exists."
    state_text = f"on since {status.since}" if status.active else "off"
    summary = f"Plan mode is {state_text}. Goal: {status.goal}\nPlan file: {status.plan_file}"
    return f"{summary}\n\n{status.plan or ''}".rstrip()


def _plan_path(folder: Path, name: str) -> Path:
    """Return the path of the plan's file that a caller names. Raises: HandlerError if the path is not in the
    server folder after links are resolved, or is not the path of a Markdown file.
    """
    # Path.resolve raises an exception for circular links.
    path = Path(os.path.realpath(folder / stripped_text("plan_file", name, PATH_LIMIT)))
    if not path.is_relative_to(folder.resolve()):
        raise HandlerError(f"plan_file: {name!r} is outside the server folder {folder}")
    if path.suffix.lower() not in (".md", ".markdown"):
        raise HandlerError(f"plan_file: {name!r} is not a Markdown file; its name must end with .md")
    return path


def _new_path(state: ServerState, goal: str, now: datetime) -> Path:
    slug = NON_SLUG_CHARACTERS.sub("-", goal.lower()).strip("-")[:40].rstrip("-") or "plan"
    return state.state / "plans" / f"{now:%Y%m%d-%H%M%S}-{slug}.md"


def _create_file(path: Path, goal: str) -> bool:
    """Create the file unless it exists. Return True if it is new."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(f"# Plan: {goal}\n\n")
    except FileExistsError:
        if not path.is_file():
            raise HandlerError(f"plan_file: {path} is not a file") from None
        return False
    except OSError as error:
        raise StorageError(f"plan_file: {path} cannot be written: {error.strerror}") from error
    return True


def _write_text(path: Path, text: str, replaces_plan: bool) -> None:
    """Append a text to a plan's file, or replace its content. Raises: HandlerError, StorageError."""
    flags = os.O_RDWR | os.O_CREAT | OPEN_FLAGS | NO_FOLLOW | NON_BLOCKING
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, flags | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise HandlerError(f"plan_file: {path} is no longer a file")
            data = f"{text}\n".encode()
            size = 0 if replaces_plan else status.st_size
            if size + len(data) > MAX_BYTES:
                raise HandlerError(
                    f"goal: the plan would have {size + len(data)} bytes; {MAX_BYTES} are allowed"
                )
            if replaces_plan:
                file.truncate(0)
            elif size:
                file.seek(max(0, size - 2))
                last_bytes = file.read()
                line_ends = len(last_bytes) - len(last_bytes.rstrip(b"\n"))
                data = b"\n" * (2 - line_ends) + data
            file.write(data)
    except OSError as error:
        raise StorageError(f"plan_file: {path} cannot be written: {error.strerror}") from error


async def _plan_text(plan: Plan, ctx: Context) -> str | None:
    """Return the text of a plan, cut to the limit of a result. None if the plan cannot be read."""
    max_bytes = ctx.hosted.options.output_chars - NOTES_LENGTH - len(plan.goal)
    beginning_and_size = await asyncio.to_thread(read_plan, plan, max(0, max_bytes))
    if beginning_and_size is None:
        return None
    data, size = beginning_and_size
    text = data.decode(errors="replace")
    return (
        text
        if size <= len(data)
        else f"{text}\n[{size - len(data)} bytes more; the full text is in {plan.file}]"
    )
