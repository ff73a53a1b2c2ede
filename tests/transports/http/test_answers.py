"""What an Accept header allows."""

from __future__ import annotations

import pytest

from mcpdesk.transports.http.answers import Accepted, accepted


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
