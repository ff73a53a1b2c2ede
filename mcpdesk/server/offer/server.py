"""A server: an identity and what it offers. Knows nothing of folders, transports or the wire."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mcpdesk.auth.principal import NOTHING_ASKED, Access
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
    """Bounds a server works within."""

    tool_timeout_s: float = 30.0
    question_timeout_s: float = 600.0
    page_size: int = 1000
    """Items a page of a list answer."""
    max_tasks: int = 1000
    task_ttl_s: float | None = 3600.0
    """How long a task is kept from when it began, and the most a client may ask for; None: for good."""
    job_timeout_s: float = 3600.0
    """How long an asynchronous call or a task may run whose tool has no limit of its own."""
    job_ttl_s: float = 3600.0
    """How long an asynchronous call is kept after its end."""
    jobs_at_once: int = 16
    """Asynchronous calls that run at a time; others wait for their turn."""
    output_dirs: tuple[Path, ...] = (Path("/tmp"),)
    """Where, besides the server's folder, files may lie that such calls give out."""
    in_flight: int = 1024
    """Requests one connection or session may have in flight."""
    large_bytes: int = 256 << 20
    """Of large requests in flight on pipes and sockets, all together."""
    subscriptions: int = 1000
    """Resources one connection, session or listen stream may subscribe to."""


class RequestView(Struct, frozen=True):
    """The request as `context.py` sees it; the same shape on every transport."""

    method: str
    transport: str
    """`memory`, `http`, `websocket`, `sse`, `stdio`, `unix`."""
    peer: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """HTTP header names in lower case; empty on pipes."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the client's process on stdio, of this process on other pipes; empty on HTTP."""
    claims: Mapping[str, Any] | None = None


class Server(Struct, eq=False):
    """Identity plus registries. Everything here is touched by the core's thread only."""

    name: str
    version: str = "0.0.0"
    title: str = ""
    description: str = ""
    instructions: str = ""
    website_url: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    public_name: str = ""
    """In reverse-DNS form, for cards and registries; empty: its author names none."""
    repository: str = ""
    """The URL of its source."""
    folder: Path | None = None
    hosted: ServerState | None = None
    """What outlives a call: state file, programs, plans. None for a server without a folder."""
    limits: Limits = field(default_factory=Limits)
    tools_enabled: bool = True
    """False: no tools capability is advertised and none can be called."""
    streaming: bool = True
    """False: no progress is sent, whatever the transport."""
    access: Access = NOTHING_ASKED
    """What it asks of callers, and how their tokens are checked."""
    create_context: Callable[[RequestView], Awaitable[Any]] | None = None
    """From `context.py`: called once per request, its value is `ctx.context`."""
    lifespan: Lifespan | None = None
    """From `context.py`: what it yields is `ctx.state`."""
    around_call: Callable[[Any, Callable[[Any], Awaitable[Any]]], Awaitable[Any]] | None = None
    """From `context.py`: gets each call of a tool, and what goes on with it; returns the result."""
    problems: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    """Which functions of its folder are not offered, because another file imports theirs."""
    withheld: str = ""
    """Why nothing of it is served to anybody; empty: it is."""
    tools: Registry[Tool] = field(default_factory=lambda: Registry("tool", lambda tool: tool.name))
    resources: Registry[Resource] = field(default_factory=lambda: Registry("resource", lambda item: item.uri))
    templates: Registry[ResourceTemplate] = field(
        default_factory=lambda: Registry("template", lambda item: item.uri_template)
    )
    prompts: Registry[Prompt] = field(default_factory=lambda: Registry("prompt", lambda item: item.name))
    skills: Registry[SkillEntry] = field(default_factory=lambda: Registry("skill", lambda item: item.uri))
    tool_figures: ToolFigures = field(default_factory=ToolFigures)
    """How calls of its tools ended, in whatever mode and on whatever way."""
    mode: str = ""
    """The mode it is seen in; empty: as a whole."""
    modes: tuple[str, ...] = ()
    """Those it can be seen in."""

    @property
    def requires_jwt(self) -> bool:
        """Whether nothing of it runs for a caller without a verified token."""
        return self.access.requires_token

    @property
    def token_tools(self) -> list[str]:
        """Names of the tools that run for callers with a token only."""
        return [tool.name for tool in self.tools if tool.requires_jwt]

    @property
    def runs_programs(self) -> bool:
        """Whether any tool can start programs, which makes a key due over TCP."""
        return any(tool.runs_programs for tool in self.tools)

    @property
    def publication(self) -> Publication:
        """How it is described to the world."""
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
        """The same server with other tools; `keep_up` lets it follow."""
        view = Server(self.name, tools=tools, mode=mode)
        view.keep_up(self)
        return view

    def keep_up(self, whole: Server) -> None:
        """Be what another one is, but for the tools and the mode; a mode has no modes itself."""
        for name in self.__struct_fields__:
            if name not in ("tools", "mode", "modes"):
                setattr(self, name, getattr(whole, name))
