"""Tools: their definition, and the type of their handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct, field

from mcpdesk.server.offer.registry import Item

if TYPE_CHECKING:
    from mcpdesk.protocol.headers import MirroredArgument

T = TypeVar("T")
CLAIMS = "__jwt"
"""Key of the token's claims in the arguments of a handler that takes all arguments as one object."""
Handler = Callable[[dict[str, Any], Any], Awaitable[Any]]
"""Function that takes validated arguments and a `Context`.

It returns any output, a `ToolResult`, or content blocks.
"""


class ToolResult(Struct, Generic[T], frozen=True):
    """Result of a handler that defines exactly what the client receives.

    The return annotation `-> ToolResult[Weather]` makes the schema of `Weather` the output schema.
    """

    content: tuple[dict[str, Any], ...] = ()
    """Content blocks as protocol objects. `mcpdesk.protocol.content` creates them."""
    structured: T | None = None
    """Structured content, or None."""
    is_error: bool = False
    meta: dict[str, Any] | None = None


class Tool(Item, frozen=True):
    """One tool. When tools are compared, the fingerprint stands for the code of the handler."""

    name: str
    handler: Handler
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    """Time limit in seconds. None uses the server's setting."""
    runs_programs: bool = False
    """True for a tool that starts programs, such as Bash. Callers over TCP then need the API key."""
    while_planning: bool | tuple[str, ...] = False
    """If True, plan mode allows the tool although it is not read-only.

    A tuple lists the values of the argument `action` that plan mode allows, because they change nothing.
    """
    requires_jwt: bool = False
    scopes: tuple[str, ...] = ()
    """Scopes that the caller's token must have."""
    task: str = ""
    """`optional` or `required` if a call may or must be a task, or "" if a call is never a task."""
    asks_first: bool = False
    """If True, a call with task support becomes a task when the handler asks for it, instead of at
    its start.
    """
    resume: bool = False
    """True if a job or task may run again in another process after its process has ended."""
    mirrored: tuple[MirroredArgument, ...] = ()
    """Arguments that HTTP headers repeat in stateless revisions."""
