"""Servers: an identity and the items it offers. Knows nothing of folders, transports or the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mcpdesk.auth.access import NOTHING_ASKED, Access
from mcpdesk.protocol.catalogue.publication import Publication
from mcpdesk.server.calls.call_figures import ToolFigures
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Registry
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.skill_entry import SkillEntry
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.lifespan import Lifespan
from mcpdesk.server.state.server_state import ServerState


class Limits(Struct, frozen=True):
    """Limits of a server."""

    tool_timeout_s: float = 30.0
    question_timeout_s: float = 600.0
    page_size: int = 1000
    """Maximum items per page of a list result."""
    max_tasks: int = 1000
    task_ttl_s: float | None = 3600.0
    """Lifetime of a task from its creation, and the maximum that a client may request; None is unlimited."""
    job_timeout_s: float = 3600.0
    """Maximum run time of an asynchronous call or a task whose tool has no limit of its own."""
    job_ttl_s: float = 3600.0
    """Time for which an asynchronous call is kept after its end."""
    jobs_at_once: int = 16
    """Maximum number of asynchronous calls that run at a time; others are queued."""
    output_dirs: tuple[Path, ...] = (Path("/tmp"),)
    """Folders besides the server's own whose files such calls may offer for download."""
    in_flight: int = 1024
    """Maximum requests in flight per connection or session."""
    large_bytes: int = 256 << 20
    """Maximum total bytes of large requests in flight on pipes and sockets."""
    subscriptions: int = 1000
    """Maximum resources that one connection, session or listen stream may subscribe to."""


class RequestView(Struct, frozen=True):
    """Request as `context.py` sees it; the same shape on every transport."""

    method: str
    transport: str
    """`memory`, `http`, `websocket`, `sse`, `stdio`, `unix`."""
    peer: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers with lower-case names; empty on pipes."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the client's process on stdio, of this process on other pipes; empty on HTTP."""
    claims: Mapping[str, Any] | None = None


class Server(Struct, eq=False):
    """Identity and registries of one server. Used on the core's thread only."""

    name: str
    version: str = "0.0.0"
    title: str = ""
    description: str = ""
    instructions: str = ""
    website_url: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    public_name: str = ""
    """Name in reverse-DNS form, for cards and registries; empty if its author set none."""
    repository: str = ""
    """URL of the source repository."""
    folder: Path | None = None
    hosted: ServerState | None = None
    """State that outlives a call (state file, programs, plans), or None for a server without a folder."""
    limits: Limits = field(default_factory=Limits)
    tools_enabled: bool = True
    """False: the tools capability is not advertised, and no tool can be called."""
    streaming: bool = True
    """False: no progress is sent, on any transport."""
    access: Access = NOTHING_ASKED
    """Authentication that it requires of callers, and the verification of their tokens."""
    create_context: Callable[[RequestView], Awaitable[Any]] | None = None
    """`create_context` of `context.py`: called once per request; its return value is `ctx.context`."""
    lifespan: Lifespan | None = None
    """`lifespan` of `context.py`; the value it yields is `ctx.state`."""
    around_call: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]] | None = None
    """`around_call` of `context.py`: takes a tool call and a function that runs it; returns the result."""
    problems: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    """Notes about functions of its folder that are not offered, because another file imports them."""
    withheld: str = ""
    """Reason the server is disabled; empty if it is served."""
    tools: Registry[Tool] = field(default_factory=lambda: Registry("tool", lambda tool: tool.name))
    resources: Registry[Resource] = field(default_factory=lambda: Registry("resource", lambda item: item.uri))
    templates: Registry[ResourceTemplate] = field(
        default_factory=lambda: Registry("template", lambda item: item.uri_template)
    )
    prompts: Registry[Prompt] = field(default_factory=lambda: Registry("prompt", lambda item: item.name))
    skills: Registry[SkillEntry] = field(default_factory=lambda: Registry("skill", lambda item: item.uri))
    tool_figures: ToolFigures = field(default_factory=ToolFigures)
    """Outcomes of its tools' calls, in any mode and over any transport."""
    mode: str = ""
    """Mode of this view; empty for the whole server."""
    modes: tuple[str, ...] = ()
    """Modes that the server has."""

    @property
    def requires_jwt(self) -> bool:
        """True if callers need a verified token for everything."""
        return self.access.requires_token

    @property
    def token_tools(self) -> list[str]:
        """Names of the tools that require a token."""
        return [tool.name for tool in self.tools if tool.requires_jwt]

    @property
    def runs_programs(self) -> bool:
        """True if any tool can start programs. TCP callers need the key then."""
        return any(tool.runs_programs for tool in self.tools)

    @property
    def publication(self) -> Publication:
        """Public description of the server."""
        return Publication(
            name=self.name,
            version=self.version,
            public_name=self.public_name,
            title=self.title,
            description=self.description,
            website_url=self.website_url,
            repository=self.repository,
            icons=self.icons,
        )

    def seen_in(self, mode: str, tools: Registry[Tool]) -> Server:
        """Return a view of this server with other tools; `keep_up` updates it."""
        view = Server(self.name, tools=tools, mode=mode)
        view.keep_up(self)
        return view

    def keep_up(self, whole: Server) -> None:
        """Copy all fields of `whole` except tools, mode and modes."""
        for name in self.__struct_fields__:
            if name not in ("tools", "mode", "modes"):
                setattr(self, name, getattr(whole, name))
