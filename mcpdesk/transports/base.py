"""Interfaces between the transports and the core.

A transport moves frames and records them. It parses a message only as far as its transport protocol
requires.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from mcpdesk.auth.principal import OPEN, Principal
from mcpdesk.errors import TransportError
from mcpdesk.protocol.outlet import Answer, Outlet
from mcpdesk.recorder.record import CaptureHealth, ExchangeHolds, ExchangeWatch, HttpNote, Recorder

if TYPE_CHECKING:
    from pathlib import Path

    from mcpdesk.auth.operator import Operator
    from mcpdesk.auth.principal import Access
    from mcpdesk.protocol.catalogue.publication import Publication
    from mcpdesk.protocol.event_store import Carrier, EventPlace, Heard, Resumable, ResumableStream
    from mcpdesk.protocol.handshake import SessionState
    from mcpdesk.transports.figure import Figure
    from mcpdesk.transports.http.dashboard.dashboard_data import Board

FORWARDED = "X-Mcpdesk-Forwarded"
"""Header of a request that another replica forwarded. Such a request is not forwarded again."""


class Dialogue(Protocol):
    """Conversation of one peer with one server over one connection, session or pipe."""

    @property
    def connection(self) -> int:
        """Number of the connection in the recorder."""

    def accept(self, frame: bytes, outlet: Outlet, headers: Mapping[str, str] | None = None) -> Answer:
        """Handle one frame."""

    def accept_message(
        self,
        message: Any,
        outlet: Outlet,
        headers: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """Handle one decoded message.

        `headers` are those of the HTTP request, or None on pipes. `principal` is the sender; None means the
        principal that opened the dialogue.
        """

    def identify(self, principal: Principal) -> None:
        """Set the principal of a peer that authenticates after the dialogue began."""

    def catch_up(self, state: SessionState) -> None:
        """Apply state that the client changed through another replica."""

    def number_requests(self, mark: str, first: int) -> None:
        """Set the ids of requests to the client to `<mark>-<number>`, numbered from `first`.

        Several processes serve the session, so their ids must differ.
        """

    def hear(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Notify the client of a change that another replica made, if the client subscribed to it."""

    def leave(self) -> None:
        """Close the dialogue because the client continues in another process. State that it owns is kept."""

    def adopt(self, revision: str, client: str) -> bool:
        """Serve a handshake revision without a handshake. Return False if the revision is not supported."""

    @property
    def revision(self) -> str:
        """Protocol revision of the session."""

    @property
    def state(self) -> SessionState:
        """State of the session, for a process that continues it."""

    def restore(self, state: SessionState) -> None:
        """Continue a session of another process.

        Raises: ProtocolError if such a session is no longer served.
        """

    @property
    def is_open(self) -> bool:
        """True if a handshake took place."""

    @property
    def is_idle(self) -> bool:
        """True if no call is in flight."""

    @property
    def outlives_connection(self) -> bool:
        """True if a call in flight continues after its connection is lost."""

    @property
    def awaits_answer(self) -> bool:
        """True if a call in flight waits for an answer from a person or from the client."""

    def end_awaiting(self) -> None:
        """End the calls that wait for an answer, because the client left. Their responses report it."""

    def close(self, reason: str = "connection closed") -> None:
        """End the dialogue because the peer has disconnected."""


class Channel(Protocol):
    """One dialogue as frames in both directions, without HTTP responses."""

    @property
    def connection(self) -> int:
        """Number of the connection in the recorder."""

    @property
    def may_batch(self) -> bool:
        """True if the peer's revision allows batches."""

    def take(self, frame: bytes, principal: Principal | None = None, note: HttpNote | None = None) -> None:
        """Handle a frame that arrived. `principal` is its sender if senders are distinguished."""

    def take_all(self, frames: Sequence[bytes], principal: Principal | None = None) -> None:
        """Handle frames that arrived together. Requests that run no handler have been answered on return."""

    def pause(self) -> None:
        """Make handlers that report progress wait, because the peer reads too slowly."""

    def resume(self) -> None:
        """Let handlers report again, because the peer reads again."""

    def close(self, reason: str = "connection closed") -> None:
        """End the dialogue because the peer has disconnected."""


