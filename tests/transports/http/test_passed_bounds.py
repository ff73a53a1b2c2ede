"""Limits on the stored clients of an upstream server, and on messages that none of them receives."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.transports.http.passing import pass_through_routes, passed_clients
from mcpdesk.transports.http.passing.pass_through_routes import UnclaimedMessages
from mcpdesk.transports.http.passing.passed_clients import PassedClient, PassedKey


def answer(number: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number


def test_responses_wait_for_the_answer_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_through_routes, "MAX_UNCLAIMED_MESSAGES", 2)
    recorded: list[bytes] = []
    unclaimed = UnclaimedMessages(recorded.append)
    for number in range(3):
        unclaimed.add(answer(number))
    assert recorded == [answer(2)], "one more than may wait is recorded at once"
    unclaimed.flush()
    unclaimed.add(answer(3))
    assert recorded == [answer(number) for number in (2, 0, 1, 3)]


def test_responses_wait_for_the_answer_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pass_through_routes, "MAX_UNCLAIMED_BYTES", len(answer(0)))
    recorded: list[bytes] = []
    unclaimed = UnclaimedMessages(recorded.append)
    unclaimed.add(answer(0))
    unclaimed.add(answer(1))
    assert recorded == [answer(1)]


def test_calls_whose_answers_are_not_seen_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_clients, "MAX_TRACKED_CALLS", 3)
    info = ConnectionInfo(1, "far", "http", "c", "", 1.0)
    client = PassedClient(PassedKey("far"), info, 1.0)
    for number in range(5):
        client.count_call(number)
    assert client.pending_calls == {3, 4} and client.calls == 5
    client.count_answer(0, True)
    assert client.errors == 0, "its call is forgotten"
    client.count_answer(4, True)
    assert client.errors == 1 and client.pending_calls == {3}
