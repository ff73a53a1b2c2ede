"""Exports are complete, well-formed and masked."""

from __future__ import annotations

import re
import shlex

import orjson

from mcpdesk.features.exports.curl_command import curl, curl_commands
from mcpdesk.features.exports.http_archive import har
from mcpdesk.features.exports.json_export import as_json, json_lines
from mcpdesk.features.exports.markdown_report import report
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.exchange_text import as_text
from mcpdesk.recorder.record import BY_HAND, HeldMark, HttpNote
from tests.support.traffic import IN, OUT, busy_recording, call, connection, settle, text

SECRETS = ("hunter2", "topsecret", "abcdef123456")


def number_of(recording: Recording, name: str) -> int:
    return next(one.number for one in recording.index.exchanges if name in (one.name, one.method))


def test_json_lines_have_one_object_an_exchange() -> None:
    index = busy_recording().index
    lines = list(json_lines(index, range(len(index.exchanges))))
    records = [orjson.loads(line) for line in lines]
    assert len(records) == len(index.exchanges) and all(line.endswith(b"\n") for line in lines)
    first = records[0]
    assert (first["method"], first["status"], first["direction"]) == ("initialize", "ok", "in")
    assert first["request"]["http"]["line"].startswith("POST /mcp/profiles")
    slow = next(one for one in records if one["name"] == "slow-report")
    assert [one["params"]["progress"] for one in slow["notifications"]] == [3, 7]


def test_nothing_exported_holds_a_secret() -> None:
    index = busy_recording().index
    every = range(len(index.exchanges))
    exported = b"".join([*json_lines(index, every), *report(index, every)]).decode()
    exported += "".join(as_text(index, n) + as_json(index, n) + curl(index, n) for n in every)
    assert not any(secret in exported for secret in SECRETS)


def test_sessions_keys_and_named_values_are_masked_in_every_format() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "probe"))
    told = "password: planted1\n{client_secret: planted2}\n-----BEGIN PRIVATE KEY-----\nplanted3\n"
    told += "-----END PRIVATE KEY-----\nuser: ada"
    for number, session in enumerate(("planted-session-1", "planted-session-2", "planted-session-1")):
        note = HttpNote("POST /mcp/profiles HTTP/1.1", (("Mcp-Session-Id", session),))
        recording.frame(1, IN, call(number, "echo", {"text": told}), note=note)
        recording.frame(1, OUT, text(number, told))
    settle(recording)
    index = recording.index
    for writer in (json_lines, report, har, curl_commands):
        exported = b"".join(writer(index, range(3))).decode()
        assert "planted" not in exported and "user: ada" in exported
        shown = re.findall(r"••••[0-9a-f]{6}", exported)
        assert len(shown) == 3 and shown[0] == shown[2] != shown[1]


def test_a_call_that_a_person_held_and_answered_is_not_what_took_longest() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    began = 1_764_000_000.0
    recording.frame(1, IN, call(0, "Bash"), at=began)
    recording.mark(HeldMark(1, IN, 0, began + 30, 30.0, BY_HAND))
    recording.frame(1, OUT, text(0, "no"), at=began + 30)
    recording.frame(1, IN, call(1, "price"), at=began + 40)
    recording.frame(1, OUT, text(1, "9 EUR"), at=began + 40.5)
    settle(recording)
    written = b"".join(report(recording.index, range(2))).decode()
    table = written.partition("## Slowest exchanges")[2].partition("## Exchanges")[0]
    assert table.index("price") < table.index("Bash") and "30,000" not in table