class Endpoint(Protocol):
    """One server as a transport sees it."""

    @property
    def name(self) -> str:
        """Name of the server, as in its URL."""

    @property
    def key(self) -> str:
        """Name of the server with its mode, such as `profiles?mode=review`; unique within a core."""

    @property
    def place(self) -> str:
        """Key that also differs between servers of the same name in different folders."""

    @property
    def gateway(self) -> Gateway:
        """The same server for clients of the gateway dialect."""

    @property
    def access(self) -> Access:
        """Authentication that the server requires of callers."""

    @property
    def refusal(self) -> str:
        """Error message for all callers while the server is not served; empty if it is served."""

    @property
    def publication(self) -> Publication:
        """Published metadata of the server."""

    def facts(self) -> dict[str, Any]:
        """Name, version and counts for the status page."""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_heard: Callable[[], bool] | None = None,
    ) -> Dialogue:
        """Begin a dialogue.

        `push` receives messages that belong to no request. `is_heard` returns True while the client receives
        change notifications on this dialogue; None means always.
        """

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str],
        principal: Principal = OPEN,
    ) -> Channel:
        """Begin a dialogue over frames.

        `write` receives the frames that are sent together and must not block. `opening` holds the headers of
        the HTTP request that began the dialogue.
        """


class Gateway(Endpoint, Protocol):
    """One server for clients of the gateway dialect."""

    def discovery(self) -> bytes:
        """Encoded response body for GET and OPTIONS."""


class Reader(Protocol):
    """Context manager that follows one job."""

    def __enter__(self) -> Reader:
        """Begin to follow the job."""

    def __exit__(self, *problem: object) -> None:
        """Stop following the job."""

    @property
    def has_told_all(self) -> bool:
        """True if the last call of `news` returned the end of the job."""

    def news(self) -> list[dict[str, Any]]:
        """Events since the last call, one per kind; the end comes last."""

    def event(self) -> dict[str, Any]:
        """Present state of the job, with its output since the last call."""

    async def changed(self, within_s: float | None = None) -> bool:
        """Wait up to `within_s` seconds for news. Return True if there may be some."""

    async def over(self, within_s: float | None = None) -> bool:
        """Wait up to `within_s` seconds for the end of the job. Return True if it has ended."""


class Parcel(Protocol):
    """Open file to send. The receiver must close `descriptor`."""

    @property
    def descriptor(self) -> int:
        """File descriptor, open for reading."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def name(self) -> str:
        """File name without a folder."""

    @property
    def media_type(self) -> str:
        """Content type."""

    @property
    def tag(self) -> str:
        """ETag: equal for equal bytes."""


class AsyncCall(Protocol):
    """True if the state is final."""

    @property
    def state(self) -> str:
        """Size of the result in bytes. In a call with a large result, that is most of `facts`."""

    @property
    def is_over(self) -> bool:
        """True if the state is final."""

    @property
    def result_size(self) -> int:
        """Size of the result in bytes. For a large result it is most of the size of `facts`."""

    def facts(self) -> bytes:
        """JSON with all fields of the call."""

    def reader(self, kinds: Collection[str] | None = None) -> Reader:
        """Follow the call. `kinds` selects from `stdout`, `stderr` and `progress`; None selects all."""

    async def cancel(self, reason: str) -> bool:
        """End the call. Return False if it had already ended.

        Raises: StorageError if the cancellation cannot be stored.
        """

    async def manifest(self) -> bytes:
        """JSON list of the files that the call created."""

    async def parcel(self, name: str = "") -> Parcel | None:
        """Return a file to download: the one named `name`, or without a name the only file or an archive of
        all. None if no file exists.

        Raises: FileGone, ArchiveTooLarge.
        """


class AsyncCalls(Protocol):
    """Asynchronous calls of a core."""

    def find(self, identifier: str, principal: Principal) -> AsyncCall | None:
        """Return the caller's job with that id, or None."""

    def has(self, identifier: str) -> bool:
        """True if the job or task is in memory here, rather than only in the storage."""

    async def recorded(self, identifier: str, principal: Principal) -> AsyncCall | None:
        """Return the caller's job with that id from the storage, or None. Raises: StorageError."""

    async def listed(self, principal: Principal, session: str) -> list[bytes] | None:
        """Return the caller's jobs as JSON, newest first: those of its principal, else those of an HTTP
        session.

        None if the caller cannot be identified. Raises: StorageError.
        """

    def known(self, identifier: str) -> AsyncCall | None:
        """Return the job with that id whatever its owner, for callers that may see everything."""


class Rules(Struct, frozen=True):
    """Access rules and limits of the TCP listeners."""

    api_key: str = ""
    """API key that callers must send; empty for none."""
    api_key_header: str = "X-API-Key"
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 16 << 20
    max_bodies_bytes: int = 256 << 20
    """Maximum bytes of all requests that are received or answered at a time. Small requests do not count."""
    unread_answers_max_bytes: int = 256 << 20
    """Maximum bytes of all large answers that clients have not read yet."""
    session_ttl_s: float = 3600.0
    request_timeout_s: float = 30.0
    """Time limit for the arrival of a request. A large body gets more time."""
    max_connections: int = 1_000
    max_sessions: int = 10_000
    resume_bytes: int = 1 << 20
    """Bytes per session kept for clients that reconnect and resume a stream."""
    enable_mcp: bool = True
    streaming: bool = True
    """If False, progress and logs are omitted where they would turn a response into a stream."""


