"""Immutable values that a front end reads from a core. Any thread may use these values."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, field

from mcpdesk.client.untrusted_file import UntrustedFile as UntrustedFile
from mcpdesk.hosting.core_loop.heartbeat import Stuck as Stuck
from mcpdesk.hosting.held_token import TokenView as TokenView
from mcpdesk.hosting.journal import LogLine as LogLine
from mcpdesk.hosting.journal import Notice as Notice
from mcpdesk.hosting.journal import Severity as Severity
from mcpdesk.hosting.setting_views import SettingView as SettingView
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.masking import mask_text
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


class CatalogueItem(Struct, frozen=True):
    """Tool, resource, resource template, prompt or skill of a server. It may have failed to load."""

    kind: ItemKind
    name: str
    """Name of a tool or prompt, or URI of a resource, or URI template. Unique within its kind."""
    title: str
    """Display name; never empty."""
    description: str = ""
    source: str = ""
    """Source line such as `tools/user_profile.py:9`, or `built-in`. For a broken item, the line of the
    problem.
    """
    problem: str = ""
    """Reason why the item is unavailable or broken, or "" if it works."""
    stale: bool = False
    """True if the previous version is still served because the newest file has the `problem`."""
    is_fit: bool = False
    """True if the item itself is valid, and `problem` reports a missing requirement."""
    changed: bool = False
    """True if the last reload added or changed the item."""
    policy: Policy = Policy.ALLOW
    """Policy that decides whether clients may call the tool."""
    policy_origin: str = ""
    """Location of the setting with the policy. Empty for the default policy."""
    needs_token: bool = False
    """True if this item requires a token, in addition to any requirement of its server."""
    scopes: tuple[str, ...] = ()
    """Scopes that the token must have."""
    definition: dict[str, Any] = field(default_factory=dict)
    """Wire object in the newest revision: inputSchema, annotations, arguments and so on. Do not change it."""


class Catalogue(Struct, frozen=True):
    """All items of one server, tools first, in the order of its lists."""

    server: str
    version: int
    """Number that increases with every change. Equal versions mean equal catalogues."""
    items: tuple[CatalogueItem, ...]


class GrantView(Struct, frozen=True):
    """Approval that lets a peer call a tool without asking again."""

    server: str
    tool: str
    peer: str
    """Identity of the peer: `client:` and the name of the client, or `token:` and the subject."""
    granted: float
    """Unix time in seconds."""


class Protection(StrEnum):
    """Protection of the HTTP address against unwanted callers."""

    KEY = "key"
    LOOPBACK = "loopback"
    """No key is required. Only this machine can connect, and no tool runs programs."""
    OPEN = "open"
    """No key is required, but a tool runs programs or other machines can connect."""
    SOCKET = "socket"
    """The server listens on a Unix socket without a key. Only programs of this user can connect."""
    STARTING = "starting"
    """The server does not listen yet."""
    OFFLINE = "offline"
    """The server does not listen for HTTP."""


class ModeView(Struct, frozen=True):
    """Named selection of a server's tools. A client requests it with `?mode=NAME` or `--mode NAME`."""

    name: str
    description: str
    tools: tuple[str, ...]
    """Tools that the mode offers now, in the order of the manifest."""
    missing: tuple[tuple[str, str], ...] = ()
    """Tools that the mode names but does not offer, each with the reason."""


class UpstreamView(Struct, frozen=True):
    """Metadata of an upstream server."""

    location: str
    """Command or URL of the server."""
    state: str
    """`connecting`, `ready`, `failed`, `ended` or `disabled`."""
    steps: tuple[str, ...] = ()
    """Connection attempts so far, each with its result."""
    hint: str = ""
    """Advice on how to fix the current problem, or empty."""
    login: str = ""
    """Owner, expiry and storage location of the token in use. Empty without a login."""
    wants_token: bool = False
    """True if a person must provide a token, because there is no login."""
    revision: str = ""
    """Negotiated protocol revision, or "" before the negotiation."""
    instructions: str = ""
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def shown_location(self) -> str:
        """`location` with secrets masked."""
        return mask_text(self.location)

    @property
    def scheme(self) -> str:
        """Scheme of the URL, such as `https`. Empty for a program, which may have URLs in its arguments."""
        scheme, separator, _ = self.location.partition("://")
        return scheme if separator and scheme.isalnum() else ""


class ShownCoreState(StrEnum):
    """State of a core."""

    LIVING = "living"
    SILENT = "silent"
    """The core does not answer: it hangs or is suspended."""
    ENDED = "ended"
    """The core shut down normally. Its last data stay visible."""
    GONE = "gone"
    """The connection to the core was lost. Its last data stay visible."""
    UNREADABLE = "of another version"
    """The core runs another version of mcpdesk, so it cannot be shown."""


