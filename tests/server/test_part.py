"""Parts that are made at their first use."""

from __future__ import annotations

import threading

from mcpdesk.server.calls.services import made_once


class Whole:
    """Something with a part, which takes its time to be made."""

    def __init__(self) -> None:
        self.made = 0
        self.together = threading.Barrier(2)

    @made_once
    def piece(self) -> object:
        """Made by two threads at once."""
        self.made += 1
        self.together.wait(5)
        return object()


def test_a_part_is_made_once_and_kept() -> None:
    whole = Whole()
    whole.together = threading.Barrier(1)
    assert whole.piece is whole.piece
    assert whole.made == 1


def test_threads_that_ask_at_once_get_the_same() -> None:
    whole = Whole()
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(whole.piece)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert whole.made == 2 and len(set(map(id, got))) == 1 and whole.piece is got[0]
