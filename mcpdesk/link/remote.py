"""The link to a core in another process of this user: the screen's side of an attachment.

Snapshots are answered from the last copy, so that a core that is stuck, or has ended, still has a screen. A
thread of its own keeps the copy. When the core ends, what was seen of it stays; it is looked for until one
with the same servers is there again, whose numbers go on above those of the one before.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.journal import Journal
from mcpdesk.inbox.question import Question, QuestionState
from mcpdesk.link.attach_messages import (
    ASKED,
    GREET_ME,
    HEAD,
    METHODS,
    PARTS,
    SNAPSHOTS,
    TOLD,
    WAITED,
    Ask,
    CallNews,
    FromCore,
    Join,
    Reply,
    State,
    TrafficBatch,
    Welcome,
    framed,
    length,
    pack,
    read_message,
)
from mcpdesk.link.link import Link, promise
from mcpdesk.link.upstream_views import SchemaChecks
from mcpdesk.link.values import (
    CallOutcome,
    Catalogue,
    ClientDetail,
    CoreView,
    ItemKind,
    LogLine,
    Notice,
    Progress,
    Protection,
    SchemaFailure,
    Severity,
)
from mcpdesk.protocol import codec
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_MASK, Store
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.record import Gap
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

GREET_S = 2.0
"""How long a core may take to greet."""
FIRST_S = 10.0
"""How long it may take to show itself for the first time."""
WAIT_S = 2.0
"""How long `WAITED` methods wait."""
SEARCH_S = 0.5
"""Seconds between two looks for a core that has ended."""
BEAT_S = 1.0
"""Seconds between two questions whether the core still answers."""
SILENT_S = 3.0
"""Seconds without a word of it, after which the screen says so."""
HELD_BYTES = 64 << 20
"""Bytes of frames that stay in memory."""
EXCHANGES = 100_000
UNREAD_BYTES = 16 << 20
"""Bytes of what is asked that may wait for a core that does not read."""
EPOCH: Final = 32
"""Bits of the numbers of one core; how many cores there were is above them."""
_OWN: Final = (1 << EPOCH) - 1
_OF_A_NUMBER: Final = frozenset({"answer", "decline", "cancel_question", "disconnect"})
"""Methods whose first argument is the number of a question or a connection."""
_log = logging.getLogger(__name__)
_of_core: msgspec.msgpack.Decoder[FromCore] = msgspec.msgpack.Decoder(FromCore)
_welcome = msgspec.msgpack.Decoder(Welcome)
_parts = {name: msgspec.msgpack.Decoder(kind) for name, kind in PARTS.items()}


class RunningCore(Struct, frozen=True):
    """A core of this user on this machine: what it says of itself, and its socket."""

    welcome: Welcome
    path: str


def running_cores(state: str | None = None) -> list[RunningCore]:
    """The cores a screen can be attached to, the oldest first; `state` as for `rendezvous.meeting_point`.

    Raises: UntrustedFolder; OSError.
    """
    found = list[RunningCore]()
    for path in rendezvous.attach_points(state):
        with suppress(OSError, EOFError, ValueError, msgspec.MsgspecError):
            if (connection := rendezvous.connect(path)) is not None:
                with connection, connection.makefile("rb") as reader:
                    connection.settimeout(GREET_S)
                    connection.sendall(GREET_ME)
                    found.append(RunningCore(_welcome.decode(read_message(reader.read)), path))
    return sorted(found, key=lambda core: core.welcome.since)


class RemoteTraffic(Store):
    """Frames of cores, numbered anew; the newest stay in memory."""

    def __init__(self, fetch: Callable[[int, int], bytes]) -> None:
        """`fetch` gets all bytes of a large frame, by epoch and the core's number."""
        super().__init__(HELD_BYTES)
        self.gaps: list[Gap] = []
        self._fetch = fetch
        self._spans: list[tuple[int, int, int]] = []
        """First number here, epoch and number there of frames that follow each other."""
        self._next = (-1, 0)
        """Epoch and number there of the frame that would follow the last."""

    def take(self, news: TrafficBatch, epoch: int) -> None:
        """Keep what a core sent."""
        above = epoch << EPOCH
        for info in news.connections:
            self.connections[info.number + above] = structs.replace(info, number=info.number + above)
        self.marks += (structs.replace(mark, connection=mark.connection + above) for mark in news.marks)
        if news.missed:
            self.gaps.append(Gap(self.count, news.missed, news.why))
        for frame in news.frames:
            number = self.count
            if (epoch, frame.number) != self._next:
                self._spans.append((number, epoch, frame.number))
            self._next = epoch, frame.number + 1
            kept = structs.replace(frame, number=number, connection=frame.connection + above)
            segment = self.ring.segment(number) if number & SEGMENT_MASK else self.ring.open(number)
            assert segment is not None
            segment.entries.append(kept)
            segment.is_whole &= len(frame.data) == frame.size
            if (note := news.notes.get(frame.number)) is not None:
                segment.notes[number] = note
            self.ring.account(number, len(frame.data) + FRAME_COST)
            self.count = number + 1
            while self.ring.is_over:
                self.ring.drop_oldest()

    def close_all(self) -> None:
        """Note that every connection has ended."""
        now = time.time()
        for number, info in list(self.connections.items()):
            if info.closed is None:
                self.connections[number] = structs.replace(info, closed=max(now, info.opened))

    def whole(self, number: int) -> bytes:
        """All bytes of a frame; what is kept of it when the core is not there any more."""
        frame = self.frame(number)
        if frame is None or len(frame.data) == frame.size:
            return b"" if frame is None else frame.data
        first, epoch, there = self._spans[bisect_right(self._spans, number, key=itemgetter(0)) - 1]
        return self._fetch(epoch, there + number - first) or frame.data


