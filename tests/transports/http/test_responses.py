"""What an Accept header allows, and what is recorded of an answer's head."""

from __future__ import annotations

import pytest

from mcpdesk.transports.http.responses import STREAM, Accepted, accepted, answer_said


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", Accepted(True, True)),
        ("*/*", Accepted(True, True)),
        ("application/json, text/event-stream", Accepted(True, True)),
        ("Application/JSON;q=0.9", Accepted(True, False)),
        ("text/event-stream", Accepted(False, True)),
        ("application/*", Accepted(True, False)),
        ("text/*", Accepted(False, True)),
        ("text/html", Accepted(False, False)),
    ],
)
def test_forms_are_read_from_the_header(header: str, expected: Accepted) -> None:
    assert accepted(header) == expected


def test_answers_of_a_kind_share_what_is_recorded_of_their_head() -> None:
    assert answer_said(404) is answer_said(404)
    assert answer_said(404).line == "HTTP/1.1 404 Not Found"
    assert answer_said(200, STREAM, {"Mcp-Session-Id": "s"}).headers == (
        ("Content-Type", "text/event-stream"),
        ("Mcp-Session-Id", "s"),
    )
