"""A sequence diagram shows callers, outcomes and durations; no name can break it."""

from __future__ import annotations

import re

from mcpdesk.features.exports.sequence_diagram import MAX_EXCHANGES, mermaid
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HeldMark
from tests.support.traffic import (
    IN,
    OPENED,
    OUT,
    call,
    connection,
    error,
    progress,
    request,
    result,
    settle,
    text,
)


def drawn(recording: Recording) -> list[str]:
    settle(recording)
    lines = b"".join(mermaid(recording.index, range(len(recording.index.exchanges)))).decode().splitlines()
    assert lines[0] == "sequenceDiagram" and all(line.startswith("    ") for line in lines[1:])
    return [line.strip() for line in lines[1:]]


def test_messages_stand_in_the_order_they_passed_with_durations_and_marks() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "cursor 1.0"))
    recording.frame(1, IN, call(1, "book", {"to": "Rome"}, _meta={"progressToken": "p"}), at=OPENED)
    recording.frame(1, OUT, progress("p", 3), at=OPENED + 0.5)
    asked = {"message": "Which seat?", "requestedSchema": {"type": "object", "properties": {}}}
    recording.frame(1, OUT, request("q", "elicitation/create", asked), at=OPENED + 1)
    recording.frame(1, IN, result("q", {"action": "accept", "content": {"seat": "12A"}}), at=OPENED + 3)
    recording.frame(1, OUT, text(1, "booked"), at=OPENED + 4)
    recording.frame(1, IN, call(2, "pay"), at=OPENED + 5)
    recording.frame(1, OUT, error(2, -32602, "no card; try #2"), at=OPENED + 5.25)
    recording.frame(1, IN, call(3, "fly"), at=OPENED + 6)
    recording.mark(HeldMark(1, IN, 3, OPENED + 7, 1.0, "changed"))
    lines = drawn(recording)
    assert lines == [
        "participant client1 as cursor 1.0",
        "participant server2 as profiles",
        "actor person3 as person at cursor 1.0",
        "client1->>server2: tools/call book",
        "server2-)client1: 1 notification",
        "server2->>client1: elicitation/create",
        "client1->>person3: Which seat?",
        'person3-->>client1: ok, 2000.0 ms: accept: seat="12A"',
        'client1-->>server2: ok, 2000.0 ms: accept: seat="12A"',
        "server2-->>client1: ok, 4000.0 ms",
        "client1->>server2: tools/call pay",
        "server2--xclient1: error, 250.0 ms: -32602 no card#59; try #35;2",
        "client1->>server2: tools/call fly",
        "Note over client1,server2: tools/call fly: no answer",
        "Note over client1,server2: the request was held at the desk for 1.0 s: changed",
    ]


def test_names_of_strangers_stay_on_their_line_and_secrets_are_masked() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "evil\nNote over x: <b>;end", server="a#b"))
    recording.frame(1, IN, call(1, "x\nparticipant y", {"password": "hunter2"}))
    recording.frame(1, OUT, text(1, '{"password":"hunter2"}', is_error=True))
    lines = drawn(recording)
    assert lines[:2] == [
        "participant client1 as evil Note over x: #lt;b#gt;#59;end",
        "participant server2 as a#35;b",
    ]
    assert len(lines) == 4 and re.match(r"server2--xclient1: tool-error, [\d.]+ ms: ", lines[3])
    assert "hunter2" not in "".join(lines)


def test_a_long_capture_says_how_much_is_left_out() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for number in range(MAX_EXCHANGES + 50):
        recording.frame(1, IN, call(number, "greet" * 20))
        recording.frame(1, OUT, text(number, "hello"))
    lines = drawn(recording)
    assert (
        lines[-1] == "Note over client1,server2: 50 more exchanges are left out, choose others with --filter"
    )
    assert len(lines) == 2 + 2 * MAX_EXCHANGES + 1 and len("\n".join(lines)) < 50_000
