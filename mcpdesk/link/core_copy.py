"""Local copy of a core that runs in another process. Messages of the core update the copy.

A front end reads the copy, so it can show even a core that is stuck or has ended. A `Wire` transports the
messages. The copies of several cores share a `CopyRoom` with one thread, one list of traffic and one log. The
numbers of different cores are made unique there.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec
from msgspec import structs

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.core_loop.changes import Changes
from mcpdesk.hosting.journal import Journal
from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.attach_messages import (
    METHODS,
    PARTS,
    Ask,
    CallUpdate,
    FromCore,
    Join,
    Reply,
    State,
    TrafficBatch,
    Welcome,
    framed,
    pack,
)
from mcpdesk.link.feature_part import Intent
from mcpdesk.link.link import INTENTS, Link, Part, promise
from mcpdesk.link.link_methods import LinkIntent, LinkSnapshot, Route
from mcpdesk.link.local.upstream_views import SchemaChecks
from mcpdesk.link.number_offsets import EPOCH_SEPARATOR, NumberOffset
from mcpdesk.link.traffic_copy import EPOCH_BITS, OWN_MASK, TrafficCopy
from mcpdesk.link.values import (
    CallOutcome,
    Catalogue,
    ClientDetail,
    ClientView,
    CoreView,
    ItemKind,
    JobUse,
    LogLine,
    Notice,
    Progress,
    Protection,
    SchemaFailure,
    Severity,
)
from mcpdesk.link.waiting import WAIT_S, result_of
from mcpdesk.protocol import codec
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.version import __version__

PING_PERIOD_S = 1.0
"""Seconds between two pings."""
SILENT_S = 3.0
"""Seconds without a message after which a core counts as silent."""
DETAIL_PERIOD_S = 2.0
"""Seconds between two requests for the details of the client that the screen shows."""
MIN_REPORT_PERIOD_S = 2.0
"""Minimum number of seconds between two log lines about missing frames."""
PAIR_S, PAIR_REST_S = 0.003, 0.001
"""Seconds of one slice of pairing, and seconds of the pause before a slice."""
KEPT_EXCHANGES = 100_000
"""Minimum number of exchanges that the index of all cores keeps."""
MAX_UNREAD_BYTES = 16 << 20
"""Maximum size in bytes of requests that wait because the core does not read them."""
_log = logging.getLogger(__name__)
_core_decoder: msgspec.msgpack.Decoder[FromCore] = msgspec.msgpack.Decoder(FromCore)
_part_decoders = {name: msgspec.msgpack.Decoder(kind) for name, kind in PARTS.items()}


LOST: Final = b""
"""Value that `Wire.receive` returns if messages were deleted before they could be read."""


class Wire(Protocol):
    """Connection to a core that has sent its `Welcome`. Its methods are called on the room's thread."""

    async def receive(self) -> bytes:
        """Return the next message, or `LOST`. Raises: EOFError or OSError at the end."""

    def send(self, message: bytes) -> None:
        """Send a message with its length prefix. Do not wait."""

    @property
    def unread(self) -> int:
        """Number of bytes that the core has not read yet."""

    def close(self) -> None:
        """Close the connection."""


