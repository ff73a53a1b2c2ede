"""What a front end sees of a core: frozen values, safe to hand between threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from mcpdesk.client.trust import UntrustedFile as UntrustedFile
from mcpdesk.hosting.heartbeat import Stuck as Stuck
from mcpdesk.hosting.held_token import TokenView as TokenView
from mcpdesk.hosting.holding.held_message import CannedCall as CannedCall
from mcpdesk.hosting.holding.held_message import HeldMessage as HeldMessage
from mcpdesk.hosting.holding.held_message import HoldView as HoldView
from mcpdesk.hosting.holding.held_message import Verdict as Verdict
from mcpdesk.hosting.holding.held_message import Ways as Ways
from mcpdesk.hosting.journal import LogLine as LogLine
from mcpdesk.hosting.journal import Notice as Notice
from mcpdesk.hosting.journal import Severity as Severity
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.server.asks.approval_policies import Policy as Policy
from mcpdesk.server.schemas.validation import SchemaFailure as SchemaFailure


class ItemKind(StrEnum):
    """The shelves of the catalogue, in the order they are shown."""

    TOOL = "tool"
    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"
    SKILL = "skill"


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """One thing a server offers, or would offer were it not broken."""

    kind: ItemKind
    name: str
    """A tool's or prompt's name; a resource's URI; a template's URI template. Unique within its kind."""
    title: str
    """What to display; never empty."""
    description: str = ""
    source: str = ""
    """`tools/user_profile.py:9`, relative to the server folder; `built-in` for the thirteen. Of one with a
    problem it is the place of that."""
    problem: str = ""
    """Why it is unavailable or broken; empty when it works."""
    stale: bool = False
    """True when `problem` concerns the newest file and the previous version still serves."""
    is_fit: bool = False
    """True when nothing is wrong with it, and `problem` says what it needs that is not there."""
    changed: bool = False
    """True when the last reload added or altered it."""
    policy: Policy = Policy.ALLOW
    """Of a tool: whether clients may call it."""
    policy_origin: str = ""
    """Where that was said; empty: nowhere."""
    needs_token: bool = False
    """Whether it asks for a token itself; its server may ask for one for everything."""
    scopes: tuple[str, ...] = ()
    """What that token has to allow."""
    definition: dict[str, Any] = field(default_factory=dict)
    """The wire object in the newest revision: inputSchema, annotations, arguments ... Do not mutate."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All items of one server, tools first, in serving order."""

    server: str
    version: int
    """Grows with every change; equal versions mean equal catalogues."""
    items: tuple[CatalogueItem, ...]


@dataclass(frozen=True, slots=True)
class GrantView:
    """A peer that may call a tool without being approved again."""

    server: str
    tool: str
    peer: str
    """With what it is known by before the colon: `client:` and its own name, or `token:`."""
    granted: float
    """Unix time in seconds."""


class Protection(StrEnum):
    """Who may call over TCP."""

    KEY = "key"
    LOOPBACK = "loopback"
    """Callers need no key, but only this machine can reach it and no tool runs programs."""
    OPEN = "open"
    """Callers need no key, although a tool runs programs or other machines can reach it."""
    STARTING = "starting"
    """Nothing listens yet."""
    OFFLINE = "offline"
    """Nothing listens on TCP."""


@dataclass(frozen=True, slots=True)
class ModeView:
    """A selection of a server's tools, which clients ask for with `?mode=NAME` or `--mode NAME`."""

    name: str
    description: str
    tools: tuple[str, ...]
    """What it offers now, in the order the manifest has it."""
    missing: tuple[tuple[str, str], ...] = ()
    """What else it names, and why that is not offered."""


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """What is known of a server that runs elsewhere, or as a program of its own."""

    place: str
    """Its command or URL."""
    state: str
    """`connecting`, `ready`, `failed` or `ended`."""
    steps: tuple[str, ...] = ()
    """What was tried to connect to it, and what came of each."""
    hint: str = ""
    """What to do about what is wrong."""
    login: str = ""
    """Whose token is used, until when, and where it is kept; empty without a login."""
    wants_token: bool = False
    """True if it has no login: a person has to give a token."""
    revision: str = ""
    """The one agreed upon; empty before that."""
    instructions: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)