class ForwardedAnswer(Protocol):
    """Response of a pass-through server or of another replica."""

    status: int
    headers: Sequence[tuple[str, str]]

    def chunks(self) -> AsyncIterator[bytes]:
        """Body in pieces, as it arrives."""


class PassThrough(Protocol):
    """Upstream server that receives the forwarded requests of clients."""

    name: str
    """Name in its URL on this core."""
    next_connection: Callable[[], int]
    """Return the recorder's number for a new client connection."""
    leads: bool
    """True if this server comes before all hosted servers, so `/mcp` without a name is this server."""
    offered: Callable[[], Mapping[str, int]]
    """Return the number of items that the server listed, by kind."""
    dropped: int
    """Number of messages that were dropped because no client read them."""

    @property
    def takes_pieces(self) -> bool:
        """True if a body may be forwarded in pieces. It is then not stored, and its size is unlimited."""

    @property
    def has_lines(self) -> bool:
        """True if the server must send each message as one line."""

    def ask(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        on_unclaimed: Callable[[bytes], None] | None = None,
    ) -> AbstractAsyncContextManager[ForwardedAnswer]:
        """Forward a request. Leaving the block early cancels it. Raises: CallError if no response arrives.

        `on_unclaimed` receives messages of the server that are not delivered to this client, such as a second
        response. It may be called after the block.
        """


def leading(ways: Mapping[str, PassThrough]) -> PassThrough | None:
    """Return the first server if it is a pass-through server, or None if a hosted server comes before it."""
    return next((way for way in ways.values() if way.leads), None)


class SharedSession(Struct, frozen=True):
    """Session that every replica serves, as it was last read or written."""

    id: str
    """Hash of the session id."""
    server: str
    owner: str
    """Sealed owner, as returned by `seal`."""
    used: float
    """Time of the last use: Unix time in seconds by the engine's clock."""
    state: SessionState
    version: int
    block: int = 0
    """Block of numbers for the streams and requests of this replica in the session."""
    heard: str = "0-0"
    """Id of the latest event that the client has received."""


class SharedSessions(Protocol):
    """Sessions that all replicas serve.

    Every method raises StorageError while the engine is unavailable, unless noted otherwise.
    """

    async def write(self, session: SharedSession, base: SessionState) -> SharedSession | None:
        """Write a new session (version 0), or one that was `base` when it was read.

        Changes that others wrote in the meantime are merged. None if the session has ended.
        """

    async def read(self, identifier: str) -> SharedSession | None:
        """Position of this replica on the event bus. Raises nothing."""

    async def join(self, identifier: str, server: str, owners: Collection[str]) -> SharedSession | None:
        """Read a session to serve it here. None unless it belongs to that server and to one of `owners`."""

    async def end(self, identifier: str) -> None:
        """End a session on all replicas."""

    async def holder(self, identifier: str, block: int) -> str:
        """Return the id of the replica with the streams and requests of a block; empty if none is known."""

    @property
    def heard(self) -> Heard:
        """Position of this replica on the event bus. Raises nothing."""

    async def missed(
        self, identifier: str, since: Heard | None, until: Heard
    ) -> list[tuple[str, Mapping[str, Any]]]:
        """Return kind and facts of the events that the client missed, up to the position `until`.

        `since` is the position of its last event; None means the stored one.
        """

    async def note_heard(self, identifier: str) -> None:
        """Store that the client has received all events so far."""

    def tell(self, kind: str, identifier: str, **facts: Any) -> None:
        """Send an event of a session to the other replicas. Raises nothing."""

    def listen(self, listener: Callable[[str, str, Mapping[str, Any]], object]) -> None:
        """Call `listener(kind, identifier, facts)` for session events of other replicas."""


class SharedStreams(Protocol):
    """Events of the streams of shared sessions, for clients that reconnect to any replica.

    Methods whose name ends in `_soon` raise nothing.
    """

    def write_soon(self, session: str, stream: ResumableStream[Any]) -> None:
        """Write the events of a stream that are kept and not written yet."""

    def deny_soon(self, session: str, number: int, after: int) -> None:
        """Write that a stream has no events after `after`, because its replica does not have them."""

    def remove_soon(self, session: str, numbers: Collection[int]) -> None:
        """Remove streams of a session that has ended."""

    async def kept(self, session: str, place: EventPlace) -> list[bytes]:
        """Return the written events of a stream after `place`. Raises: StorageError."""

    def open(
        self,
        session: str,
        place: EventPlace,
        is_held: Callable[[], bool],
        lost: bytes,
        ask: Callable[[], object],
        *,
        primes: bool,
    ) -> Resumable[Carrier]:
        """Open a stream of another replica. If that replica no longer holds it, it ends with the message
        `lost`.

        `ask` makes that replica write the stream. It is called repeatedly while no event arrives.
        """

    def let_go(self, session: str) -> None:
        """End the connections that carry other replicas' streams of a session that has ended."""


