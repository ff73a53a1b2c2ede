"""Socket on which commands reach the process of an open connection.

A visitor is a command that connects to the socket. Visitors are accepted on a separate thread, so
commands can list and end the process even while its event loop is blocked.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socket import SHUT_RDWR, socket
from typing import TYPE_CHECKING

import msgspec

from mcpdesk.features.open_connections.sockets import ANSWER_S, MAX_REQUEST_BYTES, Request, read_line
from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.features.open_connections.report import ConnectionDescription

MAX_VISITORS = 200
"""Maximum number of visitors whose request is being read. Further visitors are disconnected."""
RETRY_S = 0.1
"""Seconds until visitors are accepted again, if this process has too many open files."""
TEMPORARY_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})
"""Errors after which the socket can still accept visitors."""
_log = logging.getLogger(__name__)


class Door:
    """Answers visitors that the same user started, while the `with` block runs."""

    def __init__(
        self,
        listening: rendezvous.ListeningSocket,
        describe: Callable[[], ConnectionDescription],
        relay: Callable[[socket], None],
        plan: bytes,
    ) -> None:
        """`listening` accepts the visitors. `describe` returns a description of the connection.

        `relay` takes over the socket of a command. Both functions are called on threads of this object.
        `plan` is the encoded plan of the connection.
        """
        self._listening = listening
        self._describe = describe
        self._relay = relay
        self._plan = plan
        self._visitor_slots = threading.BoundedSemaphore(MAX_VISITORS)
        self._end_requests = list[socket]()
        """Sockets of visitors that asked this process to end. The end of the process closes them."""

    def __enter__(self) -> Door:
        threading.Thread(target=self._listen, name="door", daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._listening.withdraw()
        with suppress(OSError):
            self._listening.listener.shutdown(SHUT_RDWR)  # ends the call of `accept` on the thread
        self._listening.listener.close()

    def _listen(self) -> None:
        while True:
            try:
                visitor, _ = self._listening.listener.accept()
            except OSError as error:
                if error.errno not in TEMPORARY_ERRORS:
                    return  # the socket is closed
                time.sleep(RETRY_S)
                continue
            self._admit(visitor)

    def _admit(self, visitor: socket) -> None:
        """Serve a visitor on a new thread. Disconnect it if another user started it."""
        is_ours = rendezvous.peer_credentials(visitor)[1] in (None, os.getuid())
        if not is_ours or not self._visitor_slots.acquire(blocking=False):
            visitor.close()
            return
        try:
            threading.Thread(target=self._serve, args=(visitor,), name="visitor", daemon=True).start()
        except RuntimeError:  # this process has too many threads
            self._visitor_slots.release()
            visitor.close()

    def _serve(self, visitor: socket) -> None:
        """Answer the request of one visitor."""
        must_stay_open = False
        try:
            visitor.settimeout(ANSWER_S)
            request = Request(read_line(visitor, MAX_REQUEST_BYTES).decode().strip())
            visitor.sendall(msgspec.json.encode(self._describe()) + b"\n")
            if request is Request.PLAN:
                visitor.sendall(self._plan)
            visitor.settimeout(None)
            must_stay_open = request in (Request.RELAY, Request.END)
            if request is Request.RELAY:
                self._relay(visitor)
            elif request is Request.END:
                self._end_requests.append(visitor)
                os.kill(os.getpid(), signal.SIGTERM)
        except (OSError, EOFError, ValueError):
            pass  # the visitor has left, or is no command of this version
        except Exception:
            _log.exception("a command could not be served")
        finally:
            self._visitor_slots.release()
            if not must_stay_open:
                visitor.close()