class CopyRoom:
    """State shared by the copies of several cores."""

    def __init__(self) -> None:
        self.changes = Changes()
        """Notifies the front end of every change."""
        self.changes.is_complete = True
        self.journal = Journal(self.changes.notify)
        """Log lines and notices of all cores and of this process."""
        self.frames = TrafficCopy(self._fetch)
        self.traffic = Index(self.frames, KEPT_EXCHANGES)
        self.traffic.fetched_until = self.frames.fetched_until
        self.loop = asyncio.new_event_loop()
        self.is_over = False
        """True when the room is closed. After that, the end of a core is not reported."""
        self.is_quiet = False
        """True to report neither new cores nor cores that end."""
        self.is_cut_off = False
        """True while no core can be reached. Silent cores are then not reported."""
        self._copies: dict[int, CoreCopy] = {}
        """Copies by epoch. Each core gets its own epoch, which forms the upper bits of all its numbers."""
        self._epochs = 0
        """Number of epochs that were given out."""
        self._pair_timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    def enter(self, copy: CoreCopy) -> int:
        """Add a copy, and return a new epoch for the numbers of its core."""
        self.traffic.secret_headers |= copy.core.secret_headers
        self._epochs += 1
        self._copies[self._epochs - 1] = copy
        return self._epochs - 1

    def pair(self) -> None:
        """Pair new frames on this thread, in slices, to relieve the UI thread."""
        if self._pair_timer is None and self.traffic.paired < self.traffic.frame_count:
            self._pair_timer = self.loop.call_later(PAIR_REST_S, self._pair_slice)

    def _pair_slice(self) -> None:
        """Pair some frames, and schedule the next slice if more are unpaired."""
        self._pair_timer = None
        self.traffic.catch_up(PAIR_S)
        self.changes.notify()
        self.pair()

    def leave(self, copy: CoreCopy) -> None:
        """Remove a copy and the data of its core, which has ended."""
        for epoch in [epoch for epoch, each in self._copies.items() if each is copy]:
            del self._copies[epoch]
            self.frames.forget(epoch)

    def copy_of(self, number: int) -> CoreCopy | None:
        """Return the copy whose core has a connection, a question or an item of a feature with
        this number."""
        return self._copies.get(number >> EPOCH_BITS)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the thread of the room. It runs this coroutine."""
        self._thread = threading.Thread(target=self._run, args=(work,), name="attached", daemon=True)
        self._thread.start()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the thread of the room."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Stop the thread of the room. The cores keep running."""
        self.is_over = True
        self.call_soon(self._stop)
        if self._thread is not None:
            self._thread.join(WAIT_S)

    def _fetch(self, epoch: int, number: int) -> Future[bytes] | None:
        """Request all bytes of a frame from the core of an epoch. None if the core has ended."""
        copy = self._copies.get(epoch)
        return None if copy is None else copy.fetch(epoch, number)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner, suppress(asyncio.CancelledError):
            runner.run(work)

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()


