"""SetCallback: messages that return later, to their sender and to the desk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import resource, tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.tools import stripped_text

if TYPE_CHECKING:
    from mcpdesk.storage.callbacks import Callback as StoredCallback

MESSAGE_LIMIT = 10_000
"""Maximum number of characters of a message."""
MAX_REPEATS = 1_000_000

Action = Literal["set", "list", "cancel"]


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback.

    Attributes:
        state: waiting, or over: it has fired repeat_count times or was cancelled
        due: Time at which it fires next, ISO 8601
        uri: URI for reading and subscribing to it
    """

    callback_id: int
    message: str
    state: Literal["waiting", "over"]
    delay_seconds: float
    repeat_count: int
    fired: int
    due: str | None
    uri: str


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Affected callbacks, oldest first."""

    callbacks: tuple[Callback, ...]


@tool(
    name="SetCallback",
    title="Set a callback",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    while_planning=("list",),
)
async def set_callback(
    action: Action,
    ctx: Context,
    message: str | None = None,
    delay_seconds: Annotated[int, Meta(ge=1, le=3600)] | None = None,
    repeat_count: Annotated[int, Meta(ge=1, le=MAX_REPEATS)] = 1,
    callback_id: int | None = None,
) -> ToolResult[Callbacks]:
    """Manage scheduled callback messages with repeats. set sends `message` after `delay_seconds`, and again
    after each further delay until it was sent `repeat_count` times: as a log message of logger `callback`,
    as an update of the resource callback://ID, and on the desk. If the client that set it has disconnected,
    every client of the server receives it, and so do clients that connect later. `callback_id` sets the id
    of a new callback, 1 to 1000000. list shows all callbacks, cancel ends one.

    Args:
        action: Action: set, list, cancel
        message: Callback message
        delay_seconds: Seconds to wait (1-3600)
        repeat_count: Times to fire before cancel
        callback_id: Callback slot ID
    """
    match action:
        case "set":
            callbacks, text = await _set(ctx, message, delay_seconds, repeat_count, callback_id)
        case "list":
            callbacks, text = await _list(ctx)
        case "cancel":
            callbacks, text = await _cancel(ctx, callback_id)
    result_callbacks = tuple(_result_callback(each) for each in callbacks)
    return ToolResult(
        (content.text("\n".join([text, *map(_line, result_callbacks)])),), Callbacks(result_callbacks)
    )


@resource("callback://{id}", name="callback", title="Callback", mime_type="application/json")
async def callback(id: int, ctx: Context) -> Callback | None:
    """Current state of a callback."""
    stored = await ctx.hosted.callbacks.get(id)
    return None if stored is None else _result_callback(stored)


async def _set(
    ctx: Context, message: str | None, delay_seconds: int | None, repeat_count: int, callback_id: int | None
) -> tuple[list[StoredCallback], str]:
    text = stripped_text("message", message, MESSAGE_LIMIT)
    if delay_seconds is None:
        raise HandlerError("delay_seconds: is missing; 1 to 3600 are allowed")
    report = ctx.log_later("callback")
    stored = await ctx.hosted.callbacks.set(text, delay_seconds, repeat_count, ctx.peer, report, callback_id)
    return [stored], f"Callback {stored.id} is set:"


async def _list(ctx: Context) -> tuple[list[StoredCallback], str]:
    callbacks = list(await ctx.hosted.callbacks.all())
    waiting_count = sum(1 for each in callbacks if each.due is not None)
    return callbacks, f"{waiting_count} waiting, {len(callbacks) - waiting_count} ended."


async def _cancel(ctx: Context, number: int | None) -> tuple[list[StoredCallback], str]:
    if number is None:
        raise HandlerError("callback_id: is missing; `list` shows all")
    previous = await ctx.hosted.callbacks.get(number)
    stored = await ctx.hosted.callbacks.cancel(number)
    if stored is None or previous is None:
        raise HandlerError(f"callback_id: no callback {number}; `list` shows all")
    outcome = "had already ended" if previous.due is None else "is cancelled"
    return [stored], f"Callback {number} {outcome}:"


def _result_callback(stored: StoredCallback) -> Callback:
    """Convert a stored callback to the form in which clients receive it."""
    from mcpdesk.server.state.callback_timers import uri_of

    due = (
        None if stored.due is None else datetime.fromtimestamp(stored.due, UTC).isoformat(timespec="seconds")
    )
    return Callback(
        callback_id=stored.id,
        message=stored.message,
        state="over" if stored.due is None else "waiting",
        delay_seconds=stored.delay_s,
        repeat_count=stored.repeat_count,
        fired=stored.fired,
        due=due,
        uri=uri_of(stored.id),
    )


def _line(callback: Callback) -> str:
    state_text = "over" if callback.due is None else f"due {callback.due}"
    count_text = f"fired {callback.fired} of {callback.repeat_count}"
    return f"{callback.callback_id}  {state_text}, {count_text}: {callback.message}"