class ReplicaState(StrEnum):
    """How a replica stands."""

    LIVING = "living"
    SILENT = "silent"
    """It does not answer: it hangs, or was stopped."""
    ENDED = "ended"
    """It was asked to end and did; what was seen of it stays."""
    GONE = "gone"
    """It was lost: nothing was heard of it; what was seen of it stays."""
    UNREADABLE = "of another version"
    """It lives, and cannot be shown."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One of several machines, or processes, that serve the same."""

    name: str
    state: ReplicaState
    servers: tuple[str, ...] = ()
    place: str = ""
    """Where clients reach it."""
    said: str = ""
    """Why it is not simply living; empty when it is."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """One server of the desk."""

    name: str
    title: str
    version: str
    folder: str
    """Empty for a server that is not hosted from a folder."""
    url: str
    """`http://127.0.0.1:3333/mcp/profiles`, or `unix:/path` in the fallback; empty while nothing listens."""
    catalogue_version: int
    problems: tuple[str, ...] = ()
    """Trouble that belongs to no single item: manifest, context.py."""
    helpers: tuple[str, ...] = ()
    """Which functions of its folder are not offered, because another file imports theirs."""
    modes: tuple[ModeView, ...] = ()
    mode: str = ""
    """The mode everybody sees it in, the desk too; empty: as a whole."""
    wants_token: bool = False
    """Whether nothing of it is served without a bearer token."""
    token_scopes: tuple[str, ...] = ()
    """What every token has to allow."""
    looks_at_tokens: bool = False
    """Whether any token counts here."""
    token: TokenView | None = None
    """Whose token the desk was given for it."""
    upstream: UpstreamView | None = None
    """None for a server that is hosted here."""
    log_level: str = ""
    """The least severe log messages the desk asks it for; empty: it sends none."""
    completes: bool = True
    """Whether it may be asked what an argument could be completed with."""
    replicas: tuple[ReplicaView, ...] = ()
    """Of several machines, those that have it."""

    @property
    def place(self) -> str:
        """Its folder, its command or its URL."""
        return self.folder if self.upstream is None else self.upstream.place

    @property
    def is_started(self) -> bool:
        """Whether a client can start it, rather than only reach its URL."""
        return self.upstream is None or "://" not in self.place


QUIET_S = 60.0
"""A client without an open connection counts as connected so long after it was last heard of."""


class Presence(StrEnum):
    """Whether a client is there."""

    CONNECTED = "connected"
    QUIET = "quiet"
    """Its session is kept, but no connection of it is open and it was not heard of for `QUIET_S`."""
    LEFT = "left"


class ToolsSeen(StrEnum):
    """Whether a client knows the tools as they are now."""

    NEVER = "never listed"
    FRESH = "fresh"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class SessionView:
    """An HTTP session of the handshake era."""

    left_s: float | None
    """Seconds until it ends unless it is used; None while a call or a stream keeps it."""
    streams: int
    """Connections that carry a stream of it now."""
    has_standing: bool
    """Whether one of them is the stream for messages that belong to no request."""
    kept_events: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A request that is being answered."""

    method: str
    name: str
    elapsed_s: float
    asks: int = 0
    """Questions it waits for the client to answer."""
    id: Id | None = None
    """That of its request."""
    where: str = ""
    """The author's line it awaits, `tools/slow.py:14 · await fetch(url)`; empty where none is known."""


@dataclass(frozen=True, slots=True)
class Parked:
    """An operation that waits for its client to come back with answers."""

    method: str
    name: str
    asks: tuple[str, ...]
    """Methods of what was asked."""


@dataclass(frozen=True, slots=True)
class ClientDetail:
    """What is known of one peer besides its line."""

    capabilities: dict[str, Any]
    session: SessionView | None
    session_ttl_s: float
    listens: tuple[tuple[str, ...], ...]
    """The filter of each listen stream: notifications and URIs."""
    subscribed: tuple[str, ...]
    """URIs it subscribed to one by one."""
    hears_changes: bool
    """Whether it is told of changed lists because its session is open."""
    running: tuple[RunningCall, ...]
    parked: tuple[Parked, ...]
    has_left: bool = False


