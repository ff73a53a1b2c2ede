"""An HTTP archive holds what passed over HTTP, as the format wants it and without secrets."""

from __future__ import annotations

from typing import Any

import orjson

from mcpdesk.features.exports.http_archive import har, sent_over_http
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HttpNote
from tests.support.traffic import IN, asking_recording, busy_recording, call, settle


def entries(recording: Recording) -> list[dict[str, Any]]:
    index = recording.index
    archive = orjson.loads(b"".join(har(index, range(len(index.exchanges)))))
    assert archive["log"]["version"] == "1.2" and archive["log"]["creator"]["name"] == "mcpdesk"
    found: list[dict[str, Any]] = archive["log"]["entries"]
    return found


def test_an_entry_has_request_response_and_times() -> None:
    (entry,) = entries(busy_recording())
    asked, answered = entry["request"], entry["response"]
    assert (asked["method"], asked["url"]) == ("POST", "http://127.0.0.1:3333/mcp/profiles?api_key=••••")
    assert asked["queryString"] == [{"name": "api_key", "value": "••••"}]
    assert orjson.loads(asked["postData"]["text"])["method"] == "initialize"
    assert {"name": "Authorization", "value": "Bearer ••••"} in asked["headers"]
    assert (answered["status"], answered["statusText"], answered["httpVersion"]) == (200, "OK", "HTTP/1.1")
    assert answered["content"]["mimeType"] == "application/json"
    assert answered["content"]["size"] == len(answered["content"]["text"])
    assert entry["startedDateTime"].endswith("+00:00") and entry["time"] == entry["timings"]["wait"] >= 0
    required = {"cookies", "headers", "headersSize", "bodySize", "httpVersion"}
    assert required | {"queryString"} <= asked.keys() and required | {"redirectURL"} <= answered.keys()


def test_every_round_is_an_entry_of_its_own_time() -> None:
    recording = asking_recording()
    assert sent_over_http(recording.index, range(9)) == [0, 1, 2]
    assert [entry["comment"] for entry in entries(recording)] == ["notebook 3.0: tools/call book-flight"] * 3


def test_what_never_was_answered_has_status_0() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"), note=HttpNote("POST //[ HTTP/1.1", ()))
    settle(recording)
    (entry,) = entries(recording)
    assert (entry["response"]["status"], entry["response"]["content"]["size"]) == (0, 0)


def test_nothing_over_http_is_an_empty_archive() -> None:
    assert entries(Recording(None)) == []


def test_a_body_of_which_not_all_was_kept_says_so() -> None:
    recording = Recording(None)
    note = HttpNote("POST /mcp HTTP/1.1", ())
    recording.frame(1, IN, call(1, "echo", {"text": "x" * 300_000}), note=note)
    recording.start()
    recording.close()
    settle(recording)
    (entry,) = entries(recording)
    assert "65,536 of 300," in entry["request"]["comment"]
    assert "comment" not in entry["response"]
