"""What a transport is given and what it gives: the seam between bytes and answers.

A transport moves frames and records them. It does not know what they say beyond what its own rules ask for.
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
"""Header of a request that a replica sent on; such a one is not sent on again."""


class Dialogue(Protocol):
    """One peer talking with one server over one connection, session or pipe."""

    @property
    def connection(self) -> int:
        """The recorder's number for it."""

    def accept(self, frame: bytes, outlet: Outlet, headers: Mapping[str, str] | None = None) -> Answer:
        """Take one frame."""

    def accept_message(
        self,
        message: Any,
        outlet: Outlet,
        headers: Mapping[str, str] | None = None,
        principal: Principal | None = None,
    ) -> Answer:
        """Take one decoded message. `headers` are the HTTP request's; None on pipes.

        `principal` is who sent it; None: whoever opened the dialogue.
        """

    def identify(self, principal: Principal) -> None:
        """The peer proved who it is, after the dialogue began."""

    def catch_up(self, state: SessionState) -> None:
        """Take over what its client said to another replica."""

    def number_requests(self, mark: str, first: int) -> None:
        """Name requests to the client `<mark>-<number>`, from a number on: several processes serve it."""

    def hear(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Tell the client of a change that was noted elsewhere, if it wants to hear of such."""

    def leave(self) -> None:
        """Forget the peer, which goes on elsewhere: what it owns stays as it is."""

    def adopt(self, revision: str, client: str) -> bool:
        """Serve a handshake revision without a handshake; False when it is not one we serve."""

    @property
    def revision(self) -> str:
        """The revision of its session."""

    @property
    def state(self) -> SessionState:
        """How its session stands, for a process that goes on with it."""

    def restore(self, state: SessionState) -> None:
        """Go on with a session of another process.

        Raises: ProtocolError when such a session is not served any more.
        """

    @property
    def is_open(self) -> bool:
        """Whether a handshake took place."""

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight."""

    @property
    def outlives_connection(self) -> bool:
        """Whether a call in flight goes on when the connection it came by is lost."""

    @property
    def awaits_answer(self) -> bool:
        """Whether a call in flight waits for the answer of a person or of the client."""

    def end_awaiting(self) -> None:
        """End the calls that wait for an answer, since the client left; their responses say so."""

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone."""


class Channel(Protocol):
    """Frames both ways on one dialogue, without answers of HTTP's kind."""

    @property
    def connection(self) -> int:
        """The recorder's number for it."""

    @property
    def may_batch(self) -> bool:
        """Whether the peer's revision has arrays of messages."""

    def take(self, frame: bytes, principal: Principal | None = None, note: HttpNote | None = None) -> None:
        """Handle a frame that arrived. `principal`: who sent it, if told apart."""

    def take_all(self, frames: Sequence[bytes], principal: Principal | None = None) -> None:
        """Handle frames that arrived together. What runs no handler has been answered on return."""

    def pause(self) -> None:
        """The peer does not keep up: let handlers that report wait."""

    def resume(self) -> None:
        """The peer keeps up again."""

    def close(self, reason: str = "connection closed") -> None:
        """The peer is gone."""


class Endpoint(Protocol):
    """One server as a transport sees it."""

    @property
    def name(self) -> str:
        """The server's name, as in its URL."""

    @property
    def key(self) -> str:
        """What tells it from others: its name, and the mode it is seen in (`profiles?mode=review`)."""

    @property
    def place(self) -> str:
        """What tells it from servers of the same name in other folders, too."""

    @property
    def gateway(self) -> Gateway:
        """The same server for clients of the gateway dialect."""

    @property
    def access(self) -> Access:
        """What it asks of its callers."""

    @property
    def refusal(self) -> str:
        """What everybody is told while nothing of it is served; empty: it serves."""

    @property
    def publication(self) -> Publication:
        """How it is described to the world."""

    def facts(self) -> dict[str, Any]:
        """Name, version and counts, for the status page."""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_heard: Callable[[], bool] | None = None,
    ) -> Dialogue:
        """Begin a dialogue. `push` takes messages that belong to no request.

        `is_heard` says whether the client hears of changes here; None: always.
        """

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str],
        principal: Principal = OPEN,
    ) -> Channel:
        """Begin a dialogue over frames. `write` takes those that leave together and must not block.

        `opening` are the headers of the HTTP request it began with.
        """