class ShownCore(Struct, frozen=True):
    """One of several processes or machines with the same servers."""

    name: str
    state: ShownCoreState
    servers: tuple[str, ...] = ()
    address: str = ""
    """Address at which clients reach the core."""
    reason: str = ""
    """Reason for the state, or "" while the core is alive."""


class ServerOffer(Struct, frozen=True):
    """Server on this machine that can be added. All texts may contain unsafe characters."""

    target: str
    """Text for `add_server`, or "" if the server cannot be added."""
    title: str
    note: str = ""
    """Transport and address, or kind of file. Contains no secrets."""
    problem: str = ""
    """Reason why the server or its file cannot be used, or "" if it can be tried."""
    runs_code: bool = False
    """True if adding it runs code of the working folder without a question about trust in a file."""


class ServerView(Struct, frozen=True):
    """A server of the desk, hosted or upstream."""

    name: str
    title: str
    version: str
    folder: str
    """Path of the server folder. Empty for an upstream server."""
    url: str
    """`http://127.0.0.1:3333/mcp/profiles`, or `unix:/path` on a socket, or "" while the server does not
    listen.
    """
    catalogue_version: int
    problems: tuple[str, ...] = ()
    """Problems that do not concern a particular item, such as an invalid manifest or context.py."""
    helpers: tuple[str, ...] = ()
    """Functions that are not offered because another file imports them."""
    modes: tuple[ModeView, ...] = ()
    mode: str = ""
    """Mode that all clients and the desk use, or "" if all tools are offered."""
    wants_token: bool = False
    """True if every request needs a bearer token."""
    token_scopes: tuple[str, ...] = ()
    """Scopes that every token must have."""
    checks_tokens: bool = False
    """True if the server checks bearer tokens."""
    token: TokenView | None = None
    """Token that the desk uses for the server, or None."""
    upstream: UpstreamView | None = None
    """Metadata of an upstream server. None for a hosted server."""
    log_level: str = ""
    """Lowest level of log messages that the desk requests, or "" if the server sends none."""
    has_completion: bool = True
    """True if the server supports argument completion."""
    cores: tuple[ShownCore, ...] = ()
    """Cores with this server, if several cores are shown."""

    @property
    def location(self) -> str:
        """Folder, command or URL of the server."""
        return self.folder if self.upstream is None else self.upstream.location

    @property
    def shown_location(self) -> str:
        """`location` with secrets masked. Commands and URLs may contain keys and passwords."""
        return self.folder if self.upstream is None else self.upstream.shown_location

    @property
    def is_started(self) -> bool:
        """True if clients can start the server as a program instead of using a URL."""
        return self.upstream is None or not self.upstream.scheme


QUIET_S = 60.0
"""Seconds for which a client without an open connection counts as connected after its last message."""


class Presence(StrEnum):
    """Connection state of a client."""

    CONNECTED = "connected"
    QUIET = "quiet"
    """The session exists, but no connection is open and no message arrived for `QUIET_S` seconds."""
    LEFT = "left"


class ToolsSeen(StrEnum):
    """State of the tool list that a client received last."""

    NEVER = "never listed"
    FRESH = "fresh"
    STALE = "stale"


class SessionView(Struct, frozen=True):
    """HTTP session in a revision with a handshake."""

    expires_in_s: float | None
    """Seconds until an unused session expires, or None while a call or a stream keeps it alive."""
    streams: int
    """Number of connections that carry a stream of the session at present."""
    has_get_stream: bool
    """True if the stream for messages that belong to no request is open. A GET request opens it."""
    kept_events: int
    kept_bytes: int


class RunningCall(Struct, frozen=True):
    """Request that is being handled."""

    method: str
    name: str
    elapsed_s: float
    asks: int = 0
    """Number of unanswered questions to the client."""
    id: Id | None = None
    """Id of the request."""
    where: str = ""
    """Source line that the tool awaits: `tools/slow.py:14 · await fetch(url)`, or "" if unknown."""
    started: float = 0.0
    """Start on the monotonic clock of the core. It distinguishes calls that use the same id one by one."""


class ParkedOperation(Struct, frozen=True):
    """Operation that waits until its client sends answers."""

    method: str
    name: str
    asks: tuple[str, ...]
    """Methods of the requests that the client must answer."""