@dataclass(frozen=True, slots=True)
class ClientView:
    """A peer that is connected, has a session, or left lately. Ids are the recorder's of connections."""

    connection: int
    server: str
    name: str
    transport: str
    revision: str
    opened: float
    calls: int
    """Tools it called, resources it read, prompts it fetched."""
    errors: int
    """Those of them that were answered with an error, or with a result that says so."""
    p50_s: float | None = None
    """Of its latest calls; None before the first."""
    p95_s: float | None = None
    tools: ToolsSeen = ToolsSeen.NEVER
    mode: str = ""
    """The mode in which it sees the server."""
    caller: str = ""
    """What it proved to be: `key`, `token of ada`; empty: nothing was asked for."""
    seen: float | None = None
    """Unix time at which it was last heard of; None while a connection of it is open."""
    left: float | None = None
    """Unix time at which it left; None while it did not."""
    running: int = 0
    """Requests of it that are being answered."""
    replica: str = ""
    """Of several machines, the one it is connected to."""

    def presence(self, now: float) -> Presence:
        """Whether it is there; `now` is Unix time in seconds."""
        if self.left is not None:
            return Presence.LEFT
        is_quiet = self.seen is not None and now - self.seen > QUIET_S
        return Presence.QUIET if is_quiet else Presence.CONNECTED

    def falls_quiet(self, now: float) -> bool:
        """True if it will count as quiet unless it is heard of again; `now` is Unix time in seconds."""
        return self.seen is not None and self.presence(now) is Presence.CONNECTED


def presences(clients: Iterable[ClientView], now: float) -> tuple[int, int]:
    """How many clients are connected, and how many are quiet, the desk itself not counted."""
    seen = [one.presence(now) for one in clients if one.transport != "memory"]
    return seen.count(Presence.CONNECTED), seen.count(Presence.QUIET)


def connected(clients: Iterable[ClientView], now: float) -> int:
    """How many clients are connected, the desk itself not counted."""
    return presences(clients, now)[0]


class JobKind(StrEnum):
    """What kind of work a job is."""

    PROGRAM = "program"
    """A command in the background."""
    TASK = "task"
    """A call that outlives its request, as the protocol has them."""
    CALL = "call"
    """A call that was asked for as a job, whose output is kept."""


class JobState(StrEnum):
    """How a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "needs input"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    CANCELLED = "cancelled"
    LEFT = "stopped waiting"
    """Cancelled, and its code still runs."""

    @property
    def is_final(self) -> bool:
        """Whether nothing comes after it."""
        return self not in (JobState.QUEUED, JobState.RUNNING, JobState.WAITING)


class MadeFile(Struct, frozen=True):
    """A file a call produced."""

    name: str
    """Unique among those of its job."""
    size: int
    """Bytes, when the job ended."""


class JobView(Struct, frozen=True):
    """One piece of work that outlives its call. Times are Unix seconds."""

    id: str
    """Unique among all jobs of a core."""
    kind: JobKind
    server: str
    name: str
    """The command of a program, the tool of a task."""
    peer: str
    """Who began it."""
    state: JobState
    message: str
    """What a task or call is at; how a program ended."""
    started: float
    ended: float | None = None
    number: int = 0
    """What the tools call a program; 0 for others."""
    pid: int = 0
    size: int = 0
    """Bytes of output when this was looked at."""
    file: str = ""
    """Where the output is."""
    problem: str = ""
    """Why that file is not whole; empty when it is."""
    made: tuple[MadeFile, ...] = ()
    """What a call produced, known once it is over."""
    replica: str = ""
    """Of several machines, the one that does the work."""

    @property
    def has_output(self) -> bool:
        """Whether what it writes can be read."""
        return self.kind is not JobKind.TASK

    def runtime_s(self, now: float) -> float:
        """Seconds from its start to its end, or to `now`."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


