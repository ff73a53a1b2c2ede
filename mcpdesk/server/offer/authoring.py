"""What authors write on their functions. A decorator notes what hints cannot say, nothing else.

Knows nothing of folders or schemas: whoever loads the file reads the note with `note_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NoReturn, TypeVar, overload

from msgspec import Meta, Struct, field

from mcpdesk.errors import HandlerError, Refusal
from mcpdesk.protocol import content
from mcpdesk.protocol.jsonrpc import ErrorCode

Function = TypeVar("Function", bound=Callable[..., Any])
Icons = Iterable[str | dict[str, Any]]
Suggestions = Iterable[str] | Callable[..., Any]
"""A list of texts, or a function of `(value)`, `(value, arguments)` or `(value, arguments, ctx)`."""
TaskSupport = Literal["forbidden", "optional", "required"]
NOTE = "__mcpdesk__"


class Note(Struct, frozen=True):
    """What a decorator said. `kind` is `tool`, `resource` or `prompt`."""

    kind: str
    name: str = ""
    title: str = ""
    description: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    """Environment variables without which the item is not offered."""
    uri: str = ""
    """A resource's URI or URI template."""
    mime_type: str = ""
    complete: Any = None
    """What suggests values, by argument; for a template with one variable also without its name."""
    timeout_s: float | None = None
    task: str = ""
    asks_first: bool = False
    requires_jwt: bool = False
    scopes: tuple[str, ...] = ()
    runs_programs: bool = False
    while_planning: bool | tuple[str, ...] = False
    is_offered: bool = True


def note_of(function: object) -> Note | None:
    """What a decorator noted on a function, or None."""
    note = getattr(function, NOTE, None)
    return note if isinstance(note, Note) else None


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    annotations: Mapping[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    timeout: float | None = None,
    task: TaskSupport = "forbidden",
    asks_first: bool = False,
    requires_jwt: bool = False,
    scopes: str | Iterable[str] = (),
    requires_env: str | Iterable[str] = (),
    offered: bool = True,
    runs_programs: bool = False,
    while_planning: bool | tuple[str, ...] = False,
    icons: Icons = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    annotations: Mapping[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    timeout: float | None = None,
    task: TaskSupport = "forbidden",
    asks_first: bool = False,
    requires_jwt: bool = False,
    scopes: str | Iterable[str] = (),
    requires_env: str | Iterable[str] = (),
    offered: bool = True,
    runs_programs: bool = False,
    while_planning: bool | tuple[str, ...] = False,
    icons: Icons = (),
    meta: Mapping[str, Any] | None = None,
) -> Function | Callable[[Function], Function]:
    """Offer a function as a tool; `@tool` and `@tool(...)` both work.

    `timeout` is in seconds. `read_only`, `destructive`, `idempotent` and `open_world` become the hints of
    those names; None leaves one out. `task` says whether a call may, must or cannot outlive its request as a
    task; with `asks_first` it becomes one at `await ctx.become_task()`, and what it asks before that is asked
    in the call itself. `requires_jwt` refuses callers without a verified token, `scopes` also those whose
    token does not allow that much; what it says is `ctx.claims`. `offered=False` holds it back until a
    handler calls `ctx.server.tools.offer(name)`; `.withdraw(name)` takes it back. Clients are told of both.
    """
    hints = {
        "readOnlyHint": read_only,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": open_world,
    }
    note = Note(
        "tool",
        name=name,
        title=title,
        description=description,
        annotations={**_given(hints), **(annotations or {})},
        icons=_icons(icons),
        meta=dict(meta or {}),
        requires_env=_names(requires_env),
        is_offered=offered,
        timeout_s=timeout,
        task="" if task == "forbidden" else task,
        asks_first=asks_first,
        requires_jwt=requires_jwt or bool(scopes),
        scopes=_names(scopes),
        runs_programs=runs_programs,
        while_planning=while_planning,
    )
    return _noting(note) if function is None else _noting(note)(function)


def resource(
    uri: str,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    mime_type: str = "",
    annotations: Mapping[str, Any] | None = None,
    complete: Mapping[str, Suggestions] | Suggestions | None = None,
    requires_env: str | Iterable[str] = (),
    offered: bool = True,
    icons: Icons = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]:
    """Offer a function as the resource at `uri`, or as a template when `uri` has `{variables}`.

    The variables arrive as parameters of the same names; `uri` and `ctx` may be asked for as well. Returning
    None says that there is no such resource.
    `complete` suggests values for them: a list or a function per variable.
    """
    note = Note(
        "resource",
        uri=uri,
        name=name,
        title=title,
        description=description,
        mime_type=mime_type,
        annotations=dict(annotations or {}),
        complete=complete,
        icons=_icons(icons),
        meta=dict(meta or {}),
        requires_env=_names(requires_env),
        is_offered=offered,
    )
    return _noting(note)


@overload
def prompt(function: Function, /) -> Function: ...
@overload
def prompt(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    complete: Mapping[str, Suggestions] | None = None,
    requires_env: str | Iterable[str] = (),
    offered: bool = True,
    icons: Icons = (),
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Function], Function]: ...
def prompt(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    complete: Mapping[str, Suggestions] | None = None,
    requires_env: str | Iterable[str] = (),
    offered: bool = True,
    icons: Icons = (),
    meta: Mapping[str, Any] | None = None,
) -> Function | Callable[[Function], Function]:
    """Offer a function as a prompt. It returns a text (one user message) or a list of `message(...)`.

    `complete` suggests values: a list of texts per argument, or a function of `(value)`,
    `(value, arguments)` or `(value, arguments, ctx)`.
    """
    note = Note(
        "prompt",
        name=name,
        title=title,
        description=description,
        complete=complete,
        icons=_icons(icons),
        meta=dict(meta or {}),
        requires_env=_names(requires_env),
        is_offered=offered,
    )
    return _noting(note) if function is None else _noting(note)(function)


def fail(message: str, **data: Any) -> NoReturn:
    """End a handler early: the caller gets an error result with this text; `data` becomes its structure."""
    raise HandlerError(str(message), data or None)


def refuse(message: str, code: int = ErrorCode.INTERNAL_ERROR, data: Any = None) -> NoReturn:
    """End a handler with a JSON-RPC error instead of a result; what a model could act on is for `fail`.

    Raises: ValueError for a code that is the protocol's own (-32099 to -32000) or no number it could be.
    """
    if not isinstance(code, int) or abs(code) >= 2**53:
        raise ValueError(f"{code!r} is no error code; take a whole number")
    if -32099 <= code <= -32000:
        raise ValueError(f"{code} is a code of the protocol's own; take one outside -32768 to -32000")
    raise Refusal(code, str(message), data)


def message(value: str | content.Block, role: str = "user") -> dict[str, Any]:
    """One message of a prompt; `role` is `user` or `assistant`."""
    return {"role": role, "content": content.text(value) if isinstance(value, str) else value}


def header(name: str) -> Meta:
    """For `Annotated[str, header("Region")]`: clients repeat it in the header `Mcp-Param-Region`."""
    return Meta(extra_json_schema={"x-mcp-header": name})


def _noting(note: Note) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        setattr(function, NOTE, note)
        return function

    return decorate


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _icons(given: Icons) -> tuple[dict[str, Any], ...]:
    return tuple({"src": icon} if isinstance(icon, str) else dict(icon) for icon in given)