class Gateway(Endpoint, Protocol):
    """The same server for clients of the gateway dialect."""

    def discovery(self) -> bytes:
        """What GET and OPTIONS answer, encoded."""


class Reader(Protocol):
    """Follows one job. To be left by its block."""

    def __enter__(self) -> Reader:
        """Begin to listen."""

    def __exit__(self, *problem: object) -> None:
        """Listen no more."""

    @property
    def has_told_all(self) -> bool:
        """Whether the last look showed the end."""

    def news(self) -> list[dict[str, Any]]:
        """What came since the last look, one kind each, the end last."""

    def event(self) -> dict[str, Any]:
        """How it stands now, and what it wrote since the last look."""

    async def changed(self, within_s: float | None = None) -> bool:
        """Wait until there may be more, so long at most; says whether there may."""

    async def over(self, within_s: float | None = None) -> bool:
        """Wait until the job is over, so long at most; says whether it is."""


class Parcel(Protocol):
    """An open file to be sent. Whoever gets it closes `descriptor`."""

    @property
    def descriptor(self) -> int:
        """To read it by."""

    @property
    def size(self) -> int:
        """In bytes."""

    @property
    def name(self) -> str:
        """What to call it, without any folder."""

    @property
    def media_type(self) -> str:
        """Its content type."""

    @property
    def tag(self) -> str:
        """The same for the same bytes."""


class AsyncCall(Protocol):
    """One asynchronous call, found for its caller."""

    @property
    def state(self) -> str:
        """`queued`, `running`, `succeeded`, `failed` or `canceled`."""

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""

    @property
    def result_size(self) -> int:
        """Bytes of its result, which are nearly all of large facts."""

    def facts(self) -> bytes:
        """Everything about it, encoded."""

    def reader(self, kinds: Collection[str] | None = None) -> Reader:
        """Follow it. `kinds`: some of `stdout`, `stderr`, `progress`; None: all."""

    async def cancel(self, reason: str) -> bool:
        """End it; False when it was over. Raises: StorageError while that cannot be written."""

    async def manifest(self) -> bytes:
        """The files it made, encoded."""

    async def parcel(self, name: str = "") -> Parcel | None:
        """What there is to download: a file by its name, the only one, or all of them. None: nothing.

        Raises: FileGone, ArchiveTooLarge.
        """


class AsyncCalls(Protocol):
    """The asynchronous calls of a core."""

    def find(self, identifier: str, principal: Principal) -> AsyncCall | None:
        """The job of that id, if it is the caller's."""

    def has(self, identifier: str) -> bool:
        """Whether a job or a task is here, and not only known by its record."""

    async def recorded(self, identifier: str, principal: Principal) -> AsyncCall | None:
        """The job of that id by its record, if it is the caller's. Raises: StorageError."""

    async def listed(self, principal: Principal, session: str) -> list[bytes] | None:
        """The caller's jobs, encoded, newest first: a principal's, else those begun in an HTTP session.

        None: nothing tells which are the caller's. Raises: StorageError.
        """

    def known(self, identifier: str) -> AsyncCall | None:
        """The job of that id, whoever it belongs to: for who may see everything."""


class Rules(Struct, frozen=True):
    """Who may call over TCP, and how much they may send."""

    api_key: str = ""
    """Required when not empty."""
    api_key_header: str = "X-API-Key"
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    max_body_bytes: int = 16 << 20
    max_bodies_bytes: int = 256 << 20
    """Of all requests being received or answered at a time, but for small ones."""
    unread_answers_max_bytes: int = 256 << 20
    """Of all large answers that clients have not read yet."""
    session_ttl_s: float = 3600.0
    request_timeout_s: float = 30.0
    """How long a request may take to arrive; a large body gets longer."""
    max_connections: int = 1_000
    max_sessions: int = 10_000
    resume_bytes: int = 1 << 20
    """What a session keeps of its streams for a client whose connection broke."""
    enable_mcp: bool = True
    streaming: bool = True
    """False: progress and logs are left out rather than turning an answer into a stream."""


