"""Decorators for the functions of authors. A decorator only stores its arguments in a `Note`, which is an
attribute of the function. The loader of a file reads this note with `note_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NoReturn, TypedDict, TypeVar, Unpack, overload

from msgspec import Meta, Struct, field

from mcpdesk.errors import HandlerError, Refusal
from mcpdesk.protocol import content
from mcpdesk.protocol.jsonrpc import ErrorCode

Function = TypeVar("Function", bound=Callable[..., Any])
Icons = Iterable[str | dict[str, Any]]
Suggestions = Iterable[str] | Callable[..., Any]
"""List of texts, or function of `(value)`, `(value, arguments)` or `(value, arguments, ctx)`."""
TaskSupport = Literal["forbidden", "optional", "required"]
NOTE_ATTRIBUTE = "__mcpdesk__"
_FIELD_NAMES = {"timeout": "timeout_s", "offered": "is_offered"}
"""Names of the fields of a note that differ from their keywords, by keyword."""
_HINTS = {
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


class ItemKeywords(TypedDict, total=False):
    """Keywords that all decorators have."""

    name: str
    title: str
    description: str
    icons: Icons
    meta: Mapping[str, Any]
    requires_env: str | Iterable[str]
    """Environment variables that must be set for the item to be offered."""
    offered: bool
    """If False, the item is hidden until a handler calls `ctx.server.tools.offer(name)`.

    `.withdraw(name)` hides it again. Clients are notified of both changes. Resources, templates and prompts
    have similar registries.
    """


class ToolKeywords(ItemKeywords, total=False):
    """Keywords of `tool`."""

    annotations: Mapping[str, Any]
    read_only: bool | None
    """Value of the hint `readOnlyHint` for clients, or None to omit the hint."""
    destructive: bool | None
    """Value of the hint `destructiveHint`."""
    idempotent: bool | None
    """Value of the hint `idempotentHint`."""
    open_world: bool | None
    """Value of the hint `openWorldHint`."""
    timeout: float | None
    """Time limit of a call in seconds, or None for the server's setting."""
    task: TaskSupport
    """`optional` if a client may run a call as a task, `required` if it must, `forbidden` if it cannot."""
    asks_first: bool
    """If True, a call becomes a task at `await ctx.become_task()`. Questions before that belong to
    the call.
    """
    resume: bool
    """If True, another machine may run a job or task of this tool again, with the same arguments, after the
    machine that ran it has failed.

    Only for tools that may safely run twice.
    """
    requires_jwt: bool
    """If True, callers without a verified token are rejected. `ctx.claims` has the claims of the token."""
    scopes: str | Iterable[str]
    """Scopes that the token must have."""
    runs_programs: bool
    """True for a tool that starts programs. Callers over TCP must then send the API key."""
    while_planning: bool | tuple[str, ...]
    """If True, the tool may be called in plan mode. A tuple has the values of `action` that are allowed."""


class ResourceKeywords(ItemKeywords, total=False):
    """Keywords of `resource` besides the URI."""

    mime_type: str
    annotations: Mapping[str, Any]
    complete: Mapping[str, Suggestions] | Suggestions | None
    """Suggestions for each variable of the template. If the template has only one variable, its name can be
    omitted.
    """


class PromptKeywords(ItemKeywords, total=False):
    """Keywords of `prompt`."""

    complete: Mapping[str, Suggestions] | None
    """Suggestions for each argument."""


class Note(Struct, frozen=True):
    """Arguments of a decorator. `kind` is `tool`, `resource` or `prompt`. The keyword classes explain the
    fields.
    """

    kind: str
    name: str = ""
    title: str = ""
    description: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)
    icons: tuple[dict[str, Any], ...] = ()
    meta: dict[str, Any] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    uri: str = ""
    """URI or URI template of a resource."""
    mime_type: str = ""
    complete: Any = None
    timeout_s: float | None = None
    task: str = ""
    """`optional` or `required`, or "" if a call is never a task."""
    asks_first: bool = False
    resume: bool = False
    requires_jwt: bool = False
    scopes: tuple[str, ...] = ()
    runs_programs: bool = False
    while_planning: bool | tuple[str, ...] = False
    is_offered: bool = True


