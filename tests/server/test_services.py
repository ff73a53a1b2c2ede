"""What handlers may use is made when one uses it."""

from __future__ import annotations

from mcpdesk.server.calls.services import Services


def _log(*_: object, **__: object) -> None:
    """Nobody reads it."""


async def test_what_was_never_used_is_not_made_at_the_end() -> None:
    services = Services(_log)
    await services.close()
    assert not {"inbox", "deadlines", "rounds", "jobs"} & vars(services).keys()


async def test_jobs_end_with_the_core() -> None:
    services = Services(_log)
    stopped: list[str] = []
    job = services.jobs.add(
        server="s", owner="o", tool="t", peer="p", ttl_s=None, most=1, stop=stopped.append, size=1
    )
    await services.close()
    assert stopped and job.is_over
