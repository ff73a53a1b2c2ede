"""Each field of the filter language matches as documented, in a recording with every status."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.query import About, parse
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.record import BY_HAND, BY_MOCK, FAULT, HeldMark
from tests.support.traffic import IN, busy_recording, connection, request, settle


def found(query: str, recording: Recording | None = None) -> list[str]:
    """Method and name of the exchanges that match a filter."""
    index = (recording or busy_recording()).index
    view = View(index, parse(query, index.exchange(0).started))
    view.advance(5)
    return [f"{one.method} {one.name}".strip() for one in map(index.exchange, view.lines)]


PROFILE, REPORT, ORDER, BASH = (
    "tools/call user-profile",
    "tools/call slow-report",
    "tools/call place-order",
    "tools/call Bash",
)
MISSING = "resources/read file:///nowhere.txt"


def test_a_tool_is_found_by_every_name_of_its_call() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, request(1, "callTool", {"stage": "visualize", "command": "heatmap"}))
    recording.frame(1, IN, request(2, "tools.call", {"name": "visualize-heatmap"}))
    recording.frame(1, IN, request(3, "prompts/get", {"name": "visualize-heatmap"}))
    settle(recording)
    assert found("tool:heatmap", recording) == [
        "callTool visualize-heatmap",
        "tools.call visualize-heatmap",
    ]


def test_requests_for_one_item_are_those_of_its_server_method_and_exact_name() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.connect(connection(2, server="other"))
    recording.frame(1, IN, request(1, "tools/call", {"name": "find"}))
    recording.frame(1, IN, request(2, "tools.call", {"name": "find"}))
    recording.frame(1, IN, request(3, "tools/call", {"name": "find-all"}))
    recording.frame(1, IN, request(4, "prompts/get", {"name": "find"}))
    recording.frame(2, IN, request(5, "tools/call", {"name": "find"}))
    settle(recording)
    view = View(recording.index, About("profiles", "tools/call", lambda name: name == "find"))
    view.advance(5)
    assert [recording.index.exchange(line).id for line in view.lines] == [1, 2]


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("method:tools/call", [PROFILE, REPORT, ORDER, ORDER, BASH]),
        ("method:initialized", ["notifications/initialized"]),
        ("tool:PROFILE", [PROFILE]),
        ("tool:nowhere", []),
        ("name:nowhere|bash", [MISSING, BASH]),
        ("peer:desk", [PROFILE]),
        ("server:profiles kind:malformed", [""]),
        ("server:other", []),
        ("dir:out", [REPORT]),
        ("kind:notification dir:in", ["notifications/initialized", ORDER, ORDER]),
        ("tool:slow progress", [REPORT]),
        ("status:error", [REPORT, MISSING]),
        ("status:tool-error", [REPORT]),
        ("status:pending", [BASH]),
        ("status:cancelled|late", [ORDER, ORDER]),
        ("status:malformed", [""]),
        ("id:7", [PROFILE]),
        ('id:"six"', [BASH]),
        ('id:"7"', []),
        ("rev:2026", [PROFILE]),
        ("<1s tool:user", [PROFILE]),
        (">1000s", []),
        (">1b kind:malformed", [""]),
        (">10kb", []),
        ("since:1s tool:bash", [BASH]),
        ("grace", [ORDER]),
        ("COLD", [REPORT]),
        ('"too late"', [ORDER]),
        ("desk", [PROFILE]),
        ("nothing-has-this", []),
        ("grace or cold", [REPORT, ORDER]),
        ("tool:place not grace", [ORDER]),
        ("not method:notifications not tool:e kind:request", ["initialize", MISSING, BASH]),
        ("sleep status:pending", [BASH]),
    ],
)
def test_what_a_filter_finds(query: str, lines: list[str]) -> None:
    assert found(query) == lines


def test_what_became_of_messages_at_the_desk_is_found_also_when_that_is_known_later() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    hows = ("passed on", "changed", BY_HAND, "dropped", BY_MOCK, f"delayed {FAULT} 1", "")
    for number, how in enumerate(hows):
        recording.frame(1, IN, request(number, "tools/call", {"name": how or "waits"}))
    recording.frame(1, IN, b'{"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}')
    settle(recording)
    index = recording.index
    words = ("held", "changed", "answered|dropped", "mocked", "faulty", "held|mocked")
    views = {word: View(index, parse(f"is:{word}", 0.0)) for word in words}
    others = View(index, parse("not is:held", 0.0))
    for view in (*views.values(), others):
        view.advance(5)
    assert not any(view.lines for view in views.values()) and len(others.lines) == len(hows) + 1
    for number, how in enumerate(hows):
        if how:
            started = index.exchange(number).started
            recording.mark(HeldMark(1, IN, number, started, 0.0, how, "{}"))
    told = "notifications/roots/list_changed"
    recording.mark(HeldMark(1, IN, told, index.exchange(len(hows)).started, 0.0, f"{told} dropped", "{}"))
    index.held = {(1, 6)}
    found_by = {}
    for word, view in views.items():
        view.advance(5)
        found_by[word] = [index.exchange(line).name or index.exchange(line).method for line in view.lines]
    assert found_by == {
        "held": ["passed on", "changed", BY_HAND, "dropped", "waits", told],
        "changed": ["changed"],
        "answered|dropped": [BY_HAND, "dropped", told],
        "mocked": [BY_MOCK],
        "faulty": [f"delayed {FAULT} 1"],
        "held|mocked": ["passed on", "changed", BY_HAND, "dropped", BY_MOCK, "waits", told],
    }
    others.advance(5)
    assert [index.exchange(line).name for line in others.lines] == [BY_MOCK, f"delayed {FAULT} 1"]
