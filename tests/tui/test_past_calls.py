"""Earlier calls, and calls that are saved under a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.workbench.past_calls import (
    MAX_CALLS_PER_ITEM,
    MAX_SAVED_CALLS,
    SAVED_CALLS_FILE,
    History,
    PastCall,
    SavedCalls,
)
from tests.support.frame import toasts
from tests.support.workbench import bench, link_with, tool


def call(arguments: object, item: str = "tool a", moment: float = 1.0) -> PastCall:
    return PastCall(moment, "s", item, arguments, "ok", 0.1)


def test_calls_survive_a_restart_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.jsonl"
    history = History(path)
    history.add(call({"n": 1}))
    history.add(call({"n": 2}))
    history.add(call({"n": 3}, "tool b"))
    assert [one.arguments for one in History(path).of("s", "tool a")] == [{"n": 2}, {"n": 1}]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_others_and_half_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History(path).add(call(1))
    path.write_bytes(path.read_bytes() + b'{"other": 1}\n[]\n{"time": 3, "ser')
    assert [one.arguments for one in History(path).of("s", "tool a")] == [1]


def test_an_item_remembers_a_bounded_number() -> None:
    history = History()
    for number in range(MAX_CALLS_PER_ITEM + 10):
        history.add(call(number))
    kept = history.of("s", "tool a")
    assert (len(kept), kept[0].arguments) == (MAX_CALLS_PER_ITEM, MAX_CALLS_PER_ITEM + 9)


def test_a_large_file_is_rewritten_with_what_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first = History(path)
    for number in range(300):
        first.add(call("x" * 10_000, moment=number))
    before = path.stat().st_size
    assert len(History(path).of("s", "tool a")) == MAX_CALLS_PER_ITEM
    assert path.stat().st_size < before / 2


def test_a_file_that_cannot_be_written_leaves_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    history = History(blocked / "history.jsonl")
    history.add(call(1))
    assert [one.arguments for one in history.of("s", "tool a")] == [1]


PROFILE = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "pin": {"type": "string", "format": "password"}},
}


def test_names_survive_a_restart_and_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / SAVED_CALLS_FILE
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
    for number in range(MAX_SAVED_CALLS + 5):
        kept.add("s", "tool a", str(number), {})
    assert len(kept.of("s", "tool a")) == MAX_SAVED_CALLS and "0" not in kept.of("s", "tool a")


@pytest.mark.parametrize("text", ["no json", "[1]", '{"s tool a": 5}'])
def test_a_file_of_something_else_is_passed_over(tmp_path: Path, text: str) -> None:
    path = tmp_path / SAVED_CALLS_FILE
    path.write_text(text, encoding="utf-8")
    kept = SavedCalls(path)
    assert kept.of("s", "tool a") == {}
    kept.add("s", "tool a", "n", 1)
    assert SavedCalls(path).of("s", "tool a") == {"n": 1}


@pytest.mark.slow
async def test_what_is_entered_is_kept_taken_and_dropped_without_secrets(tmp_path: Path) -> None:
    async with bench(link_with(tool("profile", PROFILE)), history=tmp_path / "history.jsonl") as it:
        await it.open("profile")
        await it.pilot.press("a", "tab", "x", "ctrl+s", "K")
        await it.until(lambda: "Save the present arguments as" in it.shown())
        await it.pilot.press("m", "e", "enter")
        await it.until(lambda: toasts(it.app) == ["saved as me"])
        assert SavedCalls(tmp_path / SAVED_CALLS_FILE).of("profiles", "tool profile") == {"me": {"id": "a"}}
        await it.pane.action_clear_form()
        await it.pilot.press("ctrl+s", "enter")
        await it.until(lambda: it.pane.arguments.value() == {"id": "a"})
        await it.pilot.press("ctrl+s", "D")
        await it.until(lambda: toasts(it.app)[-1] == "me was deleted")
        assert SavedCalls(tmp_path / SAVED_CALLS_FILE).of("profiles", "tool profile") == {}


@pytest.mark.slow
async def test_nothing_is_kept_without_a_name() -> None:
    async with bench(link_with(tool("profile", PROFILE))) as it:
        await it.open("profile")
        await it.pilot.press("ctrl+s", "K")
        await it.until(lambda: "Save the present arguments as" in it.shown())
        await it.pilot.press("escape")
        await it.until(lambda: "Save the present arguments as" not in it.shown())
        assert toasts(it.app) == []
