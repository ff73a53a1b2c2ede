"""Immutable values that a front end reads from a core. They are safe to pass between threads."""

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
from mcpdesk.server.schemas.validation import SchemaError, compile_schema
from mcpdesk.server.schemas.validation import SchemaFailure as SchemaFailure


class ItemKind(StrEnum):
    """Kinds of catalogue items, in display order."""

    TOOL = "tool"
    RESOURCE = "resource"
    TEMPLATE = "template"
    PROMPT = "prompt"
    SKILL = "skill"


@dataclass(frozen=True, slots=True)
class CatalogueItem:
    """A tool, resource, resource template, prompt or skill of a server, including one that failed to load."""

    kind: ItemKind
    name: str
    """Name of a tool or prompt, URI of a resource, or URI template. Unique within its kind."""
    title: str
    """Display name; never empty."""
    description: str = ""
    source: str = ""
    """`tools/user_profile.py:9`, relative to the server folder, or `built-in`. For an item with a problem,
    the location of the problem."""
    problem: str = ""
    """Reason why the item is unavailable or broken; empty if it works."""
    stale: bool = False
    """True if `problem` concerns the newest file and the previous version is still served."""
    is_fit: bool = False
    """True if the item itself is valid and `problem` names a requirement that is missing."""
    changed: bool = False
    """True if the last reload added or changed the item."""
    policy: Policy = Policy.ALLOW
    """Whether clients may call the tool."""
    policy_origin: str = ""
    """Location of the setting; empty if the policy is the default."""
    needs_token: bool = False
    """True if the item itself requires a token. Its server may require one for every item."""
    scopes: tuple[str, ...] = ()
    """Scopes that the token must have."""
    definition: dict[str, Any] = field(default_factory=dict)
    """Wire object in the newest revision: inputSchema, annotations, arguments ... Do not mutate."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All items of one server, tools first, in serving order."""

    server: str
    version: int
    """Increases with every change; equal versions mean equal catalogues."""
    items: tuple[CatalogueItem, ...]


@dataclass(frozen=True, slots=True)
class GrantView:
    """Approval that lets a peer call a tool without asking again."""

    server: str
    tool: str
    peer: str
    """Identity of the peer with a prefix: `client:` and the name of the client, or `token:`."""
    granted: float
    """Unix time in seconds."""


class Protection(StrEnum):
    """Protection of the HTTP endpoint against unwanted callers."""

    KEY = "key"
    LOOPBACK = "loopback"
    """No key is required, but only this machine can connect and no tool runs programs."""
    OPEN = "open"
    """No key is required, although a tool runs programs or other machines can connect."""
    SOCKET = "socket"
    """The server listens on a Unix socket without a key: only programs of this user can connect."""
    STARTING = "starting"
    """The server does not listen yet."""
    OFFLINE = "offline"
    """The server does not listen for HTTP."""


@dataclass(frozen=True, slots=True)
class ModeView:
    """Named selection of a server's tools. Clients request it with `?mode=NAME` or `--mode NAME`."""

    name: str
    description: str
    tools: tuple[str, ...]
    """Tools that the mode offers now, in manifest order."""
    missing: tuple[tuple[str, str], ...] = ()
    """Other tools that the mode names, each with the reason why it is not offered."""


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """Metadata of an upstream server."""

    place: str
    """Command or URL of the server."""
    state: str
    """`connecting`, `ready`, `failed` or `ended`."""
    steps: tuple[str, ...] = ()
    """Connection attempts so far, each with its result."""
    hint: str = ""
    """Advice on fixing the current problem; may be empty."""
    login: str = ""
    """Owner, expiry and storage location of the token in use; empty without a login."""
    wants_token: bool = False
    """True if there is no login, so a person must provide a token."""
    revision: str = ""
    """Negotiated protocol revision; empty before the negotiation."""
    instructions: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)