class ForwardedAnswer(Protocol):
    """What a server that is not ours, or another replica, answers."""

    status: int
    headers: Sequence[tuple[str, str]]

    def chunks(self) -> AsyncIterator[bytes]:
        """Its body, piece by piece as it comes."""


class PassThrough(Protocol):
    """A server that is not ours, which requests of clients are sent on to."""

    name: str
    """As in its URL here."""
    next_connection: Callable[[], int]
    """Gives the recorder's number for one more client."""
    leads: bool
    """Whether it was named before every server that runs here: `/mcp` alone is the first one."""
    offered: Callable[[], Mapping[str, int]]
    """Counts the items that the server listed, by kind."""
    dropped: int
    """Messages that no client received because it did not read."""

    @property
    def takes_pieces(self) -> bool:
        """Whether a body may come piece by piece: it then is held nowhere, and has no limit."""

    @property
    def has_lines(self) -> bool:
        """Whether the server must send each message as one line."""

    def ask(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        on_unclaimed: Callable[[bytes], None] | None = None,
    ) -> AbstractAsyncContextManager[ForwardedAnswer]:
        """Send a request on; leaving the block early ends it. Raises: CallError when no answer comes.

        `on_unclaimed` gets messages of the server that this client does not receive, also later: a second
        answer, for example.
        """


def leading(ways: Mapping[str, PassThrough]) -> PassThrough | None:
    """The first server if it is not ours; None if a server that runs here was named before."""
    return next((way for way in ways.values() if way.leads), None)


class SharedSession(Struct, frozen=True):
    """A session that every replica serves, as it was when it was read or written."""

    id: str
    """The hash of the session's id."""
    server: str
    owner: str
    """What `seal` makes of its owner."""
    used: float
    """Time of last use, Unix time in seconds by the engine's clock."""
    state: SessionState
    version: int
    block: int = 0
    """The streams and requests of this replica in the session have numbers of this block."""
    heard: str = "0-0"
    """The latest event that its client has heard of."""


class SharedSessions(Protocol):
    """The sessions that all replicas serve.

    Everything raises StorageError while the engine is away, unless it says otherwise.
    """

    async def write(self, session: SharedSession, base: SessionState) -> SharedSession | None:
        """Write a session that stood as `base` when it was read, or a new one, of version 0.

        What others wrote meanwhile is joined with it. None: it was ended.
        """

    async def read(self, identifier: str) -> SharedSession | None:
        """Read a session without serving it."""

    async def join(self, identifier: str, server: str, owners: Collection[str]) -> SharedSession | None:
        """Read a session to serve it here; None unless it is of that server and for one of `owners`."""

    async def end(self, identifier: str) -> None:
        """End a session everywhere."""

    async def holder(self, identifier: str, block: int) -> str:
        """The id of the replica that has the streams and requests of a block; empty: none is known."""

    @property
    def heard(self) -> Heard:
        """How much has been heard on this replica by now. Raises nothing."""

    async def missed(
        self, identifier: str, since: Heard | None, until: Heard
    ) -> list[tuple[str, Mapping[str, Any]]]:
        """Kind and facts of what was told since its client last heard something, and heard here `until` then.

        `since` is how much it had heard; None: what was noted of that counts.
        """

    async def note_heard(self, identifier: str) -> None:
        """Note that its client has heard of everything until now."""

    def tell(self, kind: str, identifier: str, **facts: Any) -> None:
        """Tell the other replicas of something in a session. Raises nothing."""

    def listen(self, listener: Callable[[str, str, Mapping[str, Any]], object]) -> None:
        """Call `listener(kind, identifier, facts)` with what others tell of sessions."""


