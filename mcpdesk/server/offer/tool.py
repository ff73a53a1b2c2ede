"""Tools: definition and invocation. Knows nothing of folders, the wire or the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from mcpdesk.server.offer.registry import Item

if TYPE_CHECKING:
    from mcpdesk.protocol.headers import Mirrored

T = TypeVar("T")
CLAIMS = "__jwt"
"""Name under which handlers that take all arguments as one object find the claims of the caller's token."""
Handler = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""Takes validated arguments and a `Context`. Returns any output, a `ToolResult`, or content blocks."""


class ToolResult(Struct, Generic[T], frozen=True):
    """Explicit result, for handlers that define exactly what the peer receives.

    A handler annotated `-> ToolResult[Weather]` declares the output schema of `Weather`.
    """

    content: tuple[dict[str, Any], ...] = ()
    """Content blocks as wire objects; `mcpdesk.protocol.content` creates them."""
    structured: T | None = None
    """Structured content, or None."""
    is_error: bool = False
    meta: dict[str, Any] | None = None


class Tool(Item, frozen=True):
    """One tool. Equality ignores the handler; the fingerprint represents its code."""

    name: str
    handler: Handler
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    """Time limit in seconds; None uses the server's setting."""
    runs_programs: bool = False
    """True for tools that start programs, such as Bash. With such a tool, TCP callers need the key."""
    while_planning: bool | tuple[str, ...] = False
    """True: plan mode allows the tool although it is not read-only. A tuple lists values of its argument
    `action` that change nothing, and that plan mode allows."""
    requires_jwt: bool = False
    scopes: tuple[str, ...] = ()
    """Scopes that the caller's token must have."""
    task: str = ""
    """`optional` or `required` if a call may or must be a task; empty if it never is."""
    asks_first: bool = False
    """True: a call with task support becomes a task when the handler asks for it, not at its start."""
    resume: bool = False
    """True if a job or task may run again on another replica when the replica that ran it dies."""
    mirrored: tuple[Mirrored, ...] = ()
    """Arguments that HTTP headers repeat in the stateless era."""