def test_a_report_begins_with_what_failed_and_what_took_long() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "cursor 1.9"))
    recording.connect(connection(2, "nightly 0.3"))
    at = 1_764_000_000.0
    for number in range(4):
        client, took = 1 + number % 2, 0.6 if number == 2 else 0.001
        recording.frame(client, IN, call(number, "price", {"article": f"desk-{number}"}), at=at)
        failure = text(number, f"price failed: KeyError: no price since 12:00:0{number}", is_error=True)
        recording.frame(client, OUT, failure if client == 2 else text(number, "9 EUR"), at=at + took)
        at += 1
    settle(recording)
    lines = b"".join(report(recording.index, range(4))).decode().splitlines()
    assert lines[2].startswith("4 exchanges, 2 failed, from 2025-11-24T16:00:00.000+00:00 to ")
    assert lines[2].endswith("Clients: cursor 1.9, nightly 0.3. Servers: profiles.")
    errors, slow, table = (
        lines.index(f"## {title}")
        for title in ("Errors", "Slowest exchanges, without waiting for people and clients", "Exchanges")
    )
    assert errors < slow < table
    (failed,) = lines[errors + 4 : slow - 1]
    assert failed == (
        "| tools/call price | KeyError: no price since 12:00:01 | 2 | 1 at 2025-11-24T16:00:01.000+00:00"
        " | nightly 0.3 |"
    )
    assert lines[slow + 4] == "| tools/call price | cursor 1.9 | 2 | 300.5 ms | 600.0 ms | 2 |"
    assert '| tools/call price article="desk-0" → 9 EUR |' in lines[table + 4]


def test_a_report_cannot_be_broken_by_what_it_reports() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "evil|peer <b>`x`"))
    recording.frame(1, IN, call(1, "a|b", {"x": "```\n# heading"}))
    recording.frame(1, OUT, text(1, "fine"))
    settle(recording)
    written = b"".join(report(recording.index, [0])).decode()
    row = next(line for line in written.splitlines() if line.startswith("| 0"))
    assert row.replace("\\|", "").count("|") == 9
    assert "````json" in written or "\\n# heading" in written
    assert "<b>" not in row


def test_curl_repeats_what_passed_over_http() -> None:
    recording = busy_recording()
    words = shlex.split(curl(recording.index, 0).replace("\\\n", " "))
    assert words[:4] == ["curl", "-X", "POST", "http://127.0.0.1:3333/mcp/profiles?api_key=••••"]
    assert "Authorization: Bearer ••••" in words and "Host: 127.0.0.1:3333" not in words
    assert orjson.loads(words[words.index("--data") + 1])["method"] == "initialize"


def test_curl_of_what_passed_otherwise_uses_the_url_given() -> None:
    recording = busy_recording()
    number = number_of(recording, "user-profile")
    command = curl(recording.index, number, "http://h:1/mcp/p", {"X-API-Key": "••••"})
    words = shlex.split(command.replace("\\\n", " "))
    assert words[3] == "http://h:1/mcp/p" and "X-API-Key: ••••" in words
    assert "MCP-Protocol-Version: 2026-07-28" in words and "Mcp-Name: user-profile" in words


def test_text_has_a_heading_and_both_messages() -> None:
    recording = busy_recording()
    told = as_text(recording.index, number_of(recording, "slow-report"))
    assert "claude-code 2.1 → profiles  tools/call slow-report  tool-error" in told
    assert "request:" in told and "the oven is cold" in told


def test_a_message_that_was_changed_at_the_desk_is_exported_as_what_it_was_and_became() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "probe"))
    recording.frame(1, IN, call(1, "Bash", {"command": "echo before"}))
    recording.frame(1, OUT, text(1, "after"))
    settle(recording)
    index = recording.index
    was, now = call(1, "Bash", {"command": "echo before"}), call(1, "Bash", {"command": "echo after"})
    at = index.exchange(0).started
    recording.mark(HeldMark(1, IN, 1, at, 0.0, "changed", was.decode(), now.decode()))

    assert summary(index, index.exchange(0)).arguments == '✎ command="echo after"'
    written = b"".join(report(index, [0])).decode()
    assert "At the desk the request was held for 0.0 s: changed" in written and "echo after" in written
    assert "changed" in as_text(index, 0) and "echo after" in as_text(index, 0)
    [line] = [orjson.loads(line) for line in json_lines(index, [0])]
    assert line["held"][0]["was"]["params"]["arguments"] == {"command": "echo before"}
    assert line["held"][0]["now"]["params"]["arguments"] == {"command": "echo after"}