class ReplicaState(StrEnum):
    """State of a replica."""

    LIVING = "living"
    SILENT = "silent"
    """The replica does not answer: it hangs or was suspended."""
    ENDED = "ended"
    """The replica shut down normally; its last data stay visible."""
    GONE = "gone"
    """The connection to the replica was lost; its last data stay visible."""
    UNREADABLE = "of another version"
    """The replica runs another version of mcpdesk and cannot be shown."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One of several processes or machines that serve the same servers."""

    name: str
    state: ReplicaState
    servers: tuple[str, ...] = ()
    place: str = ""
    """Address at which clients reach the replica."""
    said: str = ""
    """Reason for the state; empty if the replica is living."""


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server of the desk, hosted or upstream."""

    name: str
    title: str
    version: str
    folder: str
    """Path of the server folder; empty for a server that is not hosted from a folder."""
    url: str
    """`http://127.0.0.1:3333/mcp/profiles`, or `unix:/path` in the fallback; empty while the server does
    not listen."""
    catalogue_version: int
    problems: tuple[str, ...] = ()
    """Problems that belong to no single item, such as an invalid manifest or context.py."""
    helpers: tuple[str, ...] = ()
    """Functions of the folder that are not offered because another file imports them."""
    modes: tuple[ModeView, ...] = ()
    mode: str = ""
    """Mode that applies to every client and to the desk; empty if all tools are offered."""
    wants_token: bool = False
    """True if every request needs a bearer token."""
    token_scopes: tuple[str, ...] = ()
    """Scopes that every token must have."""
    looks_at_tokens: bool = False
    """True if the server evaluates bearer tokens at all."""
    token: TokenView | None = None
    """Token that the desk uses for this server, or None."""
    upstream: UpstreamView | None = None
    """Metadata of an upstream server; None for a hosted server."""
    log_level: str = ""
    """Minimum level of the log messages the desk requests; empty if the server sends none."""
    completes: bool = True
    """True if the server supports argument completion."""
    replicas: tuple[ReplicaView, ...] = ()
    """Replicas that have this server, if several replicas are shown."""

    @property
    def place(self) -> str:
        """Folder, command or URL of the server."""
        return self.folder if self.upstream is None else self.upstream.place

    @property
    def is_started(self) -> bool:
        """True if a client can start the server as a program instead of connecting to a URL."""
        return self.upstream is None or "://" not in self.place


QUIET_S = 60.0
"""Seconds after its last message during which a client without an open connection counts as connected."""


class Presence(StrEnum):
    """Whether a client is connected."""

    CONNECTED = "connected"
    QUIET = "quiet"
    """The session is kept, but no connection is open and no message arrived for `QUIET_S`."""
    LEFT = "left"


class ToolsSeen(StrEnum):
    """Whether the tool list that a client received last is current."""

    NEVER = "never listed"
    FRESH = "fresh"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class SessionView:
    """HTTP session of a revision with a handshake."""

    left_s: float | None
    """Seconds until the session expires if it is not used; None while a call or a stream keeps it alive."""
    streams: int
    """Connections that carry a stream of the session now."""
    has_standing: bool
    """True if one of them is the stream for messages that belong to no request."""
    kept_events: int
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A request that is being processed."""

    method: str
    name: str
    elapsed_s: float
    asks: int = 0
    """Number of questions to the client that are still unanswered."""
    id: Id | None = None
    """Id of the request."""
    where: str = ""
    """Line of the tool's code that is awaited, `tools/slow.py:14 · await fetch(url)`; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Operation that is suspended until its client sends the answers."""

    method: str
    name: str
    asks: tuple[str, ...]
    """Methods of the requests that the client must answer."""


@dataclass(frozen=True, slots=True)
class ClientDetail:
    """Details of one peer that are too large for `ClientView`."""

    capabilities: dict[str, Any]
    session: SessionView | None
    session_ttl_s: float
    listens: tuple[tuple[str, ...], ...]
    """Filter of each listen stream: notifications and URIs."""
    subscribed: tuple[str, ...]
    """URIs with a subscription of their own."""
    hears_changes: bool
    """True if the peer is notified of changed lists because its session is open."""
    running: tuple[RunningCall, ...]
    parked: tuple[Parked, ...]
    has_left: bool = False