class ClientDetail(Struct, frozen=True):
    """Details of a client that are too large for `ClientView`."""

    capabilities: dict[str, Any]
    session: SessionView | None
    session_ttl_s: float
    listens: tuple[tuple[str, ...], ...]
    """Filter of each listen stream: notifications and URIs."""
    subscribed: tuple[str, ...]
    """URIs that the client subscribed to separately."""
    receives_list_changes: bool
    """True if the client is notified of changed lists, because its session is open."""
    running: tuple[RunningCall, ...]
    parked: tuple[ParkedOperation, ...]
    has_left: bool = False


class ClientView(Struct, frozen=True):
    """Client that is connected, has a session, or left recently.

    `connection` is the recorder's connection number.
    """

    connection: int
    server: str
    name: str
    transport: str
    revision: str
    opened: float
    calls: int
    """Number of calls: tools called, resources read and prompts fetched."""
    errors: int
    """Number of calls that ended with a protocol error or a tool error."""
    p50_s: float | None = None
    """Median duration of the latest calls, or None before the first call."""
    p95_s: float | None = None
    tools: ToolsSeen = ToolsSeen.NEVER
    mode: str = ""
    """Mode that the client uses."""
    caller: str = ""
    """Authenticated identity: `key` or `token of ada`, or "" if authentication is not required."""
    seen: float | None = None
    """Unix time of the last message, or None while a connection is open."""
    left: float | None = None
    """Unix time when the client left, or None if it has not left."""
    running: int = 0
    """Number of requests that are being handled."""
    core: str = ""
    """Core that the client is connected to, if several cores are shown."""
    connections: int = 1
    """Number of connections whose calls are counted, including the current connection.

    A client that connects again keeps its view. If a client has several connections at once, each has a view,
    and the first view counts the ended connections as well.
    """

    def presence(self, now: float) -> Presence:
        """Return the connection state. `now` is Unix time in seconds."""
        if self.left is not None:
            return Presence.LEFT
        is_quiet = self.seen is not None and now - self.seen > QUIET_S
        return Presence.QUIET if is_quiet else Presence.CONNECTED

    def will_be_quiet(self, now: float) -> bool:
        """Return True if the client will become quiet unless it sends a message. `now` is Unix time."""
        return self.seen is not None and self.presence(now) is Presence.CONNECTED


def presences(clients: Iterable[ClientView], now: float) -> tuple[int, int]:
    """Return the number of connected clients and of quiet clients. The desk is not counted."""
    states = [client.presence(now) for client in clients if client.transport != "memory"]
    return states.count(Presence.CONNECTED), states.count(Presence.QUIET)


def connected(clients: Iterable[ClientView], now: float) -> int:
    """Return the number of connected clients. The desk is not counted."""
    return presences(clients, now)[0]


class JobKind(StrEnum):
    """Kind of a job."""

    PROGRAM = "program"
    """Command that runs in the background."""
    TASK = "task"
    """MCP task, which is a call that continues after its request."""
    CALL = "call"
    """Call that was requested as a job. Its output is stored."""


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
    """The job is cancelled, but its code still runs."""

    @property
    def is_final(self) -> bool:
        """True if a job in this state has ended."""
        return self not in (JobState.QUEUED, JobState.RUNNING, JobState.WAITING)


class CallFile(Struct, frozen=True):
    """File that a call produced."""

    name: str
    """Name of the file, unique within the job."""
    size: int
    """Size in bytes when the job ended."""


class JobView(Struct, frozen=True):
    """Work that continues after its call. Times are Unix seconds."""

    id: str
    """Id that is unique among all jobs of a core."""
    kind: JobKind
    server: str
    name: str
    """Command of a program, or name of the tool."""
    peer: str
    """Peer that started the job."""
    state: JobState
    message: str
    """Status message of a task or call, or the way a program ended."""
    started: float
    ended: float | None = None
    number: int = 0
    """Number of a program, which tools use. 0 for other jobs."""
    pid: int = 0
    size: int = 0
    """Size of the output in bytes at the time of this snapshot."""
    file: str = ""
    """Path of the output file."""
    problem: str = ""
    """Reason why the output file is incomplete, or "" if it is complete."""
    produced_files: tuple[CallFile, ...] = ()
    """Files that a call produced, or an empty tuple until it has ended."""
    core: str = ""
    """Core that runs the job, if several cores are shown."""

    @property
    def has_output(self) -> bool:
        """True if the job has readable output."""
        return self.kind is not JobKind.TASK

    def runtime_s(self, now: float) -> float:
        """Return the seconds from the start of the job to its end, or to `now` while it runs."""
        return max(0.0, (now if self.ended is None else self.ended) - self.started)


class JobUse(Struct, frozen=True):
    """Present resource usage of a program and its descendants."""

    cpu: float | None
    """Average number of busy processors since the previous measurement. None at the first measurement."""
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
    """True if no output follows."""


