"""Rounds, questions and requests about a task belong to their call; uncertain ones stay separate."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index import operations
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.record import Direction
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    asks,
    call,
    connection,
    notification,
    request,
    result,
    retry,
    settle,
    text,
)


def recorded(*frames: tuple[Direction, bytes], over: int = 1) -> Recording:
    recording = Recording(None)
    recording.connect(connection(over))
    for direction, data in frames:
        recording.frame(over, direction, data)
    settle(recording)
    return recording


def lines(recording: Recording) -> list[Exchange]:
    return [recording.index.exchange(row) for row in recording.index.operations.lines]


def test_rounds_questions_and_looks_at_a_task_are_one_line_each() -> None:
    recording = asking_recording()
    said = [(one.method, one.name, one.rounds, one.questions, one.polls) for one in lines(recording)]
    assert said == [
        ("tools/call", "book-flight", 3, 0, 0),
        ("tools/call", "plan-party", 1, 2, 0),
        ("tools/call", "paint-house", 1, 0, 2),
    ]


def test_an_operation_lasts_from_its_first_request_to_its_last_response() -> None:
    index = asking_recording().index
    whole, last = index.exchange(0), index.exchange(2)
    assert (whole.status, whole.ended, whole.parts) == (Status.OK, last.ended, (1, 2))
    assert whole.size == sum(len(index.frame_bytes(frame)) for frame in range(6))
    assert 0 < whole.waited < whole.elapsed(0)
    assert (last.part_of, last.rounds, last.status) == (0, 1, Status.OK)


def test_a_round_that_asks_waits_for_the_client_until_it_comes_back() -> None:
    recording = recorded((IN, call(1, "a")), (OUT, asks(1, "s", who="Who?")))
    (line,) = lines(recording)
    assert (line.status, line.parts) == (Status.ASKS, ()) and line.asked_at == line.ended
    assert line.asked_at is not None and line.waiting(line.asked_at + 5) == 5
    recording.frame(1, IN, retry(2, "a", "s"))
    settle(recording)
    (line,) = lines(recording)
    assert (line.status, line.asked_at, line.ended) == (Status.PENDING, None, None)
    recording.frame(1, OUT, text(2, "no", is_error=True))
    settle(recording)
    assert [(one.status, one.rounds) for one in lines(recording)] == [(Status.TOOL_ERROR, 2)]


def test_rounds_may_come_over_another_connection_to_the_same_server() -> None:
    recording = recorded((IN, call(1, "a")), (OUT, asks(1, "s")))
    recording.connect(connection(2))
    recording.connect(connection(3, server="other"))
    recording.frame(2, IN, retry(1, "a", "s"))
    recording.frame(3, IN, retry(1, "a", "s"))
    settle(recording)
    assert [(one.connection, one.rounds) for one in lines(recording)] == [(1, 2), (3, 1)]


@pytest.mark.parametrize(
    "stray", [retry(2, "a", "other"), retry(2, "b", "s"), call(2, "a"), retry(2, "a", "", who=1)]
)
def test_a_request_with_another_state_or_name_is_a_line_of_its_own(stray: bytes) -> None:
    recording = recorded((IN, call(1, "a")), (OUT, asks(1, "s")), (IN, stray))
    assert [one.parts for one in lines(recording)] == [(), ()]


def test_a_lost_or_cancelled_round_ends_its_operation() -> None:
    opening = ((IN, call(1, "a")), (OUT, asks(1, "s")), (IN, retry(2, "a", "s")))
    recording = recorded(*opening, (IN, notification("notifications/cancelled", {"requestId": 2})))
    assert lines(recording)[0].status is Status.CANCELLED
    recording = recorded(*opening)
    recording.connect(connection(1, closed=2_000_000_000.0))
    settle(recording)
    assert lines(recording)[0].status is Status.LOST and lines(recording)[0].ended is not None


def test_a_question_belongs_to_the_only_call_under_way() -> None:
    recording = recorded((IN, call(1, "a")), (IN, request(2, "ping")), (OUT, request(1, "roots/list")))
    call_line, ping = lines(recording)
    assert (call_line.parts, ping.parts) == ((2,), ()) and call_line.asked_at is not None
    recording.frame(1, IN, result(1, {"roots": []}))
    settle(recording)
    line = lines(recording)[0]
    assert (line.asked_at, line.status) == (None, Status.PENDING) and line.waited > 0


def test_a_question_of_two_calls_or_none_stands_for_itself() -> None:
    two = recorded((IN, call(1, "a")), (IN, call(2, "b")), (OUT, request(1, "roots/list")))
    assert [one.method for one in lines(two)] == ["tools/call", "tools/call", "roots/list"]
    none = recorded((OUT, request(1, "roots/list")), (IN, result(1)))
    assert [one.status for one in lines(none)] == [Status.OK]


def test_a_task_keeps_its_looks_questions_and_notifications() -> None:
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t"}}
    recording = recorded(
        (IN, call(1, "a", task={})),
        (OUT, result(1, {"task": {"taskId": "t", "status": "working"}})),
        (IN, call(2, "b")),
        (OUT, notification("notifications/tasks/status", {"taskId": "t", "status": "input_required"})),
        (IN, request(3, "tasks/result", {"taskId": "t", "_meta": related})),
        (OUT, request(1, "elicitation/create", {"message": "?", "_meta": related})),
        (IN, request(4, "tasks/get", {"taskId": "unknown"})),
    )
    made, other, unknown = lines(recording)
    assert [recording.index.exchange(part).method for part in made.parts] == [
        "tasks/result",
        "elicitation/create",
    ]
    assert (made.questions, made.polls) == (1, 1)
    assert made.notifications == (3,) and (other.parts, unknown.parts) == ((), ())


def test_notifications_of_a_later_round_are_the_operations() -> None:
    recording = recorded(
        (IN, call(1, "a")),
        (OUT, asks(1, "s")),
        (IN, retry(2, "a", "s")),
        (OUT, notification("notifications/message", {"level": "info", "data": "x"})),
    )
    assert lines(recording)[0].notifications == (3,)


def test_an_operation_takes_only_so_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_PARTS", 2)
    recording = recorded((IN, call(1, "a")), *[(OUT, request(n, "roots/list")) for n in range(4)])
    assert [len(one.parts) for one in lines(recording)] == [2, 0, 0]