class SharedStreams(Protocol):
    """Events of the streams of sessions that all replicas serve, for clients that come back to any of them.

    What is to happen soon raises nothing.
    """

    def write_soon(self, session: str, stream: ResumableStream[Any]) -> None:
        """Write what is kept of a stream and not written yet."""

    def deny_soon(self, session: str, number: int, after: int) -> None:
        """Write that nothing more will come of a stream behind an event: its replica does not have it."""

    def remove_soon(self, session: str, numbers: Collection[int]) -> None:
        """Remove streams of a session that has ended."""

    async def kept(self, session: str, place: EventPlace) -> list[bytes]:
        """The events of a stream behind one, as they are written now. Raises: StorageError."""

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
        """A stream of another replica. When that one holds it no more, it ends with the message `lost`.

        `ask` has that replica write the stream. It is called again and again while nothing comes.
        """

    def let_go(self, session: str) -> None:
        """End the connections that carry streams of a session of other replicas: it has ended."""


class NotTaken(TransportError):
    """Another replica did not open a WebSocket."""

    def __init__(self, status: int, moved: str) -> None:
        """`moved` is the replica that has what was asked for; empty: it named none."""
        super().__init__(f"a replica refused a WebSocket: {status}")
        self.status, self.moved = status, moved


class Replicas(Protocol):
    """The other machines that serve the same servers, as the HTTP transport sees them."""

    id: str
    """That of this one."""

    @property
    def sessions(self) -> SharedSessions:
        """What they share of sessions."""

    @property
    def streams(self) -> SharedStreams:
        """What they share of streams."""

    def clock(self) -> float:
        """Unix time, the same on all of them."""

    @property
    def away(self) -> str:
        """Why nothing shared can be used now; empty while it can."""

    def facts(self) -> list[dict[str, Any]]:
        """Name, version and folders of all that live, this one first."""

    def is_alive(self, replica: str) -> bool:
        """Whether a replica lives, as far as known; a second old at most while the engine answers."""

    def holder_of(self, number: int) -> str:
        """The living replica that gives such numbers, as far as known; empty: none."""

    async def job_holder(self, identifier: str) -> str:
        """The other living replica that has a job by its record; empty: none. Raises: StorageError."""

    async def round_holder(self, state: str) -> str:
        """The living replica that answered the round of a state; empty: none. Raises: StorageError."""

    def socket_of(
        self, replica: str, target: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[AsyncGenerator[str, None]]:
        """The texts that a WebSocket of a replica sends.

        Raises: NotTaken when it refuses, TransportError when it cannot be reached, or breaks off.
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
        """Send a request on to a replica, taken for alive or not; its answer must begin `within_s`.

        Raises: TransportError when it cannot be reached; ReplicaSilent when it gives no answer; StorageError.
        """


class Site(Protocol):
    """A core as the HTTP transport sees it."""

    @property
    def replicas(self) -> Replicas | None:
        """The replicas it belongs to; None: it shares nothing."""

    @property
    def recorder(self) -> Recorder:
        """Takes every frame."""

    @property
    def rules(self) -> Rules:
        """What holds now."""

    def endpoint(self, name: str, mode: str = "") -> Endpoint | None:
        """The server of that name, seen in a mode; the first one for an empty name.

        Raises: UnknownMode, which names the modes it has.
        """

    @property
    def holds(self) -> ExchangeHolds:
        """Where what passes to servers that are not ours may wait for a person."""

    @property
    def watch(self) -> ExchangeWatch | None:
        """Who follows what passes to them; None: nobody."""

    @property
    def passed(self) -> Mapping[str, PassThrough]:
        """The ways to servers that are not ours, by name."""

    def endpoints(self) -> Sequence[Endpoint]:
        """All servers, in order."""

    @property
    def state_dir(self) -> Path | None:
        """The state folder; None: nothing outlives this process."""

    @property
    def jobs(self) -> AsyncCalls:
        """The asynchronous calls of its clients."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the core started."""

    @property
    def operator(self) -> Operator:
        """The operator's credential, and the browsers that signed in with it."""

    @property
    def unready(self) -> str:
        """Why no new client should be sent here; empty: it is ready."""

    @property
    def capture(self) -> CaptureHealth:
        """Whether what is recorded reaches a file."""

    def figures(self) -> Callable[[], Sequence[Figure]]:
        """What is counted now. What is returned takes time: it is for another thread than the core's."""

    @property
    def board(self) -> Callable[[], Board] | None:
        """Makes what the dashboard shows, on any thread; None: there is none."""
