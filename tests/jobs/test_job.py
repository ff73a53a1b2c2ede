"""One job: legal changes of state only, and listeners that hear of each."""

from __future__ import annotations

import pytest

from mcpdesk.jobs.job import MESSAGE_LENGTH, Job
from mcpdesk.protocol.task_shapes import TaskStatus

S = TaskStatus


def job(ttl_s: float | None = 60.0) -> Job:
    return Job("id", 1, "server", "owner", "tool", "peer", 100.0, ttl_s, lambda _: None, 100.0)


@pytest.mark.requirement("8.3")
@pytest.mark.parametrize("end", [S.COMPLETED, S.FAILED, S.CANCELLED])
@pytest.mark.parametrize("other", list(S))
def test_nothing_follows_an_end(end: TaskStatus, other: TaskStatus) -> None:
    one = job()
    assert one.move(end, 101.0, "over")
    assert not one.move(other, 102.0, "again")
    assert (one.status, one.message, one.updated, one.is_over) == (end, "over", 101.0, True)
    one.say("still here")
    assert one.message == "over"


def test_working_and_waiting_for_input_alternate() -> None:
    one = job()
    assert one.move(S.INPUT_REQUIRED, 101.0) and one.move(S.WORKING, 102.0)
    assert not one.move(S.WORKING, 103.0)
    assert one.updated == 102.0


def test_listeners_hear_every_change_until_they_leave() -> None:
    one, heard = job(), []
    forget = one.listen(lambda: heard.append(one.status))
    one.move(S.INPUT_REQUIRED, 101.0)
    one.touch(102.0)
    forget()
    one.move(S.COMPLETED, 103.0)
    assert heard == [S.INPUT_REQUIRED, S.INPUT_REQUIRED]
    forget()


def test_time_never_runs_backwards_and_messages_are_short() -> None:
    one = job()
    one.say("x" * 1000)
    assert len(one.message) == MESSAGE_LENGTH
    one.touch(5.0)
    assert one.updated == one.created


def test_a_lifetime_counts_from_the_beginning() -> None:
    assert not job(60.0).is_expired(159.9) and job(60.0).is_expired(160.0)
    assert not job(None).is_expired(1e12)


def test_views_are_values() -> None:
    one = job()
    one.say("half")
    view = one.view()
    one.move(S.COMPLETED, 101.0)
    assert (view.id, view.server, view.tool, view.peer, view.status) == (
        "id",
        "server",
        "tool",
        "peer",
        S.WORKING,
    )
    assert (view.message, view.created, view.updated, view.ttl_s) == ("half", 100.0, 100.0, 60.0)
    assert one.task().status is S.COMPLETED