class JobUse(Struct, frozen=True):
    """What a program and everything it started use now."""

    cpu: float | None
    """Processors kept busy since the last look, 1.0 is one of them; None at the first look."""
    memory: int
    """Bytes resident."""
    processes: int


class JobOutput(Struct, frozen=True):
    """A piece of a program's output."""

    text: str
    start: int
    """Bytes that come before it."""
    end: int
    """Where the next piece begins."""
    is_last: bool
    """Whether nothing more will come."""


OWN_BITS: Final = 32
"""Bits of the numbers of one core; above them is which core it is, where there are several."""


class CallbackView(Struct, frozen=True):
    """A message of a server that comes back. Times are Unix seconds."""

    server: str
    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    """None once it is over."""
    peer: str
    """Who set it."""
    created: float
    last_fired: float | None
    replica: str = ""
    """Of several machines, the one that keeps it."""

    @property
    def own_id(self) -> int:
        """Its number on the core that keeps it."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def is_cancelled(self) -> bool:
        """Whether it is over before it fired as often as it was to."""
        return self.due is None and self.fired < self.repeat_count


class StepView(Struct, frozen=True):
    """A part of a task. `completed` is Unix time, None while it is open."""

    id: int
    text: str
    completed: float | None


class TodoView(Struct, frozen=True):
    """A task of the lists a server keeps for its clients. Times are Unix seconds."""

    server: str
    id: int
    name: str
    created: float
    completed: float | None
    is_current: bool
    steps: tuple[StepView, ...]
    replica: str = ""
    """Of several machines, the one that keeps it."""

    @property
    def own_id(self) -> int:
        """Its number on the core that keeps it."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def done(self) -> int:
        """How many steps are completed."""
        return sum(step.completed is not None for step in self.steps)


class PlanView(Struct, frozen=True):
    """Plan of one session, active or the last one. `since` is ISO 8601, `file` an absolute path."""

    server: str
    goal: str
    file: str
    since: str
    is_active: bool
    replica: str = ""
    """Of several machines, the one whose plan it is."""
    session: str = ""
    """Key of its session."""
    client: str = ""
    """Display name of the client."""


class WorkView(Struct, frozen=True):
    """Versions, each of which grows with every change of its list, and what is small enough to be here."""

    jobs_version: int = 0
    running_jobs: int = 0
    callbacks_version: int = 0
    next_callback: float | None = None
    """Unix time."""
    todo_version: int = 0
    plans: tuple[PlanView, ...] = ()

    @property
    def is_planning(self) -> bool:
        """Whether tools of some server are held back until its plan is made."""
        return any(plan.is_active for plan in self.plans)


@dataclass(frozen=True, slots=True)
class CoreView:
    """Everything small about a core, at one moment."""

    servers: tuple[ServerView, ...]
    clients: tuple[ClientView, ...]
    protection: Protection
    api_key: str = ""
    """Masked by whoever shows it."""
    api_key_header: str = "X-API-Key"
    capture_path: str = ""
    capture_failing: str = ""
    """Why frames cannot be written to the capture at present; empty when they can."""
    capture_grows: bool = False
    """Whether a capture from disk is being written by another process."""
    can_hold: bool = False
    """Whether messages can be held although no server is there: those that pass a tap."""
    stuck: Stuck | None = None
    questions_version: int = 0
    """Grows when a question arrives or ends."""
    roots: tuple[str, ...] = ()
    """The URIs of the folders that the desk names to servers elsewhere as its roots."""
    work: WorkView = field(default_factory=WorkView)
    """What servers do on their own."""
    gone: str = ""
    """Why this is what was seen last of a core in another process; empty while it is there."""
    silent_s: int = 0
    """For how many seconds a core in another process has not answered; 0 while it answers."""
    replicas: tuple[ReplicaView, ...] = ()
    """Those of which this is the view, if it is one of several; by name."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The latest progress of a running call."""

    progress: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended: exactly one of `result` and `error` is set.

    `error` is a JSON-RPC error object. `cancelled` outcomes carry an error that says so.
    """

    result: dict[str, Any] | None
    error: dict[str, Any] | None
    raw: bytes
    """The response frame, as received; empty when none came."""
    elapsed_s: float
    cancelled: bool = False
