"""Each field of the filter language finds what it says, in a recording with every status."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.view import View
from tests.support.traffic import IN, busy_recording, connection, request, settle


def found(query: str, recording: Recording | None = None) -> list[str]:
    """Method and name of what a filter lets pass."""
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
