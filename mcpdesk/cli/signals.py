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
PARENT_DIED = "the program that started it has ended"
POLL_S = 1.0
"""How often the parent is looked at where the system cannot tell of its end."""


class Ending:
    """A context in which the command is asked to stop by `stop(reason)`.

    `stop` is called on the main thread between two steps of it, or on a thread of our own: it must only pass
    the request on (`loop.call_soon_threadsafe`). `last` is called before the process is ended by force.
    `with_parent`: end, too, when the parent process does.
    """

    def __init__(
        self,
        stop: Callable[[str], None],
        *,
        grace_s: float,
        last: Callable[[], None] = lambda: None,
        with_parent: bool = False,
    ) -> None:
        self.reason = ""
        """Why it was asked to stop; empty as long as it was not."""
        self._stop = stop
        self._last = last
        self._grace_s = grace_s
        self._with_parent = with_parent
        self._parent = os.getppid()
        self._over = threading.Event()
        self._waker, self._wake = os.pipe()
        self._before: dict[signal.Signals, Any] = {}
        self._watcher = threading.Thread(target=self._watch, name="parent-watch", daemon=True)

    def __enter__(self) -> Ending:
        for number in REASONS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` said to stay
                self._before[number] = signal.signal(number, self._signalled)
        if self._with_parent:
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        os.close(self._wake)
        if self._with_parent:
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
        for is_gone in _gone(self._parent, self._waker):
            if self._over.is_set():
                return
            if is_gone:
                self._ask(PARENT_DIED, signal.SIGHUP)
                return


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


def _gone(parent: int, waker: int) -> Iterator[bool]:
    """Wait for the end of the parent; yields, whenever something happened, whether it came."""
    with _handle(parent) as handle:
        watched = [waker] if handle is None else [waker, handle]
        pause = POLL_S if handle is None else None
        while True:
            yield os.getppid() != parent
            select.select(watched, [], [], pause)
