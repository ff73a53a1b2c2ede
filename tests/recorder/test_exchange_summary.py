"""Summary of an exchange: the request, and its outcome."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.recorder import exchange_summary
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_summary import Summary, summary
from mcpdesk.recorder.masking import MASK
from tests.support.traffic import (
    IN,
    OUT,
    asks,
    call,
    connection,
    error,
    notification,
    request,
    result,
    settle,
    text,
)

READ = request(1, "resources/read", {"uri": "a://b"})
PROGRESS = notification("notifications/progress", {"progress": 3, "total": 20, "message": "on"})
ROWS = {"structuredContent": {"result": [{"id": 1}, {"id": 2, "n": 3}]}}
LONG = "x" * (exchange_summary.MAX_DECODED_BYTES + 1)


def summed(*frames: bytes) -> Summary:
    """Summary of the first frame; all later frames are its answers."""
    recording = Recording(None)
    recording.connect(connection())
    for number, data in enumerate(frames):
        recording.frame(1, OUT if number else IN, data, True)
    settle(recording)
    return summary(recording.index, recording.index.exchange(0))


@pytest.mark.parametrize(
    ("frames", "asked", "answered"),
    [
        ([call(1, "x", {"a": "b", "loud": True}), text(1, "Hi,\n Ada")], 'a="b", loud=true', "Hi, Ada"),
        ([call(1, "greet")], "", ""),
        ([call(1, "x"), result(1, {"content": [], "structuredContent": {"sum": 5}})], "", "sum=5"),
        ([call(1, "x"), result(1, {"content": [{"type": "text"}], **ROWS})], "", "2 objects: id, n"),
        ([call(1, "x"), result(1, {"content": [{"type": "image"}, {"type": "audio"}]})], "", "image, audio"),
        ([call(1, "x"), asks(1, "state", a="Who?", b="When?")], "", "asks Who? · When?"),
        ([request(1, "tools/list"), result(1, {"tools": [{}, {}]})], "", "2 tools"),
        ([request(1, "prompts/list"), result(1, {"prompts": [{}], "nextCursor": "n"})], "", "1+ prompt"),
        ([READ, result(1, {"contents": [{"text": "t"}, {}]})], "", "t (+1)"),
        ([request(1, "ping"), result(1)], "", ""),
        ([PROGRESS], "3 of 20 · on", ""),
        ([notification("notifications/progress", {"progress": 1e-6, "message": "waits"})], "waits", ""),
        ([notification("notifications/message", {"level": "info", "data": {"a": 1}})], 'info {"a":1}', ""),
        ([notification("notifications/cancelled", {"requestId": 7})], "requestId=7", ""),
        ([b"not json"], "", ""),
        ([call(1, "x", {"j": '[{"q": "Tea?"}]'}), text(1, '{"a":\n 1}')], 'j=[{"q": "Tea?"}]', '{"a": 1}'),
        ([call(1, "x", {"j": {"q": '["a"]'}}), text(1, '["\\"a\\""]')], 'j={"q":"["a"]"}', '[""a""]'),
        ([call(1, "x", {"d": {"t": 'say "hi"'}}), text(1, "x")], 'd={"t":"say "hi""}', "x"),
        ([call(1, "x", {"path": "C:\\new"}), text(1, "C:\\temp")], 'path="C:\\new"', "C:\\temp"),
    ],
)  # fmt: skip
def test_what_was_asked_and_what_came(frames: list[bytes], asked: str, answered: str) -> None:
    assert summed(*frames)._replace(values="") == Summary(asked, answered)


def test_values_stand_alone_unless_they_say_nothing_without_their_names() -> None:
    arguments = {"article": "desk lamp", "note": "", "pieces": 0, "deep": True, "loud": False, "like": ["a"]}
    assert summed(call(1, "x", arguments)).values == 'desk lamp, pieces=0, deep, loud=false, like=["a"]'
    opening = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "c"}, "capabilities": {"roots": {}}}
    assert summed(request(1, "initialize", opening)).values == "2025-11-25"
    assert summed(call(1, "x", {"password": "hunter2"})).values == MASK


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"action": "accept", "content": {"city": "Rome"}}, 'accept: city="Rome"'),
        ({"action": "accept"}, "accept"),
        ({"action": "decline"}, "decline"),
    ],
)
def test_an_answered_question_shows_its_outcome(answer: dict[str, Any], outcome: str) -> None:
    recording = Recording(None)
    recording.connect(connection())
    recording.frame(1, OUT, request("q1", "elicitation/create", {"message": "Where?", "requestedSchema": {}}))
    recording.frame(1, IN, result("q1", answer))
    settle(recording)
    found = summary(recording.index, recording.index.exchange(0))
    assert (found.arguments, found.result) == ("Where?", outcome)


def test_an_operation_shows_its_last_result_and_a_round_the_answers() -> None:
    recording = Recording(None)
    recording.connect(connection())
    recording.frame(1, IN, call(1, "plan", {"days": 3}))
    recording.frame(1, OUT, asks(1, "state", where="Where?"))
    given = {"inputResponses": {"where": {"action": "accept", "content": {"city": "Rome"}}}}
    recording.frame(1, IN, call(2, "plan", {"days": 3}, requestState="state", **given))
    recording.frame(1, OUT, text(2, "3 days in Rome"))
    settle(recording)
    operation, part = (summary(recording.index, recording.index.exchange(number)) for number in (0, 1))
    assert (operation.arguments, operation.result) == ("days=3", "3 days in Rome")
    assert (part.arguments, part.result) == ('accept: city="Rome"', "3 days in Rome")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (error(1, -32602, "no such tool"), "-32602 no such tool"),
        (text(1, "it broke", is_error=True), "it broke"),
        (text(1, "x failed: KeyError: 'a'", is_error=True), "KeyError: 'a'"),
    ],
)
def test_a_failure_is_told_as_such(answer: bytes, told: str) -> None:
    assert summed(call(1, "x"), answer) == Summary("", told, has_failed=True)


def test_a_long_list_is_counted_however_long_its_descriptions_are() -> None:
    told = summed(request(1, "tools/list"), result(1, {"tools": [{"description": LONG}] * 3}))
    assert told.result == "3 tools" and not told.has_failed


def test_the_handshake_names_who_speaks() -> None:
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c"},
    }
    found = summed(request(1, "initialize", params), result(1, {"serverInfo": {"name": "s", "version": "2"}}))
    assert (found.arguments, found.result) == ('protocolVersion="2025-11-25", clientInfo={"name":"c"}', "s 2")


def test_secrets_are_masked_and_a_large_message_says_how_it_begins() -> None:
    found = summed(call(1, "x", {"password": "hunter2"}), text(1, "Bearer abcdefghijklmnop"))
    assert "hunter2" not in found.arguments and "abcdefghijklmnop" not in found.result
    large = summed(call(1, "x", {"text": LONG, "token": "t"}), text(1, LONG))
    assert large.arguments.startswith("xxx") and large.result.startswith("xxx"), "its envelope says nothing"