@dataclass(frozen=True, slots=True)
class ClientView:
    """A peer that is connected, has a session or left recently.

    `connection` is the recorder's connection number.
    """

    connection: int
    server: str
    name: str
    transport: str
    revision: str
    opened: float
    calls: int
    """Number of tools called, resources read and prompts fetched."""
    errors: int
    """Number of these calls that ended with an error, or with a result that reports one."""
    p50_s: float | None = None
    """Median duration of the latest calls; None before the first call."""
    p95_s: float | None = None
    tools: ToolsSeen = ToolsSeen.NEVER
    mode: str = ""
    """Mode that applies to the client."""
    caller: str = ""
    """Authenticated identity: `key` or `token of ada`; empty if no authentication is required."""
    seen: float | None = None
    """Unix time of the last message; None while a connection is open."""
    left: float | None = None
    """Unix time at which the client left; None if it has not left."""
    running: int = 0
    """Number of requests that are being processed."""
    replica: str = ""
    """Replica that the client is connected to, if several replicas are shown."""
    connections: int = 1
    """Number of connections whose calls the view has, including the current one.

    A client that disconnects and connects again has one view. Of simultaneous connections each has its own
    view; the first one includes the ended connections.
    """

    def presence(self, now: float) -> Presence:
        """Return whether the client is connected; `now` is Unix time in seconds."""
        if self.left is not None:
            return Presence.LEFT
        is_quiet = self.seen is not None and now - self.seen > QUIET_S
        return Presence.QUIET if is_quiet else Presence.CONNECTED

    def falls_quiet(self, now: float) -> bool:
        """Return True if the client becomes quiet unless another message arrives.

        `now` is Unix time in seconds.
        """
        return self.seen is not None and self.presence(now) is Presence.CONNECTED


def presences(clients: Iterable[ClientView], now: float) -> tuple[int, int]:
    """Return the numbers of connected and of quiet clients, without the desk itself."""
    seen = [one.presence(now) for one in clients if one.transport != "memory"]
    return seen.count(Presence.CONNECTED), seen.count(Presence.QUIET)


def connected(clients: Iterable[ClientView], now: float) -> int:
    """Return the number of connected clients, without the desk itself."""
    return presences(clients, now)[0]


class JobKind(StrEnum):
    """Kind of a job."""

    PROGRAM = "program"
    """Command that runs in the background."""
    TASK = "task"
    """MCP task: a call that outlives its request."""
    CALL = "call"
    """Call that was requested as a job; its output is kept."""


class JobState(StrEnum):
    """State of a job."""

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
        """True for a state that a job never leaves."""
        return self not in (JobState.QUEUED, JobState.RUNNING, JobState.WAITING)


class MadeFile(Struct, frozen=True):
    """File that a call produced."""

    name: str
    """Unique within the job."""
    size: int
    """Size in bytes when the job ended."""


class JobView(Struct, frozen=True):
    """Work that outlives its call. Times are Unix seconds."""

    id: str
    """Unique among all jobs of a core."""
    kind: JobKind
    server: str
    name: str
    """Command of a program, or tool of a task or call."""
    peer: str
    """Peer that started the job."""
    state: JobState
    message: str
    """Status message of a task or call, or how a program ended."""
    started: float
    ended: float | None = None
    number: int = 0
    """Number of a program in tool calls and results; 0 for other jobs."""
    pid: int = 0
    size: int = 0
    """Bytes of output when this snapshot was taken."""
    file: str = ""
    """Path of the output file."""
    problem: str = ""
    """Reason why the output file is incomplete; empty if it is complete."""
    made: tuple[MadeFile, ...] = ()
    """Files that a call produced; empty until the call has ended."""
    replica: str = ""
    """Replica that runs the job, if several replicas are shown."""

    @property
    def has_output(self) -> bool:
        """True if the job has readable output."""
        return self.kind is not JobKind.TASK

    def runtime_s(self, now: float) -> float:
        """Return the seconds from the start of the job to its end, or to `now` while it runs."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


class JobUse(Struct, frozen=True):
    """Current resource usage of a program and its descendants."""

    cpu: float | None
    """Average number of busy processors since the previous measurement; None at the first measurement."""
    memory: int
    """Resident memory in bytes."""
    processes: int


class JobOutput(Struct, frozen=True):
    """Part of a job's output."""

    text: str
    start: int
    """Offset of the first byte."""
    end: int
    """Offset of the next part."""
    is_last: bool
    """True if no more output follows."""


OWN_BITS: Final = 32
"""Bits that hold a number within one core. The bits above them identify the core if there are several."""


