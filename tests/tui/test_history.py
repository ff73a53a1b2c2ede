from __future__ import annotations

from pathlib import Path

from mcpdesk.tui.workbench.past_calls import MAX_PER_ITEM, History, PastCall


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
    for number in range(MAX_PER_ITEM + 10):
        history.add(call(number))
    kept = history.of("s", "tool a")
    assert (len(kept), kept[0].arguments) == (MAX_PER_ITEM, MAX_PER_ITEM + 9)


def test_a_large_file_is_rewritten_with_what_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first = History(path)
    for number in range(300):
        first.add(call("x" * 10_000, moment=number))
    before = path.stat().st_size
    assert len(History(path).of("s", "tool a")) == MAX_PER_ITEM
    assert path.stat().st_size < before / 2


def test_a_file_that_cannot_be_written_leaves_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    history = History(blocked / "history.jsonl")
    history.add(call(1))
    assert [one.arguments for one in history.of("s", "tool a")] == [1]
