"""Socket on which commands reach the process of an open connection.

Visitors are accepted on a separate thread, so that even a process whose code blocks can be listed and ended.
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

from mcpdesk.features.open_connections.sockets import ANSWER_S, LONGEST_REQUEST, Request, read_line
from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.features.open_connections.report import Described

MAX_VISITORS = 200
"""Maximum number of visitors whose request is being read. Further visitors are disconnected."""
RETRY_S = 0.1
"""Seconds until visitors are accepted again, if this process has too many open files."""
TEMPORARY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})
"""Errors after which the socket can still accept visitors."""
_log = logging.getLogger(__name__)


class Door:
    """Answers the requests of visitors of this user while the block runs."""

    def __init__(
        self,
        place: rendezvous.ListeningSocket,
        describe: Callable[[], Described],
        relay: Callable[[socket], None],
        plan: bytes,
    ) -> None:
        """`describe` describes the connection, and `relay` takes the socket of a command. Both are called on
        threads of the door. `plan` is the encoded plan of the connection.
        """
        self._place = place
        self._describe = describe
        self._relay = relay
        self._plan = plan
        self._visitors = threading.BoundedSemaphore(MAX_VISITORS)
        self._leaving = list[socket]()
        """Visitors that wait for the end of this process, which closes these sockets."""

    def __enter__(self) -> Door:
        threading.Thread(target=self._listen, name="door", daemon=True).start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._place.withdraw()
        with suppress(OSError):
            self._place.listener.shutdown(SHUT_RDWR)  # wakes the thread
        self._place.listener.close()

    def _listen(self) -> None:
        while True:
            try:
                visitor, _ = self._place.listener.accept()
            except OSError as error:
                if error.errno not in TEMPORARY:
                    return  # the socket is closed
                time.sleep(RETRY_S)
                continue
            self._admit(visitor)

    def _admit(self, visitor: socket) -> None:
        """Serve a visitor of this user on a new thread."""
        is_ours = rendezvous.peer_credentials(visitor)[1] in (None, os.getuid())
        if not is_ours or not self._visitors.acquire(blocking=False):
            visitor.close()
            return
        try:
            threading.Thread(target=self._serve, args=(visitor,), name="visitor", daemon=True).start()
        except RuntimeError:  # this process has too many threads
            self._visitors.release()
            visitor.close()

    def _serve(self, visitor: socket) -> None:
        is_kept = False
        try:
            visitor.settimeout(ANSWER_S)
            request = Request(read_line(visitor, LONGEST_REQUEST).decode().strip())
            visitor.sendall(msgspec.json.encode(self._describe()) + b"\n")
            if request is Request.PLAN:
                visitor.sendall(self._plan)
            visitor.settimeout(None)
            is_kept = request in (Request.RELAY, Request.END)
            if request is Request.RELAY:
                self._relay(visitor)
            elif request is Request.END:
                self._leaving.append(visitor)
                os.kill(os.getpid(), signal.SIGTERM)
        except (OSError, EOFError, ValueError):
            pass  # the visitor has left, or is no command of this version
        except Exception:
            _log.exception("a command could not be served")
        finally:
            self._visitors.release()
            if not is_kept:
                visitor.close()
