"""Side of a core in the connection to an attached screen: send changes and carry out requests.

Changes are not queued. When the core reports a change or the screen sends a request, a thread reads the link
and sends the data that the screen does not have yet. If the screen reads slowly, the thread reads the link
less often. If the screen falls far behind in the traffic, frames are skipped and counted. A slow screen
therefore costs the core only this thread. While the core is idle, the only messages are the pings of the
screen, one a second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from socket import SHUT_RDWR, socket
from typing import Any

import msgspec
from msgspec import Struct, structs

from mcpdesk.errors import DeskError
from mcpdesk.link.attach_messages import (
    FEATURE_PARTS,
    METHODS,
    Ask,
    CallUpdate,
    FromScreen,
    Join,
    Reply,
    State,
    TrafficBatch,
    Welcome,
    framed,
    pack,
    read_message,
)
from mcpdesk.link.link import INTENTS, SNAPSHOTS, LinkCall
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.values import CallOutcome, CoreView, LogLine
from mcpdesk.recorder.index.pairing import needs_all_bytes
from mcpdesk.recorder.record import ConnectionInfo, Frame, HttpNote
from mcpdesk.version import __version__

JOIN_TIMEOUT_S = 10.0
"""Maximum seconds to wait for the `Join` of a visitor."""
MIN_READ_PERIOD_S = 0.04
"""Minimum number of seconds between two reads of the core. A request of the screen causes a read at once."""
POLL_S = 0.2
"""Seconds between two reads of a core that is stuck, or that does not report its changes."""
MIN_SLOW_PERIOD_S = 0.5
"""Minimum number of seconds between two reads of values that have no version."""
DETAIL_TTL_S = 5.0
"""Seconds for which a screen receives details of a client after the screen asked for them."""
MAX_PAST_FRAMES = 20_000
"""Number of past frames that a screen receives when it attaches, or after it fell behind."""
MAX_UNSENT_FRAMES = 50_000
"""Number of unsent frames above which a screen counts as far behind."""
SLICE_FRAMES = 64
"""Maximum number of frames that are read from the link at once."""
BATCH_BYTES = 1 << 20
"""Approximate size in bytes of one batch of frames."""
MAX_BATCHES = 8
"""Maximum number of batches of frames that are sent before other state is read again."""
MAX_LOG_LINES = 1_000
"""Maximum number of log lines in one message."""
MAX_UNANSWERED_REQUESTS = 1_000
"""Maximum number of unanswered requests. If there are more, no further requests are read."""
_log = logging.getLogger(__name__)
_screen_decoder: msgspec.msgpack.Decoder[FromScreen] = msgspec.msgpack.Decoder(FromScreen)


def serve_screen(make_link: Callable[[int], LocalLink], welcome: Welcome, connection: socket) -> None:
    """Serve one visitor until it disconnects.

    If it attaches, `make_link` creates its link. The argument is the number of viewers.
    """
    try:
        connection.settimeout(JOIN_TIMEOUT_S)
        with connection.makefile("rb") as reader:
            data = read_message(reader.read)
            join_request = _screen_decoder.decode(data) if data else None
            connection.sendall(framed(welcome))
            if not isinstance(join_request, Join) or join_request.mcpdesk != __version__:
                return
            connection.settimeout(None)
            screen = AttachedScreen(make_link(join_request.viewers), connection)
            try:
                screen.serve(reader.read)
            finally:
                screen.end()
    except (EOFError, OSError):
        pass  # the visitor disconnected
    except (ValueError, msgspec.MsgspecError) as error:
        _log.warning("an attached screen was disconnected, because it sent invalid data: %s", error)
    finally:
        connection.close()


class AttachedScreen:
    """One attached screen. The calling thread reads its requests; another thread sends messages."""

    def __init__(self, link: LocalLink, connection: socket) -> None:
        self._link = link
        self._connection = connection
        self._has_ended = False
        self.is_waiting = False
        """True while the core is read only after a reported change or a request, and not at intervals."""
        self._wake = threading.Event()
        """Set when the core has changed or a request has arrived."""
        self._is_urgent = threading.Event()
        """Set when a message for which the screen waits must be sent."""
        self._request_slots = threading.Semaphore(MAX_UNANSWERED_REQUESTS)
        self._session = ScreenSession(link, self._wake_at_once)
        self._updates = CoreUpdates(link, self._send, past=MAX_PAST_FRAMES)
        self._sender = threading.Thread(target=self._send_all, name="attached-screen", daemon=True)

    def serve(self, read: Callable[[int], bytes]) -> None:
        """Carry out requests until the screen disconnects.

        Raises: EOFError, OSError, ValueError, MsgspecError.
        """
        self._sender.start()
        stop_listening = self._link.on_change(self._on_change)
        try:
            while not self._has_ended:
                data = read_message(read)
                self._request_slots.acquire()
                self._session.handle(data)
        finally:
            stop_listening()

    def end(self) -> None:
        """Stop sending, and cancel the calls of the screen, which has disconnected."""
        self._has_ended = True
        self._wake_at_once()
        self._session.end()

    def _on_change(self) -> None:
        """Handle a change of the core. Called often, and on any thread."""
        if not self._wake.is_set():
            self._wake.set()

    def _wake_at_once(self) -> None:
        """Make the sender read the core now. May be called on any thread."""
        self._is_urgent.set()
        self._wake.set()

    # The sender's thread

    def _send_all(self) -> None:
        """Send updates until the screen disconnects."""
        try:
            while not self._has_ended:
                self._wake.clear()
                self._is_urgent.clear()
                read_time = time.monotonic()
                self._send_updates()
                rest_s = self._rest_s()
                self.is_waiting = rest_s is None
                self._wake.wait(rest_s)
                self.is_waiting = False
                self._is_urgent.wait(max(0.0, read_time + MIN_READ_PERIOD_S - time.monotonic()))
        except OSError:
            pass  # the screen disconnected
        except Exception:
            _log.exception("updates cannot be sent to an attached screen")
        finally:
            self._has_ended = True
            with suppress(OSError):
                self._connection.shutdown(SHUT_RDWR)  # the reading thread then ends as well

    def _rest_s(self) -> float | None:
        """Return the seconds until the core must be read even without a change, or None if only changes cause
        a read.
        """
        if self._updates.is_behind:
            return 0.0
        if self._updates.is_stuck or not self._link.reports_changes:
            return POLL_S
        read_times = (self._updates.next_slow_read, self._session.next_slow_read)
        due_times = [read_time for read_time in read_times if read_time is not None]
        return max(0.0, min(due_times) - time.monotonic()) if due_times else None

    def _send_updates(self) -> None:
        """Send everything that the screen does not have yet."""
        # Calls are read first but sent last: a screen looks for the frames of an outcome at once.
        call_updates = self._session.call_updates()
        self._updates.send_traffic()
        self._updates.send_lines()
        self._updates.send_state()
        for message in (*self._session.own_parts(), *call_updates):
            self._send(message)
        for reply in self._session.replies():
            self._send(reply)
            self._request_slots.release()

    def _send(self, message: Struct) -> None:
        self._connection.sendall(framed(message))


class ScreenSession:
    """Requests of one screen, and the messages that only this screen needs."""

    def __init__(self, link: LocalLink, wake: Callable[[], object]) -> None:
        """`link` is used only by this screen, and `end` closes it.

        `wake` is called when a message must be sent.
        """
        self._link = link
        self._wake = wake
        self._replies: deque[Reply] = deque()
        """Replies that are not sent yet."""
        self._calls: dict[int, _ScreenCall] = {}
        """Running calls of the screen, by id of its request."""
        self._watched_servers: set[str] = set()
        """Servers with subscriptions of the screen."""
        self._detail_request = (0, 0.0)
        """Connection of the client whose details are sent, and the monotonic time at which sending them
        stops."""
        self._detail_reads = _ReadInterval()
        self._sent = SentVersions()
        """Version of each part that was sent last, by name and key."""

    def handle(self, data: bytes) -> None:
        """Carry out one request. Raises: ValueError, MsgspecError if it is invalid."""
        ask = _screen_decoder.decode(data)
        if not isinstance(ask, Ask) or ask.method not in METHODS:
            raise ValueError(f"unknown request: {ask!r:.200}")
        self._execute(ask, METHODS[ask.method].arguments.decode(ask.arguments))

    def end(self) -> None:
        """Cancel the calls of the screen, and close the link."""
        for call in list(self._calls.values()):
            call.call.cancel()
        self._link.close()

    @property
    def next_slow_read(self) -> float | None:
        """Monotonic time when `own_parts` must be called again, or None if that is not necessary."""
        return self._detail_reads.due

    @property
    def waiting(self) -> int:
        """Number of replies that are not sent yet, plus the number of running calls."""
        return len(self._replies) + len(self._calls)

    def replies(self) -> Iterator[Reply]:
        """Yield the replies to send, and remove them."""
        while self._replies:
            yield self._replies.popleft()

    def call_updates(self) -> list[CallUpdate]:
        """Return the changes of the screen's calls since the last call of this method."""
        updates = [update for call in list(self._calls.values()) if (update := call.update()) is not None]
        for update in updates:
            if update.outcome is not None:
                del self._calls[update.id]
        return updates

    def own_parts(self) -> Iterator[State]:
        """Yield the subscriptions, and the details of the client that the screen shows, if they changed."""
        for server_name in list(self._watched_servers):
            watched = dict(self._link.watched(server_name))
            yield from self._sent.changed("watched", watched, watched.copy, server_name)
        connection, deadline = self._detail_request
        if not connection or time.monotonic() > deadline:
            self._detail_reads.due = None
        elif self._detail_reads.is_due():
            client = self._link.client(connection)
            yield from self._sent.changed("client", client, lambda: client, str(connection))

    def _execute(self, ask: Ask, arguments: tuple[Any, ...]) -> None:
        """Call the method of a request, and queue its reply."""
        try:
            if ask.method in ("watch", "unwatch"):
                self._watched_servers.add(arguments[0])
            session_methods: dict[str, Callable[..., Any]] = {
                "request": partial(self._request, ask.id),
                "cancel": self._cancel,
                "look": self._look,
                "frame_bytes": self._link.traffic.frame_bytes,
                "ping": lambda: None,
            }
            value = (session_methods.get(ask.method) or getattr(self._link, ask.method))(*arguments)
        except Exception as error:
            self._refuse(ask, error)
        else:
            if (intent := INTENTS.get(ask.method)) is not None and intent.returns_future:
                value.add_done_callback(partial(self._reply_later, ask))
            else:
                self._reply(Reply(ask.id, pack(value)))

    def _reply(self, reply: Reply) -> None:
        self._replies.append(reply)
        self._wake()

    def _reply_later(self, ask: Ask, future: Future[Any]) -> None:
        """Reply with the result or the exception of a future."""
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Exception):
            self._refuse(ask, error)
        else:
            self._reply(Reply(ask.id, pack(False if future.cancelled() else future.result())))

    def _refuse(self, ask: Ask, error: Exception) -> None:
        """Reply with an error. Log errors that are bugs."""
        if not isinstance(error, (DeskError, ValueError, KeyError)):
            _log.error("request %s of an attached screen failed", ask.method, exc_info=error)
        reason = f"unknown {error}" if isinstance(error, KeyError) else str(error)
        self._reply(Reply(ask.id, error=reason or repr(error), is_value_error=isinstance(error, ValueError)))

    def _request(self, id: int, server: str, method: str, params: dict[str, Any]) -> None:
        """Start a call of the screen."""
        call = self._link.request(server, method, params)
        self._calls[id] = _ScreenCall(id, call)
        call.outcome.add_done_callback(lambda _: self._wake())

    def _cancel(self, id: int) -> None:
        if call := self._calls.get(id):
            call.call.cancel()

    def _look(self, connection: int) -> None:
        """Send details of a client for `DETAIL_TTL_S` seconds."""
        self._detail_request = connection, time.monotonic() + DETAIL_TTL_S
        self._detail_reads.reset()


