"""HTTP details of an exchange, headers with glyph and words; only requests are checked."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote
from mcpdesk.tui.actions import BY_ID
from mcpdesk.tui.traffic import exchange_details as module
from mcpdesk.tui.traffic.exchange_details import (
    MESSAGES,
    frame_heading,
    http_text,
    steps,
    with_important_first,
)
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    busy_recording,
    call,
    connection,
    request,
    result,
    settle,
)


def said(recording: Recording, number: int) -> str:
    index = recording.index
    return http_text(index, index.exchange(number)).plain


def test_headers_have_a_glyph_and_words() -> None:
    lines = said(asking_recording(), 0).splitlines()
    assert lines[:5] == [
        "tools/call #11",
        "",
        "POST /mcp/profiles HTTP/1.1",
        "✗ Mcp-Name:  missing",
        "✓ Host: 127.0.0.1:3333  this machine",
    ]
    assert lines[9] == "  Authorization: Bearer ••••"


def test_headers_that_repeat_arguments_are_judged_by_the_schema_of_the_tool() -> None:
    index = asking_recording().index
    one, schema = index.exchange(0), {"properties": {"to": {"type": "string", "x-mcp-header": "To"}}}
    assert "✗ mcp-param-to:  missing" in http_text(index, one, schema).plain.splitlines()
    assert "mcp-param-to" not in http_text(index, one).plain


def test_a_single_exchange_has_no_heading_and_its_response_is_not_judged() -> None:
    lines = said(busy_recording(), 0).splitlines()
    assert lines[0] == "POST /mcp/profiles?api_key=•••• HTTP/1.1"
    assert lines[-2:] == ["HTTP/1.1 200 OK", "  Content-Type: application/json"]


def test_what_was_no_post_is_not_judged() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    note = HttpNote("GET /mcp/profiles/ws HTTP/1.1", (("Upgrade", "websocket"),))
    recording.frame(1, IN, request(1, "ping"), note=note)
    recording.frame(1, OUT, result(1))
    settle(recording)
    assert said(recording, 0) == "GET /mcp/profiles/ws HTTP/1.1\n  Upgrade: websocket"


def test_strangers_headers_are_harmless() -> None:
    recording = Recording(None)
    note = HttpNote("POST /\x1b[31m HTTP/1.1", (("X-\x07", "[b]\x1b[0m"),))
    recording.frame(1, IN, b"no json", note=note)
    settle(recording)
    assert "\x1b" not in said(recording, 0) and "[b]" in said(recording, 0)


def test_only_the_newest_parts_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PARTS", 1)
    text = said(asking_recording(), 0)
    assert "#11" in text and "#12" not in text and "#13" in text


def test_a_pipe_has_no_headers() -> None:
    assert said(asking_recording(), 3) == "This exchange did not use HTTP."


def shown(number: int) -> dict[str, dict[str, object]]:
    index = asking_recording().index
    return steps(index, index.exchange(number))


def test_rounds_hold_answers_then_what_came_of_them() -> None:
    first, second, third = shown(0).items()
    assert first[0].startswith("round 1 #11 · asks after ") and second[0].startswith("round 2 #12 · at +")
    assert first[1]["questions"] == {"seat (elicitation/create)": {"message": "Which seat?"}}
    assert second[1]["answers"] == {"seat": {"action": "accept", "content": {"seat": "7A"}}}
    assert list(second[1]["questions"]) == ["meal (elicitation/create)", "bag (elicitation/create)"]  # type: ignore[call-overload]
    assert third[0].partition("after")[0].endswith("ok ") and list(third[1]) == [
        "answers",
        "result",
        MESSAGES,
    ]


def test_questions_to_the_client_stand_before_the_result_of_their_call() -> None:
    asked, sampled, called = shown(3).items()
    assert asked[1]["question"] == {"message": "Inside or outside?"}
    assert asked[1]["answer"] == {"action": "accept", "content": {"place": "garden"}}
    assert sampled[0].startswith("sampling/createMessage #2") and "error after" in sampled[0]
    assert sampled[1]["answer"] == {"code": -1, "message": "User rejected sampling request"}
    assert called[0].startswith("tools/call #1") and "result" in called[1]


def test_looks_at_a_task_stand_after_its_creation() -> None:
    created, looked, looked_again = shown(7).items()
    assert created[0].startswith("tools/call #20") and looked[0].startswith("tasks/get #21")
    assert looked_again[1]["result"]["status"] == "completed"  # type: ignore[index]


def test_every_step_has_its_whole_messages() -> None:
    for step in shown(0).values():
        messages = step[MESSAGES]
        assert isinstance(messages, dict) and messages["request"]["method"] == "tools/call"


def test_secrets_are_masked_by_the_schema_of_the_tool() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a", {"code": "4711"}))
    recording.frame(1, OUT, request(1, "roots/list"))
    settle(recording)
    schema = {"properties": {"code": {"type": "string", "format": "password"}}}
    index = recording.index
    assert "4711" not in str(steps(index, index.exchange(0), schema))
    assert "4711" in str(steps(index, index.exchange(0)))


def test_a_step_under_way_is_pending_and_last() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, OUT, request(1, "roots/list"))
    settle(recording)
    index = recording.index
    titles = list(steps(index, index.exchange(0)))
    assert titles[0] == "tools/call #1 · pending" and titles[1].endswith("pending")


def test_only_the_newest_steps_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 2)
    assert [title[:7] for title in shown(0)] == ["round 2", "round 3"]


def test_a_message_begins_with_what_says_most_and_ends_with_its_envelope() -> None:
    params = {"_meta": {}, "name": "price", "arguments": {"b": 1, "_meta": 2}}
    shown = with_important_first({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    assert list(shown) == ["params", "envelope"]
    assert shown["envelope"] == {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    assert list(shown["params"].items()) == [
        ("arguments", {"b": 1, "_meta": 2}),
        ("_meta", {}),
        ("name", "price"),
    ]
    failed = with_important_first({"result": {"isError": True, "content": []}, "other": 1, "error": "odd"})
    assert list(failed) == ["result", "error", "other"]
    assert list(failed["result"]) == ["content", "isError"]


@pytest.mark.parametrize("value", [[{"id": 1}], "text", None])
def test_a_message_that_is_no_object_is_shown_as_it_is(value: object) -> None:
    assert with_important_first(value) is value
    assert with_important_first({"params": value}) == {"params": value}


def test_the_heading_of_a_long_frame_names_the_key_that_shows_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = busy_recording().index
    assert "shows all" not in frame_heading(index, 0)
    monkeypatch.setattr(module, "MAX_SHOWN_BYTES", 20)
    assert f"{BY_ID['traffic.pager'].keys} shows all, " in frame_heading(index, 0)
