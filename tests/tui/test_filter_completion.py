"""A filter is completed by the fields there are and by what occurs in the traffic."""

from __future__ import annotations

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.traffic.filter_completion import completions
from tests.support.traffic import IN, call, connection, request, settle
from tests.tui.test_traffic_pane import running


def recorded() -> Recording:
    recording = Recording(None)
    recording.connect(connection())
    for number, name in enumerate(["user-profile", "set user", "Bash"]):
        recording.frame(1, IN, call(number, name))
    recording.frame(1, IN, request(9, "resources/read", {"uri": "a://b"}))
    settle(recording)
    return recording


@pytest.mark.parametrize(
    ("typed", "start", "values"),
    [
        ("", 0, []),
        ("to", 0, ["tool:"]),
        ("not (me", 5, ["method:"]),
        ("tool:", 5, ["Bash", '"set user"', "user-profile"]),
        ("tool:us", 5, ["user-profile", '"set user"']),
        ('tool:"set', 5, ['"set user"']),
        ("tool:Bash|u", 10, ["user-profile", '"set user"']),
        ("tool:bash", 5, []),
        ("name:a:", 5, ["a://b"]),
        ("method:re", 7, ["resources/read"]),
        ("status:e", 7, ["error", "pending", "tool-error", "cancelled"]),
        ("dir:", 4, ["in", "out"]),
        ("hello wor", 6, []),
        (">200ms", 6, []),
    ],
)
def test_what_a_filter_could_go_on_with(typed: str, start: int, values: list[str]) -> None:
    found = completions(typed, recorded().index)
    assert list(found.values)[: len(values)] == values and bool(found.values) == bool(values)
    assert not values or found.start == start


@pytest.mark.slow
async def test_tab_takes_what_is_offered_and_else_leaves_the_field() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("slash", *"sta")
        assert pane.completion.display
        await pilot.press("tab", *"er", "tab")
        assert pane.filter_field.value == "status:error " and not pane.completion.display
        await pilot.press(*"tool:", "down")
        assert not pane.has_class("-wrong")
        await pilot.press("tab")
        named = pane.filter_field.value.removeprefix("status:error tool:").strip()
        assert named and named != "tool:"
        await pilot.press("tab")
        assert not pane.filter_field.has_focus and app.focused is not None
        await pilot.press("slash", "end", *"me")
        assert pane.completion.display
        await pilot.press("enter")
        assert app.focused is pane.listing and not pane.completion.display
