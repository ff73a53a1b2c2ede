"""Test cases in the menu of Traffic, and the files that it writes."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.features.cases.recorded_cases import case_file, cases
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import HeldMark
from mcpdesk.tui.traffic.exchange_menus import export_menu, write
from tests.support.fake_link import FakeLink
from tests.support.hostile import hostile
from tests.support.traffic import IN, OUT, busy_recording, call, connection, settle, text


def link_to(recording: Recording) -> FakeLink:
    link = FakeLink()
    link.traffic = recording.index
    return link


def test_cases_are_the_last_format_of_the_menu(monkeypatch: pytest.MonkeyPatch) -> None:
    line = export_menu([1, 2], []).choices[-1]
    assert (line.label, line.key, line.value) == ("2 shown, test cases", "c", ([1, 2], "cases"))
    marked = export_menu([1, 2], [1], 2).choices
    assert ("1 marked, test cases", "c") in [(each.label, each.key) for each in marked]
    assert (marked[-1].label, marked[-1].value) == ("this one, test case", ([2], "cases"))
    monkeypatch.setenv(VARIABLE, "cases")
    assert not [each for each in export_menu([1], [1], 1).choices if "case" in each.label]


def test_a_file_of_cases_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(link_to(busy_recording()), [2], "cases")
    (file,) = (each for each in tmp_path.rglob("*") if each.is_file())
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent == tmp_path / "cases" / "profiles", "an upstream has a folder of its own"


def test_calls_that_ask_the_same_become_one_case_of_what_came_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recording = Recording(None)
    recording.connect(connection(1))
    for number, (article, answer) in enumerate([("desk", "n/a"), ("lamp", "20"), ("desk", "90")]):
        recording.frame(1, IN, call(number, "price", {"article": article}))
        recording.frame(1, OUT, text(number, answer))
    settle(recording)
    said = write(link_to(recording), [0, 1, 2], "cases")
    (file,) = tmp_path.rglob("*.json")
    assert said.startswith(f"2 test cases of 3 calls written to {file}")
    kept = [(case["arguments"]["article"], case["expect"]) for case in orjson.loads(file.read_bytes())]
    assert kept == [("lamp", {"text": "20"}), ("desk", {"text": "90"})]


def test_a_message_that_was_changed_at_the_desk_is_a_case_as_it_became() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "probe"))
    recording.frame(1, IN, call(1, "Bash", {"command": "echo before"}))
    recording.frame(1, OUT, text(1, "after"))
    settle(recording)
    index = recording.index
    was, now = call(1, "Bash", {"command": "echo before"}), call(1, "Bash", {"command": "echo after"})
    at = index.exchange(0).started
    recording.mark(HeldMark(1, IN, 1, at, 0.0, "changed", was.decode(), now.decode()))
    [case] = map(orjson.loads, cases(index, [0]))
    assert case["arguments"] == {"command": "echo after"} and case["expect"] == {"text": "after"}


def test_cases_have_no_command_for_a_terminal() -> None:
    recording = Recording(None)
    recording.connect(connection(1, hostile("peer")))
    recording.frame(1, IN, call(1, hostile("tool"), {hostile("key"): hostile("value")}))
    recording.frame(1, OUT, text(1, hostile("result")))
    settle(recording)
    made = b"".join(case_file(cases(recording.index, [0]))).decode()
    assert "52;c;" in made and not {"\x1b", "\x9b", "\u202e"} & set(made)
