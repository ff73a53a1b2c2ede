"""Responses are paired with their requests; unpaired ones are shown with their status."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import recording as capture_recording
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.record import Direction, HeldMark, RecordedRemark
from tests.support.traffic import (
    IN,
    OUT,
    call,
    connection,
    error,
    notification,
    progress,
    request,
    result,
    settle,
    text,
)


def paired(*frames: tuple[Direction, bytes], over: int = 1) -> list[Exchange]:
    """The exchanges of some frames over one connection."""
    recording = Recording(None)
    recording.connect(connection(over))
    for direction, data in frames:
        recording.frame(over, direction, data)
    settle(recording)
    return list(recording.index.exchanges)


def test_a_response_ends_its_request() -> None:
    (one,) = paired((IN, call(1, "echo")), (OUT, text(1, "x")))
    assert (one.kind, one.status, one.name, one.id) == (ExchangeKind.REQUEST, Status.OK, "echo", 1)
    assert (one.request, one.response, one.direction) == (0, 1, Direction.IN)
    assert one.ended is not None and one.ended >= one.started
    assert one.size == len(call(1, "echo")) + len(text(1, "x"))


def test_number_and_text_ids_are_kept_apart() -> None:
    number, text_id = paired((IN, request(1, "ping")), (IN, request("1", "ping")), (OUT, result("1")))
    assert (number.status, text_id.status) == (Status.PENDING, Status.OK)


def test_both_directions_have_ids_of_their_own() -> None:
    asked, asking = paired(
        (IN, request(1, "tools/list")), (OUT, request(1, "roots/list")), (IN, result(1)), (OUT, error(1))
    )
    assert (asked.method, asked.status, asked.response) == ("tools/list", Status.ERROR, 3)
    assert (asking.method, asking.status, asking.direction) == ("roots/list", Status.OK, Direction.OUT)


def test_connections_have_ids_of_their_own() -> None:
    recording = Recording(None)
    recording.frame(1, IN, request(1, "ping"))
    recording.frame(2, OUT, result(1))
    settle(recording)
    asked, stray = recording.index.exchanges
    assert (asked.status, stray.status, stray.kind) == (Status.PENDING, Status.LATE, ExchangeKind.RESPONSE)


def test_errors_and_tool_errors_differ() -> None:
    failed, refused = paired(
        (IN, call(1, "a")), (OUT, text(1, "x", is_error=True)), (IN, call(2, "b")), (OUT, error(2))
    )
    assert (failed.status, refused.status) == (Status.TOOL_ERROR, Status.ERROR)


def test_a_cancelled_call_may_be_answered_late() -> None:
    cancel = notification("notifications/cancelled", {"requestId": 1})
    one, _ = paired((IN, call(1, "a")), (IN, cancel))
    assert one.status is Status.CANCELLED and one.ended is not None
    one, _ = paired((IN, call(1, "a")), (IN, cancel), (OUT, text(1, "x")))
    assert (one.status, one.response) == (Status.LATE, 2)


def test_the_other_side_cannot_cancel() -> None:
    cancel = notification("notifications/cancelled", {"requestId": 1})
    one, _ = paired((IN, call(1, "a")), (OUT, cancel), (OUT, text(1, "x")))
    assert one.status is Status.OK


def test_an_id_used_twice_at_once_is_answered_in_order() -> None:
    first, second = paired(
        (IN, call(1, "a")), (IN, call(1, "b")), (OUT, text(1, "x")), (OUT, text(1, "y", is_error=True))
    )
    assert (first.status, first.response) == (Status.OK, 2)
    assert (second.status, second.response) == (Status.TOOL_ERROR, 3)


def test_progress_belongs_to_the_call_that_asked_for_it() -> None:
    one, other, *rest = paired(
        (IN, call(1, "a", _meta={"progressToken": 5})),
        (IN, call(2, "b", _meta={"progressToken": "5"})),
        (OUT, progress(5, 1)),
        (OUT, progress("5", 1)),
        (OUT, progress(5, 2)),
        (OUT, progress("unknown", 2)),
    )
    assert (one.notifications, other.notifications) == ((2, 4), (3,))
    assert [note.kind for note in rest] == [ExchangeKind.NOTIFICATION] * 4
    assert {note.status for note in rest} == {Status.SENT}


def test_a_log_message_belongs_to_the_only_call_under_way() -> None:
    log = notification("notifications/message", {"level": "info", "data": "x"})
    only, *_ = paired((IN, call(1, "a")), (OUT, log), (OUT, text(1, "x")), (OUT, log))
    assert only.notifications == (1,)
    first, second, *_ = paired((IN, call(1, "a")), (IN, call(2, "a")), (OUT, log))
    assert (first.notifications, second.notifications) == ((), ())


def test_an_error_without_id_answers_the_malformed_frame() -> None:
    one, other = paired((IN, b"{nonsense"), (OUT, error(None, -32700)), (OUT, error(None, -32700)))
    assert (one.kind, one.status, one.response) == (ExchangeKind.MALFORMED, Status.MALFORMED, 1)
    assert (other.kind, other.request, other.response) == (ExchangeKind.RESPONSE, None, 2)


def test_messages_of_a_batch_are_exchanges_of_their_own() -> None:
    recording = Recording(None)
    recording.frame(1, IN, b"[" + request(1, "ping") + b"," + call(2, "a") + b"]")
    recording.frame(1, OUT, b"[" + text(2, "x") + b"," + result(1) + b"]")
    settle(recording)
    index = recording.index
    ping, called = index.exchanges
    assert (ping.status, called.status) == (Status.OK, Status.OK)
    assert (index.part_of(0, 0), index.part_of(0, 1), index.part_of(1, 1)) == (0, 1, 0)
    assert index.rows_of(1) == (1, 0)


def test_requests_of_a_closed_connection_are_lost() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "a"))
    settle(recording)
    assert recording.index.pending() == [0]
    recording.connect(connection(1, closed=4e9))
    settle(recording)
    recording.index.catch_up()
    (one,) = recording.index.exchanges
    assert (one.status, one.ended) == (Status.LOST, 4e9)
    assert recording.index.pending() == []


def test_revisions_are_those_of_the_message_else_of_the_connection() -> None:
    agreed, stated, plain = paired(
        (IN, request(0, "initialize", {"protocolVersion": "2099-01-01"})),
        (OUT, result(0, {"protocolVersion": "2025-06-18"})),
        (IN, request(1, "ping", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}})),
        (IN, request(2, "ping")),
    )
    assert [one.revision for one in (agreed, stated, plain)] == ["2025-06-18", "2026-07-28", "2025-11-25"]


def test_made_up_revisions_do_not_pile_up() -> None:
    recording = Recording(None)
    for number in range(1_000):
        meta = {"io.modelcontextprotocol/protocolVersion": f"r{number}"}
        recording.frame(1, IN, request(number, "ping", {"_meta": meta}))
    settle(recording)
    assert len(recording.index.table.revisions) < 110


def silence(number: int, *, is_question: bool = False) -> RecordedRemark:
    """Remark that a request got no response."""
    remark = Remark(RemarkKind.NO_ANSWER, "the program ended", is_fault=True)
    return RecordedRemark(1, number, time.time(), remark, is_question=is_question)


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (None, Status.LOST),
        ((OUT, text(1, "x")), Status.OK),
        ((IN, notification("notifications/cancelled", {"requestId": 1})), Status.CANCELLED),
    ],
)
def test_a_request_that_gets_no_response_is_lost_until_one_comes(
    tmp_path: Path, then: tuple[Direction, bytes] | None, expected: Status
) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "a"))
    recording.remark(silence(1))
    settle(recording)
    (one,) = recording.index.exchanges
    assert one.status is Status.LOST and one.ended is not None and recording.index.pending() == []
    assert [each.remark.text for each in recording.index.recorded_remarks(one)] == ["the program ended"]
    if then is not None:
        recording.frame(1, *then)
        settle(recording)
    assert recording.index.exchange(0).status is expected
    recording.close()
    assert recording.path is not None
    again = Archive(recording.path).index
    while again.catch_up():
        pass
    assert again.exchange(0).status is expected


def test_silence_says_nothing_of_an_answered_request_nor_of_one_of_the_other_side() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, OUT, request(1, "roots/list"))
    recording.frame(1, OUT, text(1, "x"))
    recording.remark(silence(1))
    recording.remark(silence(1, is_question=True))
    settle(recording)
    called, asked = recording.index.exchanges
    assert (called.status, asked.status) == (Status.OK, Status.LOST)
    assert recording.index.pending() == []


def dropped(number: int, was: bytes, seconds: float) -> HeldMark:
    """Mark of a message that was held for a moment and dropped, so many seconds from now."""
    direction = IN if b"method" in was else OUT
    return HeldMark(1, direction, number, time.time() + seconds, 0.5, "dropped", was.decode())


def test_a_call_that_took_long_is_lost_when_its_answer_is_dropped() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, IN, call(2, "a"))
    recording.mark(dropped(2, text(2, "x"), seconds=30))
    settle(recording)
    assert [one.status for one in recording.index.exchanges] == [Status.PENDING, Status.LOST]


def test_a_dropped_answer_that_was_cut_is_told_from_a_request() -> None:
    for whole, is_of_request in (
        (result(1, {"method": "a"}), False),
        (request(1, "ping", {"result": 1}), True),
    ):
        was = whole[:-1].decode()
        assert HeldMark(1, OUT, 1, 0.0, 0.5, "dropped", was).is_of_request == is_of_request


def test_a_dropped_call_is_lost_when_its_frame_arrives_after_the_mark() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.mark(dropped(2, call(2, "a"), seconds=1))
    recording.frame(1, IN, call(1, "a"))
    settle(recording)
    recording.frame(1, IN, call(2, "a"))
    settle(recording)
    assert [one.status for one in recording.index.exchanges] == [Status.PENDING, Status.LOST]


@pytest.mark.parametrize("most", [1, 100])
def test_a_cancelled_call_whose_code_runs_is_left_until_that_has_ended(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(capture_recording, "MAX_REMARKS", most)
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, IN, notification("notifications/cancelled", {"requestId": 1}))
    recording.frame(1, IN, call(2, "a"))
    recording.frame(1, OUT, text(2, "late"))
    for number in (1, 2):
        recording.remark(RecordedRemark(1, number, time.time(), Remark(RemarkKind.CODE_RUNS, "it runs")))
    settle(recording)
    index = recording.index
    assert [index.exchange(number).status for number in (0, 2)] == [Status.LEFT, Status.OK]
    assert not index.is_remarked(0)
    recording.remark(RecordedRemark(1, 1, time.time(), Remark(RemarkKind.CODE_ENDED, "it ended")))
    settle(recording)
    assert index.exchange(0).status is Status.CANCELLED
