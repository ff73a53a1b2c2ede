"""The socket of an open connection in a process that runs out of resources."""

from __future__ import annotations

import errno
import threading
from typing import Any

from mcpdesk.features.open_connections.door import Door
from tests.support.patience import WITHIN_S


class Listener:
    """A socket whose process has too many open files for a moment, and that is then closed."""

    def __init__(self) -> None:
        self.attempts = 0
        self.accepted = threading.Event()

    def accept(self) -> Any:
        self.attempts += 1
        if self.attempts == 1:
            raise OSError(errno.EMFILE, "Too many open files")
        self.accepted.set()
        raise OSError(errno.EINVAL, "closed")

    def shutdown(self, how: int) -> None:
        """End the listening."""

    def close(self) -> None:
        """End the listening."""


class Place:
    """The meeting socket of the connection."""

    def __init__(self) -> None:
        self.listener = Listener()

    def withdraw(self) -> None:
        """Delete nothing."""


def test_too_many_open_files_close_the_door_only_for_a_moment() -> None:
    place: Any = Place()
    with Door(place, lambda: None, lambda visitor: None, b""):  # type: ignore[arg-type, return-value]
        assert place.listener.accepted.wait(WITHIN_S)
