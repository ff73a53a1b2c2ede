"""A tool: its definition and how it is invoked. Knows nothing of folders, the wire or who calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from mcpdesk.server.offer.registry import Item

if TYPE_CHECKING:
    from mcpdesk.protocol.headers import Mirrored

T = TypeVar("T")
CLAIMS = "__jwt"
"""The argument under which handlers that take all arguments as one find the claims of the caller's token."""
Handler = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""Checked arguments and a `Context` in; any output, a `ToolResult`, or content blocks out."""


class ToolResult(Struct, Generic[T], frozen=True):
    """An explicit result, for handlers that want to say exactly what the peer gets.

    A handler annotated `-> ToolResult[Weather]` declares the output schema of `Weather`.
    """

    content: tuple[dict[str, Any], ...] = ()
    """Content blocks as wire objects; `mcpdesk.protocol.content` makes them."""
    structured: T | None = None
    """Structured content; None means none."""
    is_error: bool = False
    meta: dict[str, Any] | None = None


class Tool(Item, frozen=True):
    """One tool, ready to be called. Equality leaves the handler out: the fingerprint stands for the code."""

    name: str
    handler: Handler
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    """Seconds; None takes the server's setting."""
    runs_programs: bool = False
    """True for Bash and its kind: such a tool makes a key due over TCP."""
    while_planning: bool | tuple[str, ...] = False
    """True: plan mode does not refuse it although it is not read-only. A tuple: not with one of these values
    of its argument `action`, which change nothing."""
    requires_jwt: bool = False
    scopes: tuple[str, ...] = ()
    """What the caller's token has to allow."""
    task: str = ""
    """`optional` or `required`: whether a call may or must be a task; empty: it never is one."""
    asks_first: bool = False
    """A call that may be a task becomes one when the handler says so."""
    resume: bool = False
    """Whether a job or a task of it may run again on another replica when the one that ran it dies."""
    mirrored: tuple[Mirrored, ...] = ()
    """Arguments that HTTP headers repeat in the stateless era."""