class CallbackView(Struct, frozen=True):
    """A message that a server sends later, once or repeatedly. Times are Unix seconds."""

    server: str
    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    """Time of the next message; None if the callback is finished or cancelled."""
    peer: str
    """Peer that created the callback."""
    created: float
    last_fired: float | None
    replica: str = ""
    """Replica that keeps the callback, if several replicas are shown."""

    @property
    def own_id(self) -> int:
        """Number of the callback on the core that keeps it."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def is_cancelled(self) -> bool:
        """True if the callback was cancelled before it had fired `repeat_count` times."""
        return self.due is None and self.fired < self.repeat_count


class StepView(Struct, frozen=True):
    """Step of a task. `completed` is Unix time, or None while the step is open."""

    id: int
    text: str
    completed: float | None


class TodoView(Struct, frozen=True):
    """Task of a list that a server keeps for its clients. Times are Unix seconds."""

    server: str
    id: int
    name: str
    created: float
    completed: float | None
    is_current: bool
    steps: tuple[StepView, ...]
    replica: str = ""
    """Replica that keeps the task, if several replicas are shown."""

    @property
    def own_id(self) -> int:
        """Number of the task on the core that keeps it."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def done(self) -> int:
        """Number of completed steps."""
        return sum(step.completed is not None for step in self.steps)


class PlanView(Struct, frozen=True):
    """Active or latest plan of one session. `since` is ISO 8601, `file` an absolute path."""

    server: str
    goal: str
    file: str
    since: str
    is_active: bool
    replica: str = ""
    """Replica that keeps the plan, if several replicas are shown."""
    session: str = ""
    """Key of the session."""
    client: str = ""
    """Display name of the client."""


class WorkView(Struct, frozen=True):
    """Version numbers of the work lists, and the few values that are small enough to be included.

    Each version increases with every change of its list.
    """

    jobs_version: int = 0
    running_jobs: int = 0
    callbacks_version: int = 0
    next_callback: float | None = None
    """Unix time of the next callback; None if no callback is scheduled."""
    todo_version: int = 0
    plans: tuple[PlanView, ...] = ()

    @property
    def is_planning(self) -> bool:
        """True if any session is in plan mode, so that some of its tools are withheld."""
        return any(plan.is_active for plan in self.plans)


@dataclass(frozen=True, slots=True)
class CoreView:
    """Snapshot of a core, without the large lists."""

    servers: tuple[ServerView, ...]
    clients: tuple[ClientView, ...]
    protection: Protection
    api_key: str = ""
    """API key in clear text; a front end must mask it."""
    api_key_header: str = "X-API-Key"
    capture_path: str = ""
    capture_failing: str = ""
    """Reason why frames cannot be written to the capture now; empty if they can."""
    capture_grows: bool = False
    """True if another process is writing the capture that is shown."""
    can_hold: bool = False
    """True if messages can be held although no server is hosted, because they pass a tap."""
    stuck: Stuck | None = None
    questions_version: int = 0
    """Increases when a question arrives or ends."""
    roots: tuple[str, ...] = ()
    """URIs of the folders that the desk offers to upstream servers as its roots."""
    work: WorkView = field(default_factory=WorkView)
    """State of background work: jobs, callbacks, task lists and plans."""
    gone: str = ""
    """Reason why a core in another process is no longer reachable; the view is its last state. Empty while
    it is reachable."""
    silent_s: int = 0
    """Seconds since a core in another process last answered; 0 while it answers."""
    replicas: tuple[ReplicaView, ...] = ()
    """Replicas that this view combines, by name; empty if there is only one core."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Latest progress of a running call."""

    progress: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """Result of a call: exactly one of `result` and `error` is set.

    `error` is a JSON-RPC error object. A cancelled call has an error that reports the cancellation.
    """

    result: dict[str, Any] | None
    error: dict[str, Any] | None
    raw: bytes
    """Response frame as received; empty if no response arrived."""
    elapsed_s: float
    cancelled: bool = False


def schema_failures(schema: dict[str, Any], value: Any, limit: int) -> list[SchemaFailure]:
    """Return up to `limit` errors of a value; none if it is valid or the schema cannot be used."""
    try:
        return compile_schema(schema).failures(value, limit)
    except SchemaError:
        return []
