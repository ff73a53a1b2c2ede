"""Link to a running tap: to the capture that the tap writes, and to the messages that the tap holds."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from socket import SHUT_RDWR, socket
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from mcpdesk.features import features_with
from mcpdesk.features.tap.taps import tap_of
from mcpdesk.link.attach_messages import (
    FEATURE_PARTS,
    METHODS,
    PARTS,
    Ask,
    Join,
    Reply,
    State,
    framed,
    pack,
    read_message,
)
from mcpdesk.link.capture_link import CaptureLink
from mcpdesk.link.feature_part import FeaturePart, Intent, Result
from mcpdesk.link.link import Part, promise
from mcpdesk.link.values import CoreView, Severity
from mcpdesk.recorder.archive import Archive
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

MAX_UNSENT_BYTES = 16 << 20
"""Maximum size in bytes of requests that wait because the tap does not read them."""
FromTap: TypeAlias = Reply | State
_message_decoder: msgspec.msgpack.Decoder[FromTap] = msgspec.msgpack.Decoder(FromTap)
_notices_decoder = msgspec.msgpack.Decoder(PARTS["notices"])


def link_to_tap(archive: Archive, first_notice: str) -> TapLink | None:
    """Return a link to the tap that writes a capture, or None if no tap of this version writes it."""
    tap = tap_of(archive.path)
    if tap is None or not tap.door or tap.mcpdesk != __version__:
        return None
    try:
        door = rendezvous.connect(tap.door)
    except OSError:
        return None
    return None if door is None else TapLink(archive, door, first_notice)


class TapLink(CaptureLink):
    """Link to the capture of a tap, and to its `TapControl`, which holds messages.

    The "door" is the socket of the tap for screens.
    """

    def __init__(self, archive: Archive, door: socket, first_notice: str = "") -> None:
        """`first_notice` is the text of a notice that is shown at the start, or "" for none."""
        super().__init__(archive, first_notice)
        self._door = door
        self._is_open = True
        self._parts: dict[str, FeaturePart] = {}
        self._pending_requests: dict[int, tuple[str, Future[Any]]] = {}
        """Methods and futures of the unanswered requests, by request id."""
        self._request_ids = count(1)
        self._lock = threading.Lock()
        """Lock that is held only briefly, and never while bytes are sent."""
        self._unsent: SimpleQueue[bytes] = SimpleQueue()
        """Messages for the writing thread. Empty bytes end the thread."""
        self._unsent_bytes = 0
        self._reader = threading.Thread(target=self._read, name="tap", daemon=True)
        self._writer = threading.Thread(target=self._write, name="tap writer", daemon=True)
        with suppress(OSError):
            door.sendall(framed(Join(__version__)))
        self._reader.start()
        self._writer.start()

    def view(self) -> CoreView:
        """Return a view of the capture. Its field `can_intercept` is True if messages can be held."""
        return replace(super().view(), can_intercept=self._is_open and any(features_with("interceptor")))

    def close(self) -> None:
        """Disconnect. The tap then releases all held messages."""
        with suppress(OSError):
            self._door.shutdown(SHUT_RDWR)
        self._unsent.put(b"")
        self._reader.join()
        self._writer.join()
        self._door.close()
        super().close()

    def feature_part(self, kind: type[Part]) -> Part:
        """Return the state of a feature of the tap."""
        part = self._parts.get(kind.part_name)
        return part if isinstance(part, kind) else kind()

    def do(self, intent: Intent[Result]) -> Future[Result]:
        """Send an intent to a feature of the tap."""
        return self._send_request("do", intent)

    def _send_request(self, method: str, *arguments: object) -> Future[Any]:
        """Queue a request. Return a future of its result, or of False if the tap has ended.

        The future has a ValueError if the tap does not read its requests.
        """
        future = promise()
        with self._lock:
            request_id = next(self._request_ids)
            message = framed(Ask(request_id, method, pack(arguments)))
            is_overloaded = self._unsent_bytes + len(message) > MAX_UNSENT_BYTES and self._unsent_bytes > 0
            if self._is_open and not is_overloaded:
                self._pending_requests[request_id] = method, future
                self._unsent_bytes += len(message)
                self._unsent.put(message)
                return future
        if is_overloaded:
            future.set_exception(ValueError("the tap does not answer"))
        else:
            future.set_result(False)
        return future

    def _write(self) -> None:
        """Send requests. This runs on a separate thread, because it blocks while the tap does not read."""
        with suppress(OSError):
            while message := self._unsent.get():
                self._door.sendall(message)
                with self._lock:
                    self._unsent_bytes -= len(message)

    def _read(self) -> None:
        """Handle messages of the tap until it ends."""
        with (
            suppress(OSError, EOFError, ValueError, msgspec.MsgspecError),  # the tap has ended
            self._door.makefile("rb") as door,
        ):
            while True:
                self._on_message(_message_decoder.decode(read_message(door.read)))
        with self._lock:
            self._is_open, self._parts = False, {}
            unanswered, self._pending_requests = self._pending_requests, {}
        self._unsent.put(b"")
        for _, future in unanswered.values():
            future.set_result(False)

    def _on_message(self, message: FromTap) -> None:
        if isinstance(message, State) and (kind := FEATURE_PARTS.get(message.part)) is not None:
            self._parts[message.part] = msgspec.msgpack.decode(message.value, type=kind)
        elif isinstance(message, State):
            for notice in _notices_decoder.decode(message.value):
                self._add(notice.text, Severity.INFO)
        elif message.id in self._pending_requests:
            method, future = self._pending_requests.pop(message.id)
            if message.error:
                future.set_exception(ValueError(message.error))
            else:
                future.set_result(METHODS[method].result.decode(message.value))