OWN_BITS: Final = 32
"""Number of bits for a number within one core. The bits above them identify the core."""


class CallbackView(Struct, frozen=True):
    """Message that a server will send later, once or repeatedly. Times are Unix seconds."""

    server: str
    id: int
    message: str
    delay_s: float
    repeat_count: int
    fired: int
    due: float | None
    """Time of the next message, or None if the callback has ended or was cancelled."""
    peer: str
    """Peer that created the callback."""
    created: float
    last_fired: float | None
    core: str = ""
    """Core that stores the callback, if several cores are shown."""

    @property
    def own_id(self) -> int:
        """Number of the callback at its core."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def is_cancelled(self) -> bool:
        """True if the callback was cancelled before it fired `repeat_count` times."""
        return self.due is None and self.fired < self.repeat_count


class StepView(Struct, frozen=True):
    """Step of a task. `completed` is Unix time. None while the step is open."""

    id: int
    text: str
    completed: float | None


class TodoView(Struct, frozen=True):
    """Task in a list that a server stores for its clients. Times are Unix seconds."""

    server: str
    id: int
    name: str
    created: float
    completed: float | None
    is_current: bool
    steps: tuple[StepView, ...]
    core: str = ""
    """Core that stores the task, if several cores are shown."""

    @property
    def own_id(self) -> int:
        """Number of the task at its core."""
        return self.id & ((1 << OWN_BITS) - 1)

    @property
    def done(self) -> int:
        """Number of completed steps."""
        return sum(step.completed is not None for step in self.steps)


class PlanView(Struct, frozen=True):
    """Active or latest plan of a session. `since` is in ISO 8601 format, `file` is an absolute path."""

    server: str
    goal: str
    file: str
    since: str
    is_active: bool
    core: str = ""
    """Core that stores the plan, if several cores are shown."""
    session: str = ""
    """Key of the session."""
    client: str = ""
    """Display name of the client."""


class WorkView(Struct, frozen=True):
    """Versions of the work lists, and values that are small enough to be included.

    A version increases with every change of its list.
    """

    jobs_version: int = 0
    running_jobs: int = 0
    callbacks_version: int = 0
    next_callback: float | None = None
    """Unix time of the next callback, or None if none is scheduled."""
    todo_version: int = 0
    plans: tuple[PlanView, ...] = ()

    @property
    def is_planning(self) -> bool:
        """True if a session is in plan mode, in which some of its tools are withheld."""
        return any(plan.is_active for plan in self.plans)


class CoreView(Struct, frozen=True):
    """Snapshot of a core, without the large lists."""

    servers: tuple[ServerView, ...]
    clients: tuple[ClientView, ...]
    protection: Protection
    api_key: str = ""
    """API key in clear text. A front end must mask it."""
    api_key_header: str = "X-API-Key"
    capture_path: str = ""
    capture_failing: str = ""
    """Reason why frames cannot be written to the capture, or "" if they can."""
    capture_grows: bool = False
    """True if another process still writes the capture that is shown."""
    can_intercept: bool = False
    """True if messages can be intercepted although no server is hosted, because the link is to a tap."""
    stuck: Stuck | None = None
    questions_version: int = 0
    """Number that increases when a question arrives or ends."""
    is_loading: bool = False
    """True until the core has read its folders, before which it has no servers."""
    roots: tuple[str, ...] = ()
    """URIs of the folders that the desk offers to upstream servers as its roots."""
    work: WorkView = field(default_factory=WorkView)
    """State of background work: jobs, callbacks, task lists and plans."""
    gone: str = ""
    """Reason why a core in another process cannot be reached, or "" if it can be reached.

    If it cannot be reached, this view has the last known state.
    """
    silent_s: int = 0
    """Seconds since a core in another process last answered. 0 while it answers."""
    cores: tuple[ShownCore, ...] = ()
    """Cores in this view, by name, or an empty tuple if there is only one core."""


class Progress(Struct, frozen=True):
    """Latest progress of a running call."""

    progress: float
    total: float | None = None
    message: str = ""


class CallOutcome(Struct, frozen=True):
    """Result of a call. Exactly one of `result` and `error` is set.

    `error` is a JSON-RPC error object. If the call was cancelled, the error reports this.
    """

    result: dict[str, Any] | None
    error: dict[str, Any] | None
    raw: bytes
    """Response frame as received, or no bytes if no response arrived."""
    elapsed_s: float
    cancelled: bool = False


def schema_failures(schema: dict[str, Any], value: Any, limit: int) -> list[SchemaFailure]:
    """Return up to `limit` violations of a schema, or an empty list if the schema itself is invalid."""
    try:
        return compile_schema(schema).failures(value, limit)
    except SchemaError:
        return []