class NotTaken(TransportError):
    """Another replica rejected a WebSocket."""

    def __init__(self, status: int, moved: str) -> None:
        """`moved` is the replica that has the session or job; empty if the response named none."""
        super().__init__(f"a replica refused a WebSocket: {status}")
        self.status, self.moved = status, moved


class Replicas(Protocol):
    """Replicas that serve the same servers, as the HTTP transport sees them."""

    id: str
    """Id of this replica."""

    @property
    def sessions(self) -> SharedSessions:
        """Shared sessions."""

    @property
    def streams(self) -> SharedStreams:
        """Shared streams."""

    def clock(self) -> float:
        """Return the Unix time, which is the same on all replicas."""

    @property
    def away(self) -> str:
        """Reason why shared state is unavailable now, with the engine's address; empty if it is available."""

    @property
    def outage(self) -> str:
        """Reason why shared state is unavailable now, without the address; empty if it is available."""

    def facts(self) -> list[dict[str, Any]]:
        """Name, version and folders of all live replicas, this one first."""

    def is_alive(self, replica: str) -> bool:
        """Return True if a replica is known to be alive.

        This is a second old at most while the engine responds.
        """

    def holder_of(self, number: int) -> str:
        """Return the live replica that issued such numbers, or an empty string if none is known."""

    async def job_holder(self, identifier: str) -> str:
        """Return the other live replica that stored a job, or an empty string. Raises: StorageError."""

    async def round_holder(self, state: str) -> str:
        """Return the live replica that answered a state's round, or an empty string. Raises: StorageError."""

    def socket_of(
        self, replica: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncGenerator[str, None]]:
        """Connect to a WebSocket of a replica and iterate over its text messages.

        Raises: NotTaken if the replica rejects it; TransportError if it is unreachable or disconnects.
        """

    def answer_of(
        self,
        replica: str,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        within_s: float | None = None,
    ) -> AbstractAsyncContextManager[ForwardedAnswer]:
        """Forward a request to a replica, even one that is not known to be alive.

        The response must begin in `within_s` seconds. Raises: TransportError if the replica is unreachable;
        ReplicaSilent if it does not respond; StorageError.
        """


class Site(Protocol):
    """A core as the HTTP transport sees it."""

    @property
    def replicas(self) -> Replicas | None:
        """Replicas that this core belongs to, or None if it shares no state."""

    @property
    def recorder(self) -> Recorder:
        """Recorder of all frames."""

    @property
    def rules(self) -> Rules:
        """Rules in effect now."""

    def endpoint(self, name: str, mode: str = "") -> Endpoint | None:
        """Return the server with that name, seen in a mode; the first server for an empty name.

        Raises: UnknownMode, which lists the server's modes.
        """

    @property
    def holds(self) -> ExchangeHolds:
        """Holds for exchanges with upstream servers that wait for a person."""

    @property
    def watch(self) -> ExchangeWatch | None:
        """Observer of exchanges with upstream servers, or None."""

    @property
    def passed(self) -> Mapping[str, PassThrough]:
        """Pass-through servers, by name."""

    def endpoints(self) -> Sequence[Endpoint]:
        """Hosted servers, in order."""

    @property
    def state_dir(self) -> Path | None:
        """State folder, or None if no state outlives this process."""

    @property
    def jobs(self) -> AsyncCalls:
        """Asynchronous calls of the core's clients."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the core started."""

    @property
    def operator(self) -> Operator:
        """Credential of the operator, and the browsers that signed in with it."""

    @property
    def unready(self) -> str:
        """Reason why a load balancer should send no new clients here, without an address.

        Empty if the core is ready.
        """

    @property
    def down(self) -> Sequence[str]:
        """Pass-through servers whose latest connection attempt failed."""

    @property
    def capture(self) -> CaptureHealth:
        """State of the capture: whether recorded frames reach a file."""

    def figures(self) -> Callable[[], Sequence[Figure]]:
        """Return a blocking function that counts the figures. Call it on a worker thread."""

    @property
    def board(self) -> Callable[[], Board] | None:
        """Function that builds the dashboard's data on any thread, or None without a dashboard."""