class RemoteCall:
    """Call of this front end at a core in another process (implements `LinkCall`)."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.request_id = self.connection = 0
        """`request_id` and `connection` are 0 until the core has sent them."""
        self.started = time.time()
        self.progress: Progress | None = None
        self.logs: tuple[str, ...] = ()
        self.outcome: Future[CallOutcome] = Future()
        self._cancel = cancel

    def cancel(self) -> None:
        """Cancel the request at the core. The call ends at once."""
        self._cancel()
        self.fail("the desk stopped waiting", cancelled=True)

    def fail(self, reason: str, *, cancelled: bool = False) -> None:
        """End the call with an error."""
        error = {"code": 0, "message": reason}
        self.end(CallOutcome(None, error, b"", time.time() - self.started, cancelled))

    def end(self, outcome: CallOutcome) -> None:
        """Set the outcome. Ignored if the call has already ended."""
        with suppress(InvalidStateError):
            self.outcome.set_result(outcome)


class CoreCopy(Link):
    """Link to a core in another process over a `Wire`."""

    is_remote = True

    def __init__(self, core: Welcome, room: CopyRoom, label: str = "") -> None:
        """Create an empty copy, which `follow` then fills.

        `label` is the name of the core that all items in the copy get.
        """
        self.core = core
        """Metadata of the core to which the copy is attached, or was attached last."""
        self.room = room
        self.journal = room.journal
        self.traffic = room.traffic
        self.label = label
        self.state_event = threading.Event()
        """Set when the core has sent its state or has ended."""
        self.last_clients: tuple[ClientView, ...] = ()
        """Clients that the core had when it ended."""
        self._epoch = room.enter(self)
        self._view = CoreView((), (), Protection.STARTING)
        self._parts: dict[tuple[str, str], Any] = {}
        """Parts of the state that the core sent last, by name and key."""
        self._checks = SchemaChecks()
        self._detail_connection = 0
        """Connection of the client whose details were requested last."""
        self._detail_request_time = -math.inf
        """Monotonic time of the last request for details of the client that the screen shows."""
        self._last_message = time.monotonic()
        """Monotonic time of the last message from the core."""
        self._pending: dict[int, tuple[str, Future[Any]]] = {}
        """Method and future of each request without a reply, by id."""
        self._calls: dict[int, RemoteCall] = {}
        """Running calls of this front end, by id of the request that started them."""
        self._ids = iter(range(1, 1 << 62))
        self._wire: Wire | None = None
        """Connection to the core, or None if it has ended."""
        self._has_frames = False
        """True if the core has sent a batch of frames. Frames missing before it are not reported."""
        self._last_line = -1
        """Number of the core's newest log line that is in the journal."""
        self._missing = 0
        """Number of missing frames that are not reported yet."""
        self._missing_report_time = -math.inf
        """Monotonic time of the last report about missing frames."""

    @property
    def title(self) -> str:
        """Display name of the core."""
        return self.label or self.core.title

    def view(self) -> CoreView:
        """Return the latest known view.

        `gone` is set after the core has ended, and `silent_s` while the core does not answer.
        """
        silent_s = time.monotonic() - self._last_message
        is_silent = silent_s >= SILENT_S and not self._view.gone
        return structs.replace(self._view, silent_s=max(1, int(silent_s))) if is_silent else self._view

    @property
    def reports_changes(self) -> bool:
        """True, because the core sends every change."""
        return self.room.changes.is_complete

    def on_change(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` when the copy has changed."""
        return self.room.changes.listen(listener)

    def catalogue(self, server: str) -> Catalogue:
        """Return the catalogue of a server."""
        part: Catalogue | None = self._parts.get(("catalogue", server))
        return part or super().catalogue(server)

    def watched(self, server: str) -> Mapping[str, int]:
        """Return subscribed resources with the number of updates received."""
        counts: dict[str, int] | None = self._parts.get(("watched", server))
        return counts or {}

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments in this process, against the schema in the catalogue."""
        for item in self.catalogue(server).items:
            if (item.kind, item.name) == (ItemKind.TOOL, tool) and "inputSchema" in item.definition:
                return self._checks.failures((server, tool), item.definition["inputSchema"], arguments)
        return []

    def client(self, connection: int) -> ClientDetail | None:
        """Return details of one client. Until the core sends them, most fields are empty."""
        now = time.monotonic()
        if connection != self._detail_connection or now - self._detail_request_time > DETAIL_PERIOD_S:
            self._detail_connection, self._detail_request_time = connection, now
            self._ask("look", (connection & OWN_MASK,))
        if not any(client.connection == connection for client in self._view.clients):
            return None
        empty_detail = ClientDetail({}, None, 0.0, (), (), False, (), ())
        detail: ClientDetail | None = self._parts.get(("client", str(connection & OWN_MASK)), empty_detail)
        return detail

    def logs(self, after: int = -1) -> list[LogLine]:
        """Return log lines numbered above `after`."""
        return self.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Return notices numbered above `after` that arrived after the front end was attached."""
        return self.journal.notices(after)

    def busy(self) -> tuple[str, ...]:
        """Return the running calls of this front end, which quitting would interrupt."""
        count = len(self._calls)
        return (f"{count} running call{'s' if count > 1 else ''}",) if count else ()

    def request(self, server: str, method: str, params: dict[str, Any]) -> RemoteCall:
        """Send one request as the peer `desk`.

        Raises: LocalProtocolError for params that JSON cannot represent.
        """
        codec.encode_part(params)
        id = next(self._ids)
        call = self._calls[id] = RemoteCall(lambda: self._cancel_request(id))
        self._ask("request", (server, method, params), id)
        return call

    def execute(self, intent: LinkIntent, arguments: tuple[Any, ...]) -> Any:
        """Send an intent to the core.

        Its future may fail with ValueError or DeskUserError. An intent that waits must be called on a worker
        thread. If the core does not answer in time, it returns its default result.
        """
        future = self._ask(intent.name, self._own_numbers(intent, arguments))
        if intent.returns_future or not intent.has_result:
            return future if intent.has_result else None
        result = None
        with suppress(TimeoutError, DeskUserError, ValueError):
            result = result_of(future)
        return intent.default(self, *arguments) if result is None else result

    def read_snapshot(self, snapshot: LinkSnapshot) -> Any:
        """Return a part of the state that the core sent last."""
        part = self._parts.get((snapshot.name, ""))
        return snapshot.default(self) if part is None else part

    def ask_usage(self) -> Future[dict[str, JobUse]]:
        """Request the resource usage of running programs without waiting for it.

        The result has the job ids of the core. The future may fail with ValueError or DeskUserError.
        """
        return self._ask("usage", ())

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of a feature."""
        part = self._parts.get((kind.part_name, ""))
        return part if isinstance(part, kind) else kind()

    def known_uses(self, uses: Mapping[str, JobUse]) -> dict[str, JobUse]:
        """Replace the job ids of the core with those in the result of `jobs`."""
        jobs = {job.id.partition(EPOCH_SEPARATOR)[0]: job.id for job in self.jobs()}
        return {jobs[id]: use for id, use in uses.items() if id in jobs}

    def fetch(self, epoch: int, number: int) -> Future[bytes] | None:
        """Request all bytes of a large frame from the core. None if the core has ended."""
        return self._ask("frame_bytes", (number,)) if epoch == self._epoch else None

    def _cancel_request(self, id: int) -> None:
        """Cancel the call that a request started. Ignored if it has ended."""
        if self._calls.pop(id, None) is not None:
            self._ask("cancel", (id,))

    def _ask(self, method: str, arguments: tuple[Any, ...], id: int | None = None) -> Future[Any]:
        """Send a request to the core. The future may fail with ValueError or DeskUserError."""
        id = next(self._ids) if id is None else id
        future = promise()
        self._pending[id] = method, future
        self.room.call_soon(lambda: self._send(id, framed(Ask(id, method, pack(arguments)))))
        return future

    def _own_numbers(self, intent: LinkIntent, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Convert numbers and ids in the arguments to the numbers and ids that the core itself uses."""
        match intent.route, arguments:
            case Route.ITEM, (Intent(item=int(number)) as request,):
                return (request.with_item(number & OWN_MASK),)
            case ((Route.QUESTION | Route.CONNECTION), (int(number), *others)):
                return (number & OWN_MASK, *others)
            case Route.CALLBACK, (server, int(number), *others):
                return (server, number & OWN_MASK, *others)
            case Route.JOB, (str(job), *others):
                return (job.partition(EPOCH_SEPARATOR)[0], *others)
        return arguments

    # The following methods run on the thread of the room

    def _send(self, id: int, data: bytes) -> None:
        """Send a request, or fail it if the core has ended or does not read."""
        wire = self._wire
        if wire is None:
            self._fail(id, f"{self.title} has ended")
        elif wire.unread > MAX_UNREAD_BYTES:
            self._fail(id, f"{self.title} does not answer")
            self.room.changes.notify()
        else:
            wire.send(data)

    def _fail(self, id: int, reason: str, *, is_value_error: bool = False) -> None:
        """End a request, and the call that it started, with an error."""
        method, future = self._pending.pop(id, ("", None))
        if (call := self._calls.pop(id, None)) is not None:
            call.fail(reason)
        if future is None:
            return
        intent = INTENTS.get(method)
        if intent is not None and not intent.has_result:
            self.notify(f"{method.replace('_', ' ')}: {reason}", Severity.ERROR)
        # Callers that get a future expect ValueError, as for invalid answers.
        is_value_error |= intent is not None and intent.returns_future
        future.set_exception(ValueError(reason) if is_value_error else DeskUserError(reason))

    def _fail_all(self, reason: str) -> None:
        """End all requests and calls with an error."""
        for id in [*self._pending, *self._calls]:
            self._fail(id, reason)
        self.room.changes.notify()

    def notify(self, text: str, severity: Severity) -> None:
        """Notify the person."""
        self.journal.notify(text, severity)

    async def follow(self, wire: Wire) -> None:
        """Update the copy until the core ends.

        Raises: EOFError or OSError when it ends; ValueError for an invalid message.
        """
        silence_watch = asyncio.create_task(self._watch_silence())
        try:
            self._wire = wire
            while True:
                message = await wire.receive()
                self._last_message = time.monotonic()
                if message is LOST:
                    self._fail_all(f"the answer of {self.title} was deleted before it could be read")
                else:
                    self._on_message(_core_decoder.decode(message))
        finally:
            silence_watch.cancel()
            self._wire = None
            wire.close()

    async def _watch_silence(self) -> None:
        """Ping the core again and again. Report when it stops or resumes answering."""
        self._last_message = last_beat = time.monotonic()
        was_silent = False
        while True:
            self._ask("ping", ())
            await asyncio.sleep(PING_PERIOD_S)
            earlier_beat, last_beat = last_beat, time.monotonic()
            if last_beat - earlier_beat > PING_PERIOD_S + SILENT_S / 2:
                self._last_message = last_beat  # this process was suspended, so the core may not be silent
            is_silent = last_beat - self._last_message >= SILENT_S and not self.room.is_cut_off
            if is_silent and not was_silent:
                self.notify(f"{self.title} does not answer: it hangs or is stopped", Severity.WARNING)
            elif was_silent and not is_silent:
                self.notify(f"{self.title} answers again", Severity.INFO)
            was_silent = is_silent

    def _on_message(self, message: FromCore) -> None:
        """Update the copy with a message."""
        if not self._handle_pong(message):
            self._apply_message(message)
            self.room.changes.notify()

    def _handle_pong(self, message: FromCore) -> bool:
        """Handle the reply to a ping, and return True. For any other message, return False."""
        if not isinstance(message, Reply) or self._pending.get(message.id, ("", None))[0] != "ping":
            return False
        self._on_reply(message.id, message)
        return True

    def _apply_message(self, message: FromCore) -> None:
        match message:
            case State(part, key, value):
                self._on_state(part, key, _part_decoders[part].decode(value))
            case TrafficBatch():
                missing = self.room.frames.add_batch(message, self._epoch, self.label)
                self.room.pair()
                if missing and self._has_frames:
                    self._report_missing(missing)
                self._has_frames = True
            case Reply(id):
                self._on_reply(id, message)
            case CallUpdate(id) if (call := self._calls.get(id)) is not None:
                call.connection = message.connection + (self._epoch << EPOCH_BITS)
                call.request_id, call.progress = message.request_id, message.progress
                call.logs += message.logs
                if message.outcome is not None:
                    del self._calls[id]
                    call.end(message.outcome)

    def _report_missing(self, missing: int) -> None:
        """Log the number of missing frames, at most once in `MIN_REPORT_PERIOD_S`."""
        self._missing += missing
        if (now := time.monotonic()) - self._missing_report_time > MIN_REPORT_PERIOD_S:
            reason = "they arrived faster than this desk reads them"
            text = f"{self._missing:,} frames of {self.title} are left out: {reason}"
            self.journal.log("warning", "server", text)
            self._missing = 0
            self._missing_report_time = now

    def _on_reply(self, id: int, reply: Reply) -> None:
        if reply.error:
            self._fail(id, reply.error, is_value_error=reply.is_value_error)
        elif id in self._pending:
            method, future = self._pending.pop(id)
            future.set_result(METHODS[method].result.decode(reply.value))

    def _on_state(self, part: str, key: str, value: Any) -> None:
        """Store a part of the core's state, with the numbers of this copy."""
        offset = NumberOffset(self._epoch, self.label)
        if part == "view":
            is_reconnected = bool(self._view.gone)
            self._view = offset.view(value)
            self.state_event.set()
            if is_reconnected and not self.room.is_quiet:
                self.notify(f"attached to {self.title}", Severity.INFO)
        elif part == "logs":
            for line in value:
                # A core sends past lines again at every connection; skip those. Lines that do not come from
                # the core itself have the number -1.
                if line.number < 0 or line.number > self._last_line:
                    self._last_line = max(self._last_line, line.number)
                    self.journal.keep_line(offset.line(line))
        elif part == "notices":
            for notice in value:
                text = f"{self.label}: {notice.text}" if self.label else notice.text
                self.journal.keep_notice(structs.replace(notice, text=text))
        else:
            self._parts[part, key] = offset.part(part, value)

    def mark_ended(
        self, predicate: str, suffix: str = "", *, is_news: bool = True, severity: Severity = Severity.ERROR
    ) -> None:
        """Mark the core as ended.

        `predicate` is the reason, as a predicate after the name of the core. `suffix` is appended to the
        notice. If `is_news` is False, no notice is shown.
        """
        reason = f"{self.title} {predicate}"
        self._fail_all(reason)
        if self.room.is_over or self._view.gone:
            return
        self.room.frames.close_all(self._epoch)
        self._parts["questions", ""] = tuple(_withdrawn(question, reason) for question in self.questions())
        version = self._view.questions_version + 1
        now = time.time()
        self.last_clients = tuple(
            structs.replace(client, left=client.left or now, running=0) for client in self._view.clients
        )
        self._view = structs.replace(
            self._view, gone=reason, clients=(), stuck=None, questions_version=version
        )
        self.state_event.set()
        self.room.changes.notify()
        if is_news:
            self.notify(f"{reason}: its traffic is kept{suffix}", severity)

    def replace_core(self, core: Welcome) -> None:
        """Reset the copy, because another core replaces its core."""
        self.core = core
        self._epoch = self.room.enter(self)
        self._parts.clear()
        self._detail_connection = 0
        self._last_line = -1


def join_message(viewers: int = 1) -> bytes:
    """Return the first message from a front end that attaches."""
    return framed(Join(__version__, viewers))


def message_decoder() -> msgspec.msgpack.Decoder[FromCore]:
    """Return the decoder of the messages of a core."""
    return _core_decoder


def refuse_other_version(core: Welcome) -> None:
    """Raise DeskUserError if the core runs another version."""
    if core.mcpdesk != __version__:
        raise DeskUserError(
            other_version(core), "Start it again with this version, or attach with the version it has."
        )


def other_version(core: Welcome) -> str:
    """Return a sentence that says why a front end cannot attach to a core of another version."""
    return f"{core.title} runs mcpdesk {core.mcpdesk}, this is {__version__}: both must be the same version."


def _withdrawn(question: Question, reason: str) -> Question:
    """Return a question as it is after its core has ended."""
    if question.state is not QuestionState.WAITING:
        return question
    return structs.replace(question, state=QuestionState.WITHDRAWN, reason=reason, ended=time.time())
