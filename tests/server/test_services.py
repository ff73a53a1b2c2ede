"""Services of handlers are created at first use."""

from __future__ import annotations

import threading

from mcpdesk.server.calls.services import Services, created_once


def _log(*_: object, **__: object) -> None:
    """Discard the entry."""


async def test_what_was_never_used_is_not_made_at_the_end() -> None:
    services = Services(_log)
    await services.close()
    assert not {"inbox", "deadlines", "rounds", "jobs"} & vars(services).keys()


async def test_jobs_end_with_the_core() -> None:
    services = Services(_log)
    stopped: list[str] = []
    job = services.jobs.add(
        server="s", owner="o", tool="t", peer="p", ttl_s=None, max_jobs=1, stop=stopped.append, size=1
    )
    await services.close()
    assert stopped and job.is_over


class Whole:
    """Something with a part, which takes its time to be made."""

    def __init__(self) -> None:
        self.made = 0
        self.frame_batch = threading.Barrier(2)

    @created_once
    def piece(self) -> object:
        """Made by two threads at once."""
        self.made += 1
        self.frame_batch.wait(5)
        return object()


def test_threads_that_ask_at_once_get_the_same() -> None:
    whole = Whole()
    got: list[object] = []
    threads = [threading.Thread(target=lambda: got.append(whole.piece)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert whole.made == 2 and len(set(map(id, got))) == 1 and whole.piece is got[0]
