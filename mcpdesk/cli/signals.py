"""How a long-running command ends from outside: signals, a lost terminal, a parent that died.

The first of them asks the command to stop. If it does not within its grace, or a person asks again, the
process ends at once; programs it had started are ended by their own guard.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

REASONS = {
    signal.SIGTERM: "asked to end (SIGTERM)",
    signal.SIGINT: "interrupted",
    signal.SIGHUP: "the terminal was closed",
}
CLIENT_LEFT = "the client has left"
PARENT_DIED = "the program that started it has ended"
POLL_S = 1.0
"""How often the parent is looked at where the system cannot tell of its end."""


class Ending:
    """A context in which the command is asked to stop by `stop(reason)`.

    `stop` is called on the main thread between two steps of it, or on a thread of our own: it must only pass
    the request on (`loop.call_soon_threadsafe`). `last` is called before the process is ended by force.
    `with_parent`: end, too, when the parent process does. `client_fd`: and when nobody holds its other end.
    """

    def __init__(
        self,
        stop: Callable[[str], None],
        *,
        grace_s: float,
        last: Callable[[], None] = lambda: None,
        with_parent: bool = False,
        client_fd: int | None = None,
    ) -> None:
        self.reason = ""
        """Why it was asked to stop; empty as long as it was not."""
        self._stop = stop
        self._last = last
        self._grace_s = grace_s
        self._with_parent = with_parent
        self._client_fd = client_fd
        self._parent = os.getppid()
        self._over = threading.Event()
        self._waker, self._wake = os.pipe()
        self._before: dict[signal.Signals, Any] = {}
        self._watcher = threading.Thread(target=self._watch, name="end-watch", daemon=True)
        self._is_watching = with_parent or client_fd is not None

    def __enter__(self) -> Ending:
        for number in REASONS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` said to stay
                self._before[number] = signal.signal(number, self._signalled)
        if self._is_watching:
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        os.close(self._wake)
        if self._is_watching:
            self._watcher.join()
        os.close(self._waker)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.reason and number == signal.SIGINT:
            self._end_now(number)
        self._ask(REASONS[signal.Signals(number)], number)

    def _ask(self, reason: str, number: int) -> None:
        if self.reason:
            return
        self.reason = reason
        threading.Thread(target=self._insist, args=(number,), name="grace", daemon=True).start()
        self._stop(reason)

    def _insist(self, number: int) -> None:
        """The command's grace: end by force what does not end."""
        if not self._over.wait(self._grace_s):
            self._end_now(number)

    def _end_now(self, number: int) -> None:
        try:
            self._last()
        finally:
            os._exit(128 + number)

    def _watch(self) -> None:
        with _handle(self._parent) as handle:
            poll = select.poll()
            poll.register(self._waker, select.POLLIN)
            if self._client_fd is not None:
                poll.register(self._client_fd, 0)  # tells of a hang-up only
            if self._with_parent and handle is not None:
                poll.register(handle, select.POLLIN)
            pause_ms = POLL_S * 1000 if self._with_parent and handle is None else None
            while not (reason := self._seen(poll.poll(0))):
                poll.poll(pause_ms)
        if not self._over.is_set():
            self._ask(reason, signal.SIGHUP)

    def _seen(self, events: list[tuple[int, int]]) -> str:
        """Why the command has to end, if it has to."""
        if self._over.is_set():
            return "over"
        if self._with_parent and os.getppid() != self._parent:
            return PARENT_DIED
        return CLIENT_LEFT if any(fd == self._client_fd for fd, _ in events) else ""


@contextmanager
def _handle(process: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None where there is no such thing."""
    try:
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