def note_of(function: object) -> Note | None:
    """Return the note that a decorator stored on a function, or None if the function has no decorator."""
    note = getattr(function, NOTE_ATTRIBUTE, None)
    return note if isinstance(note, Note) else None


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(**keywords: Unpack[ToolKeywords]) -> Callable[[Function], Function]: ...
def tool(function: Any = None, /, **keywords: Unpack[ToolKeywords]) -> Any:
    """Offer a function as a tool. Both `@tool` and `@tool(...)` work."""
    decorate = _note_decorator("tool", keywords, ToolKeywords)
    return decorate if function is None else decorate(function)


def resource(uri: str, **keywords: Unpack[ResourceKeywords]) -> Callable[[Function], Function]:
    """Offer a function as the resource at `uri`. If `uri` has `{variables}`, offer it as a template.

    The function gets the variables as parameters with the same names. It may also have the parameters `uri`
    and `ctx`. It returns None if the resource does not exist.
    """
    return _note_decorator("resource", keywords, ResourceKeywords, uri)


@overload
def prompt(function: Function, /) -> Function: ...
@overload
def prompt(**keywords: Unpack[PromptKeywords]) -> Callable[[Function], Function]: ...
def prompt(function: Any = None, /, **keywords: Unpack[PromptKeywords]) -> Any:
    """Offer a function as a prompt. It returns a text (one user message) or a list of `message(...)`."""
    decorate = _note_decorator("prompt", keywords, PromptKeywords)
    return decorate if function is None else decorate(function)


def fail(message: str, **data: Any) -> NoReturn:
    """End a handler early with an error.

    The caller gets a tool error with this text, and `data` as structured content.
    """
    raise HandlerError(str(message), data or None)


def refuse(message: str, code: int = ErrorCode.INTERNAL_ERROR, data: Any = None) -> NoReturn:
    """End a handler with a JSON-RPC error. Use `fail` for errors that a model can act on.

    Raises: ValueError if the protocol reserves the code (-32099 to -32000) or if the code is not a valid
    number.
    """
    if not isinstance(code, int) or abs(code) >= 2**53:
        raise ValueError(f"{code!r} is not an error code; use a whole number")
    if -32099 <= code <= -32000:
        raise ValueError(f"{code} is reserved by the protocol; use a code outside -32768 to -32000")
    raise Refusal(code, str(message), data)


def message(value: str | content.Block, role: str = "user") -> dict[str, Any]:
    """Return one message of a prompt; `role` is `user` or `assistant`."""
    return {"role": role, "content": content.text(value) if isinstance(value, str) else value}


def header(name: str) -> Meta:
    """Return metadata for an argument that clients must repeat in an HTTP header.

    `Annotated[str, header("Region")]` uses the header `Mcp-Param-Region`.
    """
    return Meta(extra_json_schema={"x-mcp-header": name})


def _note_decorator(
    kind: str, keywords: Mapping[str, Any], keyword_class: type, uri: str = ""
) -> Callable[[Function], Function]:
    """Return a decorator that stores its arguments. Raises: TypeError for an unknown keyword."""
    if unknown := keywords.keys() - keyword_class.__annotations__.keys():
        raise TypeError(f"{kind}() got an unexpected keyword argument {min(unknown)!r}")
    given_keywords = {name: value for name, value in keywords.items() if value is not None}
    note_fields = {_FIELD_NAMES.get(name, name): value for name, value in given_keywords.items()}
    hints = {hint: note_fields.pop(name) for name, hint in _HINTS.items() if name in note_fields}
    note_fields["annotations"] = hints | dict(note_fields.get("annotations", {}))
    note_fields["meta"] = dict(note_fields.get("meta", {}))
    for name in ("requires_env", "scopes"):
        note_fields[name] = _name_tuple(note_fields.get(name, ()))
    note_fields["icons"] = tuple(
        {"src": icon} if isinstance(icon, str) else dict(icon) for icon in note_fields.get("icons", ())
    )
    if note_fields.get("task") == "forbidden":
        del note_fields["task"]
    note_fields["requires_jwt"] = bool(note_fields.get("requires_jwt") or note_fields["scopes"])
    note = Note(kind, uri=uri, **note_fields)

    def decorate(function: Function) -> Function:
        setattr(function, NOTE_ATTRIBUTE, note)
        return function

    return decorate


def _name_tuple(names: str | Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
