"""Socket through which screens of the same user attach to a core. This module imports only what a listener
needs.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, suppress
from functools import partial
from socket import MSG_PEEK, SHUT_RDWR, socket
from typing import TYPE_CHECKING

from mcpdesk.transports import rendezvous

if TYPE_CHECKING:
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.attach_messages import Welcome
    from mcpdesk.link.link import Link


class AttachPoint:
    """Listens for screens while the block runs. It uses separate threads, so that screens can inspect a core
    whose loop is blocked.
    """

    def __init__(self, host: Host, kind: str) -> None:
        """`kind` is the command that started the core."""
        self._host = host
        self._kind = kind
        self._started = time.time()
        """Start of the core in Unix seconds."""
        self._socket: rendezvous.ListeningSocket | None = None
        self._screen_sockets: set[socket] = set()
        self._has_ended = False
        self._lock = threading.Lock()
        self._publication = ExitStack()
        """Context manager that announces the core to screens on other machines. Empty if the core does not
        share its state.
        """

    def __enter__(self) -> AttachPoint:
        if rendezvous.HAS_SOCKETS:
            threading.Thread(target=self._listen, name="attach", daemon=True).start()
        if (shared := self._host.shared) is not None:
            self._publication.enter_context(shared.publish(self._welcome, self._make_link))
        return self

    def __exit__(self, *problem: object) -> None:
        self._publication.close()
        with self._lock:
            self._has_ended = True
            listening_socket, open_sockets = self._socket, list(self._screen_sockets)
        if listening_socket is not None:
            listening_socket.withdraw()
            open_sockets.append(listening_socket.listener)
        for open_socket in open_sockets:
            with suppress(OSError):
                open_socket.shutdown(SHUT_RDWR)  # wakes the thread that waits for this socket
        if listening_socket is not None:
            listening_socket.listener.close()

    def _listen(self) -> None:
        """Accept screens, each on its own thread, until the listening socket is closed."""
        try:
            rendezvous.sweep(rendezvous.private_folder())
            listening_socket = rendezvous.listen(rendezvous.attach_point(self._host.chosen_state))
        except OSError as error:
            return self._host.journal.log("warning", "server", f"screens cannot attach: {error}")
        if listening_socket is None:
            return
        with self._lock:
            if self._has_ended:
                return listening_socket.leave()
            self._socket = listening_socket
        with suppress(OSError):  # the socket is closed
            while True:
                screen_socket, _ = listening_socket.listener.accept()
                if rendezvous.peer_credentials(screen_socket)[1] not in (None, os.getuid()):
                    screen_socket.close()
                    continue
                thread = threading.Thread(
                    target=self._serve, args=(screen_socket,), name="screen", daemon=True
                )
                thread.start()

    def _make_link(self, viewers: int) -> Link:
        from mcpdesk.link.local.local_link import LocalLink

        return LocalLink(self._host, viewers, shows_others=False)

    def _serve(self, screen_socket: socket) -> None:
        """Serve one screen until it disconnects."""
        with suppress(OSError):
            if not screen_socket.recv(1, MSG_PEEK):
                return screen_socket.close()  # another core checked whether this one is alive
        from mcpdesk.link.link_server import serve_screen
        from mcpdesk.link.local.local_link import LocalLink

        with self._lock:
            self._screen_sockets.add(screen_socket)
        try:
            if not self._has_ended:
                serve_screen(partial(LocalLink, self._host), self._welcome(), screen_socket)
        finally:
            with self._lock:
                self._screen_sockets.discard(screen_socket)
            screen_socket.close()

    def _welcome(self) -> Welcome:
        from mcpdesk.link.attach_messages import Welcome
        from mcpdesk.version import __version__

        host = self._host
        names = (*list(host.by_name), *list(host.upstreams))
        return Welcome(
            mcpdesk=__version__,
            pid=os.getpid(),
            kind=self._kind,
            names=names,
            since=self._started,
            address=host.url(names[0]) if names and names[0] in host.by_name else "",
            secret_headers=host.recording.index.secret_headers,
        )