class RemoteCall:
    """Implements `LinkCall`."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.request_id = self.connection = 0
        """Both 0 until the core has said them."""
        self.started = time.time()
        self.progress: Progress | None = None
        self.logs: tuple[str, ...] = ()
        self.outcome: Future[CallOutcome] = Future()
        self._cancel = cancel

    def cancel(self) -> None:
        """Tell the server, and end at once."""
        self._cancel()
        self.fail("cancelled from the desk", cancelled=True)

    def fail(self, why: str, *, cancelled: bool = False) -> None:
        """There will be no response."""
        error = {"code": 0, "message": why}
        self.end(CallOutcome(None, error, b"", time.time() - self.started, cancelled))

    def end(self, outcome: CallOutcome) -> None:
        """Only the first end counts."""
        with suppress(InvalidStateError):
            self.outcome.set_result(outcome)


class RemoteLink(Link):
    """Implements `Link` over a Unix socket. Most of its methods are made from the tables of the messages."""

    def __init__(self, core: RunningCore, state: str | None = None) -> None:
        """Attach to a core, and wait until it shows itself; `state` as for `running_cores`.

        Raises: DeskUserError when it is of another version, or does not show itself.
        """
        self.core = core.welcome
        """The one it is attached to, or was."""
        self.journal = Journal()
        """The log and the notices of the core, and our own."""
        refuse_other_version(core.welcome)
        self._state = state
        self._frames = RemoteTraffic(self._fetch)
        self.traffic = Index(self._frames, EXCHANGES)
        self.traffic.secret_headers = core.welcome.secret_headers
        self._view = CoreView((), (), Protection.STARTING)
        self._parts: dict[tuple[str, str], Any] = {}
        self._checks = SchemaChecks()
        self._epoch = 0
        self._looked_at = 0
        self._heard = time.monotonic()
        """When the core last said something."""
        self._asked: dict[int, tuple[str, Future[Any]]] = {}
        self._calls: dict[int, RemoteCall] = {}
        self._ids = iter(range(1, 1 << 62))
        self._lock = threading.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._loop = asyncio.new_event_loop()
        self._shown = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, args=(core.path,), name="attached", daemon=True)
        self._thread.start()
        if not self._shown.wait(FIRST_S) or self._view.gone:
            self.close()
            raise DeskUserError(f"{core.welcome.title} does not answer.", "`mcpdesk attach` lists what runs.")

    def close(self) -> None:
        """Leave; the core goes on."""
        self._is_over = True
        self._call_soon(self._stop)
        self._thread.join(WAIT_S)

    def view(self) -> CoreView:
        """The last copy; `gone` says so once the core has ended, `silent_s` while it does not answer."""
        silent_s = time.monotonic() - self._heard
        is_silent = silent_s >= SILENT_S and not self._view.gone
        return replace(self._view, silent_s=max(1, int(silent_s))) if is_silent else self._view

    def catalogue(self, server: str) -> Catalogue:
        """What a server offers now."""
        found: Catalogue | None = self._parts.get(("catalogue", server))
        return found or super().catalogue(server)

    def watched(self, server: str) -> Mapping[str, int]:
        """Subscribed resources, and how often each was reported as changed."""
        found: dict[str, int] | None = self._parts.get(("watched", server))
        return found or {}

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments here, by the schema in the catalogue."""
        for item in self.catalogue(server).items:
            if (item.kind, item.name) == (ItemKind.TOOL, tool) and "inputSchema" in item.definition:
                return self._checks.failures((server, tool), item.definition["inputSchema"], arguments)
        return []

    def client(self, connection: int) -> ClientDetail | None:
        """More about one client; it is little until the core has said it."""
        if connection != self._looked_at:
            self._looked_at = connection
            self._ask("look", (connection & _OWN,))
        if not any(one.connection == connection for one in self._view.clients):
            return None
        nothing = ClientDetail({}, None, 0.0, (), (), False, (), ())
        found: ClientDetail | None = self._parts.get(("client", str(connection & _OWN)), nothing)
        return found

    def logs(self, after: int = -1) -> list[LogLine]:
        """Log lines numbered above `after`."""
        return self.journal.lines(after)

    def notices(self, after: int = -1) -> list[Notice]:
        """Notices numbered above `after`, of the time since the screen was attached."""
        return self.journal.notices(after)

    def busy(self) -> tuple[str, ...]:
        """The calls of this screen: all else goes on without it."""
        count = len(self._calls)
        return (f"{count} running call{'s' if count > 1 else ''}",) if count else ()

    def request(self, server: str, method: str, params: dict[str, Any]) -> RemoteCall:
        """Send one request as the peer `desk`. Raises: LocalProtocolError for params JSON cannot carry."""
        codec.encode_part(params)
        id = next(self._ids)
        call = self._calls[id] = RemoteCall(lambda: self._withdraw(id))
        self._ask("request", (server, method, params), id)
        return call

    def _withdraw(self, id: int) -> None:
        if self._calls.pop(id, None) is not None:
            self._ask("cancel", (id,))

    def _fetch(self, epoch: int, number: int) -> bytes:
        if epoch != self._epoch:
            return b""
        found: bytes | None = self._wait("whole", (number,))
        return found or b""

    def _wait(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """The value a core gives within moments; None without one."""
        try:
            return self._ask(method, arguments).result(WAIT_S)
        except (TookTooLong, DeskUserError, ValueError):
            return None

    def _ask(self, method: str, arguments: tuple[Any, ...], id: int | None = None) -> Future[Any]:
        """Ask the core; the future fails with ValueError or DeskUserError."""
        id = next(self._ids) if id is None else id
        done = promise()
        self._asked[id] = method, done
        self._call_soon(lambda: self._send(id, framed(Ask(id, method, pack(arguments)))))
        return done

    def _call_soon(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(function)

    # On the thread of the link

    def _run(self, path: str) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner, suppress(asyncio.CancelledError):
            runner.run(self._live(path))

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _send(self, id: int, data: bytes) -> None:
        writer = self._writer
        if writer is None:
            self._fail(id, f"{self.core.title} has ended")
        elif writer.transport.get_write_buffer_size() > UNREAD_BYTES:
            self._fail(id, f"{self.core.title} does not answer")
        else:
            writer.write(data)

    def _fail(self, id: int, why: str) -> None:
        method, done = self._asked.pop(id, ("", None))
        if (call := self._calls.pop(id, None)) is not None:
            call.fail(why)
        if done is None:
            return
        if method in TOLD:
            self._note(f"{method.replace('_', ' ')}: {why}", Severity.ERROR)
        # Who asks for something to be done hears of ValueError, as of answers that do not fit.
        done.set_exception(ValueError(why) if method in ASKED else DeskUserError(why))

    def _note(self, text: str, severity: Severity) -> None:
        self.journal.notify(text, severity)

    async def _live(self, path: str) -> None:
        """Follow one core after another."""
        while not self._is_over:
            ended = "has ended"
            try:
                await self._follow(path)
            except (asyncio.IncompleteReadError, OSError):
                pass
            except Exception as error:
                _log.exception("what a core sent cannot be shown")
                ended = f"sent what cannot be shown: {error}"
            finally:
                self._lose(ended)
            path = await self._found_again()
            self._epoch += 1
            self._parts.clear()
            self._looked_at = 0

    async def _found_again(self) -> str:
        """The socket of the next core with the same servers, once there is one."""
        refused = 0
        names = {server.name for server in self._view.servers}
        while True:
            await asyncio.sleep(SEARCH_S)
            with suppress(OSError):
                for core in await asyncio.to_thread(running_cores, self._state):
                    welcome = core.welcome
                    if set(welcome.names) == names:
                        if welcome.mcpdesk == __version__:
                            self.core = welcome
                            return core.path
                        if welcome.pid != refused:
                            refused = welcome.pid
                            self._note(other_version(welcome), Severity.WARNING)

    async def _follow(self, path: str) -> None:
        """Attach to a core, and keep the copy until it ends."""
        connection = await asyncio.to_thread(rendezvous.connect, path)
        if connection is None:
            return
        connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            writer.write(framed(Join(__version__)))
            async with asyncio.timeout(GREET_S):
                self.core = _welcome.decode(await _message(reader))
            self._writer = writer
            watching = asyncio.create_task(self._watch_silence())
            try:
                while True:
                    news = await _message(reader)
                    self._heard = time.monotonic()
                    self._take(_of_core.decode(news))
            finally:
                watching.cancel()
        finally:
            self._writer = None
            writer.close()

    async def _watch_silence(self) -> None:
        """Ask the core again and again whether it answers, and note when it does not."""
        self._heard = beat = time.monotonic()
        was_silent = False
        while True:
            self._ask("ping", ())
            await asyncio.sleep(BEAT_S)
            last, beat = beat, time.monotonic()
            if beat - last > BEAT_S + SILENT_S / 2:
                self._heard = beat  # it was this process that stood still
            is_silent = beat - self._heard >= SILENT_S
            if is_silent and not was_silent:
                self._note(f"{self.core.title} does not answer: it hangs, or was stopped", Severity.WARNING)
            elif was_silent and not is_silent:
                self._note(f"{self.core.title} answers again", Severity.INFO)
            was_silent = is_silent

    def _take(self, news: FromCore) -> None:
        """Bring the copy up to date."""
        match news:
            case State(part, key, value):
                self._take_part(part, key, _parts[part].decode(value))
            case TrafficBatch():
                self._frames.take(news, self._epoch)
            case Reply(id):
                self._take_reply(id, news)
            case CallNews(id) if (call := self._calls.get(id)) is not None:
                call.connection = news.connection + (self._epoch << EPOCH)
                call.request_id, call.progress = news.request_id, news.progress
                call.logs += news.logs
                if news.outcome is not None:
                    del self._calls[id]
                    call.end(news.outcome)

    def _take_reply(self, id: int, reply: Reply) -> None:
        if reply.error:
            method, done = self._asked.pop(id, ("", None))
            if (call := self._calls.pop(id, None)) is not None:
                call.fail(reply.error)
            if done is not None:
                is_value = reply.is_value_error or method in ASKED
                done.set_exception(ValueError(reply.error) if is_value else DeskUserError(reply.error))
            if method in TOLD:
                self._note(f"{method.replace('_', ' ')}: {reply.error}", Severity.ERROR)
        elif id in self._asked:
            method, done = self._asked.pop(id)
            done.set_result(METHODS[method].result.decode(reply.value))

    def _take_part(self, part: str, key: str, value: Any) -> None:
        above = self._epoch << EPOCH
        if part == "view":
            came_back = bool(self._view.gone)
            self._view = _raised(value, above)
            self._shown.set()
            if came_back:
                self._note(f"attached to {self.core.title}", Severity.INFO)
        elif part == "logs":
            for line in value:
                self.journal.keep_line(line)
        elif part == "notices":
            for notice in value:
                self.journal.keep_notice(notice)
        else:
            if part == "questions":
                value = tuple(_raised_question(each, above) for each in value)
            elif part == "catalogue":
                value = replace(value, version=value.version + above)
            self._parts[part, key] = value

    def _lose(self, ended: str) -> None:
        """The core is not there any more."""
        said = f"{self.core.title} {ended}"
        for id in list(self._asked):
            self._fail(id, said)
        for id in list(self._calls):
            self._fail(id, said)
        if self._is_over or self._view.gone:
            return
        self._frames.close_all()
        self._parts["questions", ""] = tuple(_withdrawn(each, said) for each in self.questions())
        version = self._view.questions_version + 1
        self._view = replace(self._view, gone=said, clients=(), stuck=None, questions_version=version)
        self._shown.set()
        self._note(f"{said}: what was seen of it stays, and it is looked for again", Severity.ERROR)


async def _message(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(length(await reader.readexactly(HEAD)))


def refuse_other_version(core: Welcome) -> None:
    """Raises: DeskUserError for a core of another version than ours."""
    if core.mcpdesk != __version__:
        raise DeskUserError(
            other_version(core), "Start it again with this version, or attach with the version it has."
        )


def other_version(core: Welcome) -> str:
    """Why a core cannot be attached to."""
    return f"{core.title} is of mcpdesk {core.mcpdesk}, this is {__version__}: a screen needs the same."


def _raised(view: CoreView, above: int) -> CoreView:
    """A view whose numbers are above those of the cores before."""
    if not above:
        return view
    work = structs.replace(
        view.work,
        jobs_version=view.work.jobs_version + above,
        callbacks_version=view.work.callbacks_version + above,
        todo_version=view.work.todo_version + above,
    )
    return replace(
        view,
        servers=tuple(replace(one, catalogue_version=one.catalogue_version + above) for one in view.servers),
        clients=tuple(replace(one, connection=one.connection + above) for one in view.clients),
        questions_version=view.questions_version + above,
        work=work,
    )


def _raised_question(question: Question, above: int) -> Question:
    return structs.replace(question, id=question.id + above) if above else question


def _withdrawn(question: Question, why: str) -> Question:
    if question.state is not QuestionState.WAITING:
        return question
    return structs.replace(question, state=QuestionState.WITHDRAWN, reason=why, ended=time.time())


def _snapshot(name: str) -> Callable[..., Any]:
    def snapshot(link: RemoteLink) -> Any:
        found = link._parts.get((name, ""))
        return getattr(Link, name)(link) if found is None else found

    return snapshot


def _asking(name: str) -> Callable[..., Any]:
    plain = getattr(Link, name)
    signature = inspect.signature(plain)

    def ask(link: RemoteLink, *given: Any, **named: Any) -> Any:
        bound = signature.bind(link, *given, **named)
        bound.apply_defaults()
        arguments = bound.args[1:]
        if name in _OF_A_NUMBER:
            arguments = (arguments[0] & _OWN, *arguments[1:])
        if name in WAITED:
            found = link._wait(name, arguments)
            return plain(link, *given, **named) if found is None else found
        done = link._ask(name, arguments)
        return done if name in ASKED else None

    return ask


for _names, _make in ((SNAPSHOTS, _snapshot), ((*TOLD, *ASKED, *WAITED), _asking)):
    for _name in _names:
        setattr(RemoteLink, _name, _make(_name))