class _ReadInterval:
    """Minimum interval, `MIN_SLOW_PERIOD_S`, between two reads of values that have no version."""

    def __init__(self) -> None:
        self.due: float | None = None
        """Monotonic time of the next read if one was postponed, else None."""
        self._earliest = 0.0
        """Monotonic time before which no read is allowed."""

    def is_due(self) -> bool:
        """Return True if a read is allowed now. Otherwise set `due`, so that the read is made later."""
        now = time.monotonic()
        if now < self._earliest:
            self.due = self._earliest
            return False
        self.due = None
        self._earliest = now + MIN_SLOW_PERIOD_S
        return True

    def reset(self) -> None:
        """Allow the next read immediately."""
        self._earliest = 0.0


class SentVersions:
    """Version of each part that was sent last. For a part without a version, the last value is remembered."""

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], object] = {}

    def changed(
        self, part: str, version: object, make: Callable[[], object], key: str = ""
    ) -> Iterator[State]:
        """Yield the part, unless this version of it was already sent."""
        if (part, key) not in self._sent or self._sent[part, key] != version:
            self._sent[part, key] = version
            yield State(part, key, pack(make()))

    def is_new(self, name: str, version: object) -> bool:
        """Return True if the version differs from the last one, and remember it."""
        old_version = self._sent.get((name, ""))
        self._sent[name, ""] = version
        return old_version != version

    def keep_only(self, part: str, keys: Collection[str]) -> None:
        """Forget the versions of parts with other keys, because a new server may reuse a name."""
        for key in [key for key in self._sent if key[0] == part and key[1] not in keys]:
            del self._sent[key]

    def clear(self) -> None:
        """Forget all versions. Every part is then sent again."""
        self._sent.clear()


