"""Valid JSON is shown as JSON; other messages are shown as text with a reason."""

from __future__ import annotations

import pytest

from mcpdesk.recorder import readable_message
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.record import HttpNote
from tests.support.traffic import IN, OUT, busy_recording, call, connection, request, result, settle


def test_messages_are_decoded_and_masked() -> None:
    index = busy_recording().index
    profile = next(one for one in index.exchanges if one.name == "user-profile")
    assert profile.request is not None
    value, problem = readable_message.message(index, profile, profile.request)
    assert (value["params"]["arguments"], problem) == ({"userId": "123", "password": MASK}, "")


def test_what_is_no_json_is_text_with_the_reason() -> None:
    index = busy_recording().index
    broken = next(one for one in index.exchanges if one.status == "malformed")
    assert broken.request is not None
    value, problem = readable_message.message(index, broken, broken.request)
    assert value.startswith('{"jsonrpc"') and "cannot be read" in problem


def test_the_message_of_a_batch_is_taken_out_of_it() -> None:
    recording = Recording(None)
    recording.frame(1, IN, b"[" + request(1, "ping") + b"," + call(2, "echo") + b"]")
    settle(recording)
    index = recording.index
    values = [readable_message.message(index, one, 0).value for one in index.exchanges]
    assert [value["id"] for value in values] == [1, 2]


def test_a_giant_shows_its_beginning() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "echo", {"text": "x" * 3_000_000}))
    settle(recording)
    value, problem = readable_message.message(recording.index, recording.index.exchange(0), 0)
    assert len(value) < 20_000 and "too large to decode" in problem


def test_a_frame_cut_for_good_says_so() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "echo", {"text": "x" * 300_000}))
    recording.start()
    recording.close()
    settle(recording)
    _, problem = readable_message.message(recording.index, recording.index.exchange(0), 0)
    assert "65,536 of 300," in problem and "capture_body_bytes" in problem
    with pytest.raises(ValueError, match="capture_body_bytes"):
        readable_message.unmasked(recording.index, recording.index.exchange(0), 0)


def test_a_frame_that_is_gone_says_so() -> None:
    recording = busy_recording()
    assert "no longer" in readable_message.message(recording.index, recording.index.exchange(0), 999).problem


def test_http_is_masked() -> None:
    index = busy_recording().index
    opening = index.exchange(0)
    said = readable_message.http(index, opening, 0)
    assert said is not None
    line, headers = said
    assert line == f"POST /mcp/profiles?api_key={MASK} HTTP/1.1"
    assert dict(headers)["Authorization"] == f"Bearer {MASK}"
    assert readable_message.http(index, index.exchange(2), 3) is None
    index.secret_headers = frozenset({"host"})
    said = readable_message.http(index, opening, 0)
    assert said is not None and dict(said[1])["Host"] == MASK


def test_an_answer_without_a_note_is_the_usual_one_only_where_it_answers_a_post() -> None:
    recording = Recording(None)
    for number, transport in ((1, "http"), (2, "sse"), (3, "stdio")):
        recording.connect(connection(number, transport=transport))
        note = None if transport == "stdio" else HttpNote("POST /mcp/profiles HTTP/1.1", ())
        recording.frame(number, IN, request(1, "ping"), note=note)
        recording.frame(number, OUT, result(1))
    settle(recording)
    index = recording.index
    assert [readable_message.http(index, index.exchange(n), 2 * n + 1) for n in range(3)] == [
        ("HTTP/1.1 200 OK", (("Content-Type", "application/json"),)),
        None,
        None,
    ]
