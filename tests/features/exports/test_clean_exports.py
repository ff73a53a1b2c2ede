"""Exports and copies of hostile traffic: no control and no bidirectional character in any of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import orjson
import pytest

from mcpdesk.cli.printing import JUnitCase, junit_report
from mcpdesk.features.exports.curl_command import curl, curl_commands
from mcpdesk.features.exports.http_archive import har
from mcpdesk.features.exports.json_export import as_json, json_lines
from mcpdesk.features.exports.markdown_report import as_markdown, report
from mcpdesk.features.exports.sequence_diagram import mermaid
from mcpdesk.plain_text import harmless
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_text import as_text, heading
from mcpdesk.recorder.record import HttpNote
from tests.support.hostile import hostile
from tests.support.traffic import IN, OUT, call, connection, settle, text

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
EXCHANGES = range(3)


def hostile_recording() -> Recording:
    """A call, a failed call and a message that is not JSON, with terminal commands in every text."""
    recording = Recording(None)
    recording.connect(connection(1, hostile("peer")))
    headers = (("Host", "127.0.0.1:1"), ("X-A", hostile("header")))
    note = HttpNote(f"POST /{hostile('path')} HTTP/1.1", headers)
    recording.frame(1, IN, call(1, hostile("tool"), {hostile("key"): hostile("value")}), note=note)
    answered = HttpNote(f"HTTP/1.1 200 {hostile('ok')}", headers)
    recording.frame(1, OUT, text(1, hostile("result")), note=answered)
    recording.frame(1, IN, call(2, hostile("tool"), {"a": hostile("value")}))
    recording.frame(1, OUT, text(2, hostile("failure"), is_error=True))
    recording.frame(1, IN, hostile("not JSON").encode())
    settle(recording)
    return recording


class _Said(NamedTuple):
    call: None
    time: float
    level: str
    text: str
    where: str


def _logged(_: object) -> list[_Said]:
    return [_Said(None, 1.0, "error", hostile("logged"), hostile("place"))]


def _joined(make: Callable[[], Iterable[bytes]]) -> str:
    return b"".join(make()).decode()


def _formats(recording: Recording) -> Mapping[str, Callable[[], str]]:
    index, every = recording.index, list(EXCHANGES)
    several: dict[str, Callable[[], Iterable[bytes]]] = {
        "JSON Lines": partial(json_lines, index, every, _logged),
        "Markdown report": partial(report, index, every, _logged),
        "HTTP archive": partial(har, index, every),
        "curl commands": partial(curl_commands, index, every),
        "Mermaid": partial(mermaid, index, every),
    }
    single: dict[str, Callable[[int], str]] = {
        "text": lambda one: as_text(index, one, _logged),
        "Markdown": lambda one: as_markdown(index, one, _logged),
        "JSON": lambda one: as_json(index, one, _logged),
        "curl": lambda one: curl(index, one, headers={"X-B": hostile("header")}),
        "heading": lambda one: heading(index.exchange(one)),
    }
    made = {name: partial(_joined, make) for name, make in several.items()}
    return made | {name: partial(_each, make) for name, make in single.items()}


def _each(make: Callable[[int], str]) -> str:
    return "\n".join(map(make, EXCHANGES))


FORMATS = list(_formats(Recording(None)))


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_has_no_command_for_a_terminal(name: str) -> None:
    made = _formats(hostile_recording())[name]()
    assert "52;c;" in made or "tool" in made or "peer" in made, "the hostile texts are in it"
    assert UNSAFE.findall(made) == []
    if name == "JSON Lines":
        first = orjson.loads(made.splitlines()[0])
        assert first["request"]["message"]["params"]["arguments"] == {hostile("key"): hostile("value")}
    if name == "HTTP archive":
        assert orjson.loads(made)["log"]["entries"]


def test_a_junit_report_has_no_command_for_a_terminal() -> None:
    evil = hostile("x")
    assert UNSAFE.findall(junit_report(evil, [JUnitCase(evil, evil, evil, 0.1, evil)])) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\n\tb", "a\n\tb"),
        ("a\x1b[31m\x9b\u202e", "a␛[31m‹9b›‹202e›"),
        ('{"a": "\x9b\u202e"}', '{"a": "\\u009b\\u202e"}'),
        ('{"a":\r\n "\u202e"}', '{"a":\n "\\u202e"}'),
        ("a\r\nb\rc", "a\nb␍c"),
        ("[" * 100_000 + "\x1b", "[" * 100_000 + "␛"),
        ("half \ud800", "half ‹d800›"),
    ],
)
def test_text_for_other_programs_keeps_newlines_and_tabs_alone(text: str, expected: str) -> None:
    assert harmless(text) == expected