class CoreUpdates:
    """Messages that every screen of a core needs: traffic, log, and changes of state."""

    def __init__(self, link: LocalLink, send: Callable[[Struct], object], past: int) -> None:
        """`past` is the number of past frames that are sent first."""
        self._link = link
        self._send = send
        self._sent = SentVersions()
        self._connections: dict[int, ConnectionInfo] = {}
        """Data of each connection that was sent last, by number."""
        self._slow_reads = _ReadInterval()
        self.is_stuck = False
        """True if the core was stuck at the last read. A stuck core reports no changes."""
        count = link.traffic.frame_count
        self._next_frame = max(0, count - past)
        self._missed, self._why = self._next_frame, "they were recorded before this screen attached"
        """Number of frames that were skipped before the next batch, and the reason."""
        self._last_line = -1
        """Number of the last log line that was sent."""
        self._next_mark = self._next_remark = self._remarks_left_out = 0
        notices = link.notices()
        self._last_notice = notices[-1].number if notices else -1
        """Number of the last notice that was sent, or that existed before the screen attached."""

    def send_all_again(self) -> None:
        """Send the complete state again, because a new screen has not received any state."""
        self._sent.clear()
        self._slow_reads.reset()

    @property
    def is_behind(self) -> bool:
        """True if some frames were not sent yet."""
        return self._next_frame < self._link.traffic.frame_count

    @property
    def next_slow_read(self) -> float | None:
        """Monotonic time when `send_state` must be called again, or None if that is not necessary."""
        return self._slow_reads.due

    def send_history(self, send: Callable[[Struct], object], frames: int, lines: int) -> None:
        """Send the newest frames and log lines to a screen that has just joined."""
        index, stop = self._link.traffic, self._next_frame
        marks = tuple(index.marks[: self._next_mark])
        remarks = tuple(index.remarks[: self._next_remark])
        unkept_remarks = index.remarks_left_out
        send(TrafficBatch(tuple(index.connections.values())))
        reason = "they were recorded before this screen attached"
        for start in range(max(0, stop - frames), stop, SLICE_FRAMES):
            slice_frames = index.frames(start, min(stop, start + SLICE_FRAMES))
            existing_frames = [frame for frame in slice_frames if frame is not None]
            for batch in self._batches(existing_frames):
                send(TrafficBatch((), batch, self._notes(batch), why=reason))
        # Frames before remarks, because the screen looks for the frames of a remark at once.
        send(TrafficBatch((), marks=marks, remarks=remarks, remarks_left_out=unkept_remarks))
        sent_lines = [line for line in self._link.logs() if line.number <= self._last_line][-lines:]
        send(State("logs", "", pack(sent_lines)))

    def send_state(self) -> None:
        """Send changes of the state other than traffic and log."""
        view = self._link.view()
        self.is_stuck = view.stuck is not None
        self._sent.keep_only("catalogue", {server.name for server in view.servers})
        for server in view.servers:
            make = partial(self._link.catalogue, server.name)
            self._send_changed("catalogue", server.catalogue_version, make, server.name)
        self._send_snapshots(view)
        self._send_value("view", view)

    def _send_snapshots(self, view: CoreView) -> None:
        """Send changed snapshots and states of features. Those without a version are read at intervals."""
        is_due = self._slow_reads.is_due()
        are_jobs_new = self._sent.is_new("jobs version", view.work.jobs_version)
        for name, snapshot in SNAPSHOTS.items():
            make = getattr(self._link, name)
            if snapshot.version is not None:
                self._send_changed(name, snapshot.version(view), make)
            elif is_due or (name == "jobs" and are_jobs_new):
                self._send_value(name, make())
        for name, kind in FEATURE_PARTS.items():
            self._send_value(name, self._link.feature_part(kind))
        if is_due:
            self._send_connections(list(self._link.traffic.connections.values()))

    def _send_changed(self, part: str, version: object, make: Callable[[], object], key: str = "") -> None:
        """Send a part, unless this version of it was already sent."""
        for state in self._sent.changed(part, version, make, key):
            self._send(state)

    def _send_value(self, part: str, value: object, key: str = "") -> None:
        """Send a part that has no version, unless this value was already sent."""
        self._send_changed(part, value, lambda: value, key)

    def send_lines(self) -> None:
        """Send new log lines and notices."""
        lines = self._link.logs(self._last_line)
        missing = lines[0].number - self._last_line - 1 if lines else 0
        if missing and self._last_line >= 0:
            message = f"{missing:,} lines are left out: an attached screen read too slowly"
            # The line does not come from the core, so its number is -1.
            lines.insert(0, LogLine(-1, lines[0].time, "warning", "server", message))
        for start in range(0, len(lines), MAX_LOG_LINES):
            self._send(State("logs", "", pack(lines[start : start + MAX_LOG_LINES])))
        if lines:
            self._last_line = lines[-1].number
        if notices := self._link.notices(self._last_notice):
            self._last_notice = notices[-1].number
            self._send(State("notices", "", pack(notices)))

    def _send_connections(self, infos: list[ConnectionInfo]) -> None:
        """Send new data of connections. Forget most of those that the core has forgotten."""
        if new_infos := self._new_connections(infos):
            self._send(TrafficBatch(new_infos))
        if len(self._connections) > 2 * len(infos):
            self._connections = {info.number: info for info in infos}

    def _new_connections(self, infos: list[ConnectionInfo]) -> tuple[ConnectionInfo, ...]:
        """Return the connections that the screen does not know, or knows in an older state."""
        new_infos = tuple(info for info in infos if self._connections.get(info.number) is not info)
        self._connections.update((info.number, info) for info in new_infos)
        return new_infos

    def send_traffic(self) -> None:
        """Send new frames, at most `MAX_BATCHES` batches."""
        index = self._link.traffic
        marks = tuple(index.marks[self._next_mark :])
        remarks = tuple(index.remarks[self._next_remark :])
        unkept_remarks = index.remarks_left_out
        if marks or remarks or unkept_remarks > self._remarks_left_out:
            batch_of_marks = TrafficBatch(
                (),
                marks=marks,
                first_mark=self._next_mark,
                remarks=remarks,
                first_remark=self._next_remark,
                remarks_left_out=unkept_remarks,
            )
            self._next_mark += len(marks)
            self._next_remark += len(remarks)
            self._remarks_left_out = unkept_remarks
            self._send(batch_of_marks)
        for _ in range(MAX_BATCHES):
            count = index.frame_count
            if count - self._next_frame > MAX_UNSENT_FRAMES:
                first_sent_frame = count - MAX_PAST_FRAMES
                self._missed += first_sent_frame - self._next_frame
                self._why = "this screen read too slowly"
                self._next_frame = first_sent_frame
            if self._next_frame == count:
                return
            frames: list[Frame] = []
            size = 0
            while self._next_frame < count and size < BATCH_BYTES:
                stop = min((self._next_frame | SLICE_FRAMES - 1) + 1, count)
                slice_frames = index.frames(self._next_frame, stop)
                existing_frames = [frame for frame in slice_frames if frame is not None]
                if len(existing_frames) < stop - self._next_frame:
                    if frames:
                        break  # missing frames are reported in the batch after them
                    self._missed += stop - self._next_frame - len(existing_frames)
                frames += existing_frames
                size += sum(len(frame.data) + SLICE_FRAMES for frame in existing_frames)
                self._next_frame = stop
            for batch in self._batches(frames):
                numbers = dict.fromkeys(frame.connection for frame in batch)
                known_infos = map(index.connections.get, numbers)
                infos = self._new_connections([info for info in known_infos if info is not None])
                self._send(TrafficBatch(infos, batch, self._notes(batch), self._missed, self._why))
                self._missed, self._why = 0, ""

    def _notes(self, frames: Sequence[Frame]) -> dict[int, HttpNote]:
        """Return the HTTP metadata of frames, by frame number."""
        index = self._link.traffic
        return {frame.number: note for frame in frames if (note := index.note(frame.number)) is not None}

    def _batches(self, frames: Sequence[Frame]) -> Iterator[tuple[Frame, ...]]:
        """Split frames into batches of about `BATCH_BYTES`. The last batch may be empty.

        Screens receive only the beginning of a large frame, unless they need all of it for pairing.
        """
        batch: list[Frame] = []
        size = 0
        for frame in frames:
            if needs_all_bytes(frame):
                frame = structs.replace(frame, data=self._link.traffic.frame_bytes(frame.number))
            if batch and size + len(frame.data) > 2 * BATCH_BYTES:
                yield tuple(batch)
                batch, size = [], 0
            batch.append(frame)
            size += len(frame.data)
        yield tuple(batch)


class _ScreenCall:
    """Call of the screen, and the latest state of the call that was sent to the screen."""

    def __init__(self, id: int, call: LinkCall) -> None:
        self.call = call
        self._id = id
        self._sent_state: tuple[object, ...] = ()
        self._sent_logs = 0
        """Number of log messages that were sent."""

    def update(self) -> CallUpdate | None:
        """Return the state of the call, or None if this state was already sent."""
        call = self.call
        outcome: CallOutcome | None = call.outcome.result() if call.outcome.done() else None
        logs = tuple(call.logs)
        state = (call.request_id, call.progress, len(logs), outcome is None)
        if state == self._sent_state:
            return None
        new_logs = logs[self._sent_logs :]
        self._sent_state = state
        self._sent_logs = len(logs)
        return CallUpdate(self._id, call.connection, call.request_id, call.progress, new_logs, outcome)
