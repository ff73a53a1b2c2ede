"""Arguments kept under a name survive, are taken, and can be dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.workbench.past_calls import FILE_NAME, MOST, SavedCalls
from tests.support.frame import toasts
from tests.support.workbench import bench, link_with, tool

PROFILE = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "pin": {"type": "string", "format": "password"}},
}


def test_names_survive_a_restart_and_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / FILE_NAME
    SavedCalls(path).add("s", "tool a", "first", {"n": 1})
    SavedCalls(path).add("s", "tool a", "second", {"n": 2})
    SavedCalls(path).add("s", "tool a", "first", {"n": 3})
    SavedCalls(path).add("s", "tool b", "first", {})
    kept = SavedCalls(path)
    assert list(kept.of("s", "tool a").items()) == [("second", {"n": 2}), ("first", {"n": 3})]
    kept.remove("s", "tool a", "second")
    kept.remove("s", "tool z", "never")
    assert list(SavedCalls(path).of("s", "tool a")) == ["first"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_item_keeps_a_bounded_number() -> None:
    kept = SavedCalls()
    for number in range(MOST + 5):
        kept.add("s", "tool a", str(number), {})
    assert len(kept.of("s", "tool a")) == MOST and "0" not in kept.of("s", "tool a")


@pytest.mark.parametrize("text", ["no json", "[1]", '{"s tool a": 5}'])
def test_a_file_of_something_else_is_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(text, encoding="utf-8")
    kept = SavedCalls(path)
    assert kept.of("s", "tool a") == {}
    kept.add("s", "tool a", "n", 1)
    assert SavedCalls(path).of("s", "tool a") == {"n": 1}


def test_what_cannot_be_written_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    kept = SavedCalls(tmp_path / "file" / FILE_NAME)
    kept.add("s", "tool a", "n", 1)
    assert kept.of("s", "tool a") == {"n": 1}


@pytest.mark.slow
async def test_what_is_entered_is_kept_taken_and_dropped_without_secrets(tmp_path: Path) -> None:
    async with bench(link_with(tool("profile", PROFILE)), history=tmp_path / "history.jsonl") as it:
        await it.open("profile")
        await it.pilot.press("a", "tab", "x", "ctrl+s", "K")
        await it.until(lambda: "Keep what is entered as" in it.shown())
        await it.pilot.press("m", "e", "enter")
        await it.until(lambda: toasts(it.app) == ["kept as me"])
        assert SavedCalls(tmp_path / FILE_NAME).of("profiles", "tool profile") == {"me": {"id": "a"}}
        await it.pane.action_clear_form()
        await it.pilot.press("ctrl+s", "enter")
        await it.until(lambda: it.pane.arguments.value() == {"id": "a"})
        await it.pilot.press("ctrl+s", "D")
        await it.until(lambda: toasts(it.app)[-1] == "me is no longer kept")
        assert SavedCalls(tmp_path / FILE_NAME).of("profiles", "tool profile") == {}


async def test_nothing_is_kept_without_a_name() -> None:
    async with bench(link_with(tool("profile", PROFILE))) as it:
        await it.open("profile")
        await it.pilot.press("ctrl+s", "K")
        await it.until(lambda: "Keep what is entered as" in it.shown())
        await it.pilot.press("escape")
        await it.until(lambda: "Keep what is entered as" not in it.shown())
        assert toasts(it.app) == []
