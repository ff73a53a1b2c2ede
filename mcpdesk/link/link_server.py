"""The core's side of an attached screen: sends it what changed, and does what it asks.

There is no queue of news. A thread looks at the link and sends what differs from what the screen has. For a
screen that reads slowly it looks less often; one that falls far behind in the traffic loses frames, which are
counted. So a slow screen costs the core nothing but a thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from socket import SHUT_RDWR, socket
from typing import Any

import msgspec
from msgspec import Struct

from mcpdesk.errors import DeskError
from mcpdesk.link.attach_messages import (
    ASKED,
    METHODS,
    SNAPSHOTS,
    Ask,
    CallNews,
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
from mcpdesk.link.link import LinkCall
from mcpdesk.link.local import LocalLink
from mcpdesk.link.values import CallOutcome, CoreView, LogLine
from mcpdesk.recorder.record import ConnectionInfo, Frame
from mcpdesk.version import __version__

JOIN_S = 10.0
"""How long a visitor may take to say that it stays."""
LOOK_S = 0.04
"""Seconds between two looks at the core."""
REST_S = 0.2
"""The same once nothing has changed for `RESTING` looks."""
RESTING = 100
SLOW_S = 0.5
"""Seconds between two looks at what has no version."""
PAST = 20_000
"""Frames of the past that a screen gets at first, or after it has fallen behind."""
BEHIND = 50_000
"""Frames a screen may be behind."""
SLICE = 64
BATCH_BYTES = 1 << 20
BATCHES = 8
"""Batches of frames between two looks at everything else."""
LINES = 1_000
"""Log lines that are sent at a time."""
MOST_ASKS = 1_000
"""Asks without a reply; beyond them nothing more is read."""
_log = logging.getLogger(__name__)
_of_screen: msgspec.msgpack.Decoder[FromScreen] = msgspec.msgpack.Decoder(FromScreen)


def serve_screen(make_link: Callable[[], LocalLink], welcome: Welcome, connection: socket) -> None:
    """Speak with one visitor until it leaves. `make_link` is called for one that stays."""
    try:
        connection.settimeout(JOIN_S)
        with connection.makefile("rb") as reader:
            said = read_message(reader.read)
            joined = _of_screen.decode(said) if said else None
            connection.sendall(framed(welcome))
            if not isinstance(joined, Join) or joined.mcpdesk != __version__:
                return
            connection.settimeout(None)
            screen = _AttachedScreen(make_link(), connection)
            try:
                screen.serve(reader.read)
            finally:
                screen.end()
    except (EOFError, OSError):
        pass  # it left
    except (ValueError, msgspec.MsgspecError) as error:
        _log.warning("an attached screen was disconnected, as it sent what cannot be read: %s", error)
    finally:
        connection.close()


class _AttachedScreen:
    """One screen that stays: the caller's thread reads what it asks, another sends."""

    def __init__(self, link: LocalLink, connection: socket) -> None:
        self._link = link
        self._connection = connection
        self._over = self._is_quiet = False
        self._wake = threading.Event()
        self._room = threading.Semaphore(MOST_ASKS)
        self._replies: deque[Reply] = deque()
        self._calls: dict[int, _SentCall] = {}
        self._sent: dict[tuple[str, str], object] = {}
        """What the screen has, by part and key: a version, or the value itself."""
        self._connections: dict[int, ConnectionInfo] = {}
        self._watching: set[str] = set()
        self._looked_at = 0
        self._slow_due = 0.0
        count = link.traffic.frame_count
        self._next_frame = max(0, count - PAST)
        self._missed, self._why = self._next_frame, "they passed before this screen was attached"
        self._next_line = -1
        self._next_mark = 0
        notices = link.notices()
        self._next_notice = notices[-1].number if notices else -1
        self._sender = threading.Thread(target=self._send_all, name="attached-screen", daemon=True)

    def serve(self, read: Callable[[int], bytes]) -> None:
        """Do what it asks until it leaves. Raises: EOFError, OSError, ValueError, MsgspecError."""
        self._sender.start()
        while not self._over:
            ask = _of_screen.decode(read_message(read))
            if not isinstance(ask, Ask) or ask.method not in METHODS:
                raise ValueError(f"not something to ask for: {ask!r:.200}")
            arguments = METHODS[ask.method].arguments.decode(ask.arguments)
            self._room.acquire()
            self._do(ask, arguments)

    def end(self) -> None:
        """The screen has gone, and its calls with it."""
        self._over = True
        self._wake.set()
        for sent in list(self._calls.values()):
            sent.call.cancel()
        self._link.close()

    def _do(self, ask: Ask, arguments: tuple[Any, ...]) -> None:
        try:
            if ask.method in ("watch", "unwatch"):
                self._watching.add(arguments[0])
            own: dict[str, Callable[..., Any]] = {
                "request": partial(self._request, ask.id),
                "cancel": self._cancel,
                "look": self._look,
                "whole": self._link.traffic.whole,
                "ping": lambda: None,
            }
            value = (own.get(ask.method) or getattr(self._link, ask.method))(*arguments)
        except Exception as error:
            self._refuse(ask, error)
        else:
            if ask.method in ASKED:
                value.add_done_callback(partial(self._reply_later, ask))
            else:
                self._reply(Reply(ask.id, pack(value)))

    def _reply(self, reply: Reply) -> None:
        self._replies.append(reply)
        self._wake.set()

    def _reply_later(self, ask: Ask, done: Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Exception):
            self._refuse(ask, error)
        else:
            self._reply(Reply(ask.id, pack(False if done.cancelled() else done.result())))

    def _refuse(self, ask: Ask, error: Exception) -> None:
        if not isinstance(error, (DeskError, ValueError, KeyError)):
            _log.error("what an attached screen asked (%s) failed", ask.method, exc_info=error)
        said = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        self._reply(Reply(ask.id, error=said or repr(error), is_value_error=isinstance(error, ValueError)))

    def _request(self, id: int, server: str, method: str, params: dict[str, Any]) -> None:
        call = self._link.request(server, method, params)
        self._calls[id] = _SentCall(id, call)
        call.outcome.add_done_callback(lambda _: self._wake.set())

    def _cancel(self, id: int) -> None:
        if sent := self._calls.get(id):
            sent.call.cancel()

    def _look(self, connection: int) -> None:
        self._looked_at = connection
        self._slow_due = 0.0

    # The sender's thread

    def _send_all(self) -> None:
        quiet = 0
        try:
            while not self._over:
                self._is_quiet = True
                self._send_news()
                quiet = quiet + 1 if self._is_quiet else 0
                self._wake.wait(REST_S if quiet > RESTING else LOOK_S)
                self._wake.clear()
        except OSError:
            pass  # it left
        except Exception:
            _log.exception("an attached screen cannot be told what happens")
        finally:
            self._over = True
            with suppress(OSError):
                self._connection.shutdown(SHUT_RDWR)  # the reader notices

    def _send_news(self) -> None:
        link, view = self._link, self._link.view()
        # An outcome comes after its frames: the screen looks for them at once.
        news = [news for sent in list(self._calls.values()) if (news := sent.news()) is not None]
        self._send_frames()
        self._send_lines()
        names = {server.name for server in view.servers}
        for key in [key for key in self._sent if key[0] == "catalogue" and key[1] not in names]:
            del self._sent[key]  # another server may get that name
        for server in view.servers:
            self._send_changed(
                "catalogue", server.catalogue_version, partial(link.catalogue, server.name), server.name
            )
        for server_name in list(self._watching):
            self._send_value("watched", dict(link.watched(server_name)), server_name)
        self._send_snapshots(view)
        self._send_value("view", view)
        for each in news:
            self._send(each)
            if each.outcome is not None:
                del self._calls[each.id]
        is_quiet = self._is_quiet
        while self._replies:
            self._send(self._replies.popleft())
            self._room.release()
        self._is_quiet = is_quiet  # what an answer changed is news of its own

    def _send_snapshots(self, view: CoreView) -> None:
        work, is_due = view.work, time.monotonic() >= self._slow_due
        versions = {
            "questions": view.questions_version,
            "callbacks": work.callbacks_version,
            "todo": work.todo_version,
        }
        for name in SNAPSHOTS:
            make = getattr(self._link, name)
            if name in versions:
                self._send_changed(name, versions[name], make)
            elif (
                is_due
                or name == "held"
                or (name == "jobs" and self._sent.get(("jobs version", "")) != work.jobs_version)
            ):
                self._send_value(name, make())
        self._sent["jobs version", ""] = work.jobs_version
        if is_due:
            self._slow_due = time.monotonic() + SLOW_S
            self._send_connections(list(self._link.traffic.connections.values()))
            if self._looked_at:
                self._send_value("client", self._link.client(self._looked_at), str(self._looked_at))

    def _send_changed(self, part: str, version: object, make: Callable[[], object], key: str = "") -> None:
        """Send a part unless the screen has that version of it."""
        if (part, key) not in self._sent or self._sent[part, key] != version:
            self._sent[part, key] = version
            self._send(State(part, key, pack(make())))

    def _send_value(self, part: str, value: object, key: str = "") -> None:
        """Send a part without a version unless the screen has just this value."""
        self._send_changed(part, value, lambda: value, key)

    def _send_lines(self) -> None:
        lines = self._link.logs(self._next_line)
        if lines and (missed := lines[0].number - self._next_line - 1) and self._next_line >= 0:
            told = f"{missed:,} lines are left out: an attached screen was too slow for them"
            lines.insert(0, LogLine(0, lines[0].time, "warning", "server", told))
        for start in range(0, len(lines), LINES):
            self._send(State("logs", "", pack(lines[start : start + LINES])))
        if lines:
            self._next_line = lines[-1].number
        if notices := self._link.notices(self._next_notice):
            self._next_notice = notices[-1].number
            self._send(State("notices", "", pack(notices)))

    def _send_connections(self, infos: list[ConnectionInfo]) -> None:
        if fresh := self._unknown(infos):
            self._send(TrafficBatch(fresh))
        if len(self._connections) > 2 * len(infos):
            self._connections = {info.number: info for info in infos}

    def _unknown(self, infos: list[ConnectionInfo]) -> tuple[ConnectionInfo, ...]:
        """Those the screen does not have."""
        fresh = tuple(info for info in infos if self._connections.get(info.number) is not info)
        self._connections.update((info.number, info) for info in fresh)
        return fresh

    def _send_frames(self) -> None:
        index = self._link.traffic
        if marks := tuple(index.marks[self._next_mark :]):
            self._next_mark += len(marks)
            self._send(TrafficBatch((), marks=marks))
        for _ in range(BATCHES):
            count = index.frame_count
            if count - self._next_frame > BEHIND:
                self._missed += count - PAST - self._next_frame
                self._next_frame, self._why = count - PAST, "this screen was too slow for them"
            if self._next_frame == count:
                return
            frames, held = list[Frame](), 0
            while self._next_frame < count and held < BATCH_BYTES:
                stop = min((self._next_frame | SLICE - 1) + 1, count)
                found = [each for each in index.frames(self._next_frame, stop) if each is not None]
                if len(found) < stop - self._next_frame:
                    if frames:
                        break  # what is missing comes before the frames of a message
                    self._missed += stop - self._next_frame - len(found)
                frames += found
                held += sum(len(frame.data) for frame in found) + SLICE * len(found)
                self._next_frame = stop
            notes = {each.number: note for each in frames if (note := index.note(each.number)) is not None}
            ids = dict.fromkeys(frame.connection for frame in frames)
            infos = [info for id in ids if (info := index.connections.get(id)) is not None]
            self._send(TrafficBatch(self._unknown(infos), tuple(frames), notes, self._missed, self._why))
            self._missed, self._why = 0, ""

    def _send(self, message: Struct) -> None:
        self._is_quiet = False
        self._connection.sendall(framed(message))


class _SentCall:
    """A call of the screen's, and what the screen knows of it."""

    def __init__(self, id: int, call: LinkCall) -> None:
        self.call = call
        self._id = id
        self._known: tuple[object, ...] = ()
        self._logs = 0

    def news(self) -> CallNews | None:
        """How it stands if the screen does not know; None when it does."""
        call = self.call
        outcome: CallOutcome | None = call.outcome.result() if call.outcome.done() else None
        logs = tuple(call.logs)
        known = (call.request_id, call.progress, len(logs), outcome is None)
        if known == self._known:
            return None
        fresh, self._known, self._logs = logs[self._logs :], known, len(logs)
        return CallNews(self._id, call.connection, call.request_id, call.progress, fresh, outcome)
