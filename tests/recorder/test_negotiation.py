"""Requests by which a client finds the era of a server: a missing method does not count as an error."""

from __future__ import annotations

from time import time

import pytest

from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.index.exchange import ExchangeKind, Status
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.readable_message import remarks
from mcpdesk.recorder.record import ConnectionInfo, Direction, HttpNote, RecordedRemark
from tests.support.traffic import IN, OUT

DISCOVER = b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}'
INITIALIZE = b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}'
INITIALIZED = b'{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18"}}'
UNKNOWN = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"Method not found"}}'
SILENCE = Remark(RemarkKind.NO_ANSWER, "the program ended with exit code 1", is_fault=True)


def opened(*frames: tuple[Direction, bytes, HttpNote | None], transport: str = "stdio") -> Recording:
    """A recording of a connection that begins so."""
    recording = Recording(None)
    recording.start()
    recording.connect(ConnectionInfo(1, "s", transport, "desk", "", time()))
    for direction, data, note in frames:
        recording.frame(1, direction, data, True, note)
    return recording


def statuses(recording: Recording) -> list[Status]:
    """The statuses of the requests."""
    while recording.index.catch_up(1.0):
        pass
    return [each.status for each in recording.index.exchanges if each.kind is ExchangeKind.REQUEST]


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_refused_opening_probe_is_negotiation_and_a_later_one_an_error(transport: str) -> None:
    later = DISCOVER.replace(b":1,", b":3,")
    recording = opened(
        (IN, DISCOVER, None),
        (OUT, UNKNOWN % 1, None),
        (IN, INITIALIZE, None),
        (OUT, INITIALIZED, None),
        (IN, later, None),
        (OUT, UNKNOWN % 3, None),
        transport=transport,
    )
    assert statuses(recording) == [Status.NEGOTIATION, Status.OK, Status.ERROR]
    index = recording.index
    assert [str(each.kind) for each in remarks(index, index.exchange(0))] == ["negotiation"]
    assert not index.is_remarked(0)
    assert not summary(index, index.exchange(0)).has_failed
    recording.close()


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("is_late", [False, True])
def test_an_unanswered_opening_probe_is_negotiation(transport: str, is_late: bool) -> None:
    handshake = ((IN, INITIALIZE, None), (OUT, INITIALIZED, None))
    recording = opened((IN, DISCOVER, None), *(() if is_late else handshake), transport=transport)
    recording.remark(RecordedRemark(1, 1, time(), SILENCE))
    if is_late:
        assert statuses(recording) == [Status.LOST], "the server may not be there at all"
        for direction, data, note in handshake:
            recording.frame(1, direction, data, True, note)
    assert statuses(recording) == [Status.NEGOTIATION, Status.OK]
    assert not recording.index.is_remarked(0)
    recording.frame(1, OUT, UNKNOWN % 1, True)
    assert statuses(recording) == [Status.NEGOTIATION, Status.OK], "its answer came after the time was up"
    recording.close()


def test_a_handshake_that_comes_too_early_for_a_newer_server_is_negotiation() -> None:
    refusal = (UNKNOWN % 2).replace(b"-32601", b"-32022")
    again = DISCOVER.replace(b":1,", b":3,")
    recording = opened((IN, DISCOVER, None), (IN, INITIALIZE, None), (OUT, refusal, None), (IN, again, None))
    recording.remark(RecordedRemark(1, 1, time(), SILENCE))
    assert statuses(recording) == [Status.LOST, Status.ERROR, Status.PENDING], "nothing is agreed on yet"
    recording.frame(1, OUT, b'{"jsonrpc":"2.0","id":3,"result":{"supportedVersions":["2026-07-28"]}}', True)
    assert statuses(recording) == [Status.NEGOTIATION, Status.NEGOTIATION, Status.OK]
    recording.close()


@pytest.mark.parametrize(("status", "expected"), [(401, Status.ERROR), (404, Status.NEGOTIATION)])
def test_a_probe_that_any_request_would_have_failed_is_an_error(status: int, expected: Status) -> None:
    recording = opened(
        (IN, DISCOVER, None), (OUT, UNKNOWN % 1, HttpNote(f"HTTP {status}", ())), transport="http"
    )
    assert statuses(recording) == [expected]
    recording.close()


@pytest.mark.parametrize(("code", "expected"), [(-32601, Status.NEGOTIATION), (-32603, Status.ERROR)])
def test_a_server_without_listening_is_no_error(code: int, expected: Status) -> None:
    listen = DISCOVER.replace(b"server/discover", b"subscriptions/listen").replace(b":1,", b":3,")
    refusal = (UNKNOWN % 3).replace(b"-32601", str(code).encode())
    recording = opened(
        (IN, INITIALIZE, None), (OUT, INITIALIZED, None), (IN, listen, None), (OUT, refusal, None)
    )
    assert statuses(recording) == [Status.OK, expected]
    assert [str(each.kind) for each in remarks(recording.index, recording.index.exchange(1))] == (
        ["negotiation"] if expected is Status.NEGOTIATION else []
    )
    recording.close()


@pytest.mark.parametrize(
    "body",
    [
        b"Bad Request: Missing session ID",
        b'{"error":"Missing session ID"}',
        b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Missing session ID"}}',
    ],
)
def test_a_body_of_http_that_answers_no_request_is_part_of_the_probe_it_refuses(body: bytes) -> None:
    recording = opened(
        (IN, DISCOVER, None),
        (OUT, body, HttpNote("HTTP 400", ())),
        (IN, INITIALIZE, None),
        (OUT, INITIALIZED, None),
        (OUT, body, HttpNote("HTTP 400", ())),
        transport="http",
    )
    recording.remark(RecordedRemark(1, 1, time(), SILENCE))
    assert statuses(recording) == [Status.NEGOTIATION, Status.OK]
    index = recording.index
    assert index.exchange(0).response == 1 and index.frame_bytes(1) == body
    assert len(index.exchanges) == 3, "a later body gets a separate row"
    assert lines(index, "is:negotiation") == lines(index, "status:negotiation") == [0]
    assert lines(index, "is:negotiation|held") == [0] and lines(index, "is:held") == []
    recording.close()


def test_a_step_of_a_login_is_no_part_of_the_probe_that_led_to_it() -> None:
    recording = opened(
        (IN, DISCOVER, None), (IN, b"", None), (OUT, b"no", HttpNote("HTTP 404", ())), transport="http"
    )
    assert statuses(recording) == [Status.PENDING]
    assert len(recording.index.exchanges) == 3
    recording.close()


def lines(index: Index, query: str) -> list[int]:
    """The rows that a filter lets pass."""
    view = View(index, parse(query, time()))
    view.advance(1.0)
    return list(view.lines)
