"""Servers: their identity, and the items they offer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mcpdesk.auth.access import OPEN_ACCESS, Access
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
    """Lifetime of a task in seconds, which is also the maximum for clients. None means no limit."""
    job_timeout_s: float = 3600.0
    """Maximum seconds that an asynchronous call or a task may run, if its tool has no limit of its own."""
    job_ttl_s: float = 3600.0
    """Seconds for which an asynchronous call is kept after it has ended."""
    jobs_at_once: int = 16
    """Maximum number of asynchronous calls that run at the same time. Others are queued."""
    output_dirs: tuple[Path, ...] = (Path("/tmp"),)
    """Folders from which clients may download files of asynchronous calls, besides the server's own
    folder.
    """
    in_flight: int = 1024
    """Maximum number of running requests on one connection or session."""
    large_bytes: int = 256 << 20
    """Maximum total size in bytes of the large requests that run at one time on pipes and sockets."""
    subscriptions: int = 1000
    """Maximum number of resource subscriptions of a connection, session or listen stream."""


class RequestView(Struct, frozen=True):
    """Request as `context.py` receives it. It has the same form on every transport."""

    method: str
    transport: str
    """`memory`, `http`, `websocket`, `sse`, `stdio` or `unix`."""
    peer: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP headers with names in lower case. Pipes have none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the client's process on stdio, and of this process on other pipes. Empty over HTTP."""
    claims: Mapping[str, Any] | None = None


class Server(Struct, eq=False):
    """Identity and items of one server. Use it only on the core's thread."""

    name: str
    version: str = "0.0.0"
    title: str = ""
    description: str = ""
    instructions: str = ""
    website_url: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    public_name: str = ""
    """Name in reverse-DNS form, for cards and registries, or "" if the author set none."""
    repository: str = ""
    """URL of the source repository."""
    folder: Path | None = None
    hosted: ServerState | None = None
    """State between calls (state file, programs, plans), or None for a server without a folder."""
    limits: Limits = field(default_factory=Limits)
    tools_enabled: bool = True
    """If False, the server does not announce tools, and no tool can be called."""
    streaming: bool = True
    """If False, the server sends no progress on any transport."""
    access: Access = OPEN_ACCESS
    """Authentication that callers need, and the verifier of their tokens."""
    create_context: Callable[[RequestView], Awaitable[Any]] | None = None
    """`create_context` of `context.py`. It is called for each request, and its result is `ctx.context`."""
    lifespan: Lifespan | None = None
    """`lifespan` of `context.py`. The value that it yields is `ctx.state`."""
    around_call: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]] | None = None
    """`around_call` of `context.py`. It takes a tool call and a function that runs it, and returns the
    result.
    """
    problems: tuple[str, ...] = ()
    """Errors in the server folder, as texts for the author."""
    helpers: tuple[str, ...] = ()
    """Notes about functions in the server's folder that are not offered, because another file imports them.
    """
    withheld: str = ""
    """Reason why the server is disabled, or "" if the server is served."""
    tools: Registry[Tool] = field(default_factory=lambda: Registry("tool", lambda tool: tool.name))
    resources: Registry[Resource] = field(default_factory=lambda: Registry("resource", lambda item: item.uri))
    templates: Registry[ResourceTemplate] = field(
        default_factory=lambda: Registry("template", lambda item: item.uri_template)
    )
    prompts: Registry[Prompt] = field(default_factory=lambda: Registry("prompt", lambda item: item.name))
    skills: Registry[SkillEntry] = field(default_factory=lambda: Registry("skill", lambda item: item.uri))
    tool_figures: ToolFigures = field(default_factory=ToolFigures)
    """Outcomes of the calls to its tools, in all modes and over all transports."""
    mode: str = ""
    """Mode of this view, or "" for the server with all tools."""
    modes: tuple[str, ...] = ()
    """Modes that the server has."""

    @property
    def requires_jwt(self) -> bool:
        """True if callers need a verified token for every request."""
        return self.access.requires_token

    @property
    def token_tools(self) -> list[str]:
        """Names of the tools that require a token."""
        return [tool.name for tool in self.tools if tool.requires_jwt]

    @property
    def runs_programs(self) -> bool:
        """True if any tool can start programs. Callers over TCP then need the API key."""
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

    def view_in_mode(self, mode: str, tools: Registry[Tool]) -> Server:
        """Return a view of this server with other tools. `sync` updates the view."""
        view = Server(self.name, tools=tools, mode=mode)
        view.sync(self)
        return view

    def sync(self, server: Server) -> None:
        """Copy all fields of `server` except tools, mode and modes."""
        for name in self.__struct_fields__:
            if name not in ("tools", "mode", "modes"):
                setattr(self, name, getattr(server, name))
