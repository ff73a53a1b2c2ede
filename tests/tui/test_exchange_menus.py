"""Menus of exchanges offer the actions that are possible there."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Status
from mcpdesk.tui.traffic import exchange_menus
from mcpdesk.tui.traffic.exchange_menus import (
    SavedFilters,
    comparison_dialog,
    export_menu,
    filters_menu,
    repeatable_request,
    write,
)
from tests.support.fake_link import FakeLink
from tests.support.features import needs_feature
from tests.support.traffic import (
    asking_recording,
    busy_recording,
)


def link_to(recording: Recording) -> FakeLink:
    link = FakeLink()
    link.traffic = recording.index
    return link


def test_what_is_exported_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(link_to(busy_recording()), [2], "capture")
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_written_as_a_capture_opens_with_the_same_exchanges_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    link = link_to(busy_recording())
    whole = [one for one in link.traffic.exchanges if one.status is not Status.PENDING]
    said = write(link, [one.number for one in whole], "capture")
    (file,) = tmp_path.iterdir()
    assert said == f"{len(whole)} exchanges written · mcpdesk open {file}"
    assert "hunter2" not in file.read_text()
    archive = Archive(file)
    archive.index.catch_up(inf)
    again = [(one.method, one.name, one.id, one.status) for one in archive.index.exchanges]
    archive.close()
    assert again == [(one.method, one.name, one.id, one.status) for one in whole]


def test_parts_that_are_written_with_their_exchanges_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert write(link_to(asking_recording()), [0], "md").startswith("1 exchange (3 with their parts) written")


def test_an_operation_is_compared_by_its_first_request_and_last_response() -> None:
    index = asking_recording().index
    found = comparison_dialog(index, 0, 7).differences
    changes = [(side, each.path, each.before, each.after) for side, each in found]
    assert ("request", ("params", "name"), "book-flight", "paint-house") in changes
    assert any(side == "response" and "Booked" in str(before) for side, _, before, _ in changes)


def test_a_round_is_sent_again_without_its_answers() -> None:
    server, (method, params) = repeatable_request(link_to(asking_recording()), 1)
    assert (server, method, params) == ("profiles", "tools/call", {"name": "book-flight", "arguments": {}})


def test_filters_are_kept_newest_first_and_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / "filters.txt"
    saved = SavedFilters(path)
    for query in ("status:error", "  tool:Bash   >1s ", "status:error"):
        saved.add(query)
    assert SavedFilters(path).all() == ["status:error", "tool:Bash >1s"]
    assert path.stat().st_mode & 0o777 == 0o600
    saved.remove("status:error")
    assert SavedFilters(path).all() == ["tool:Bash >1s"]


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_menus, "MAX_FILTERS", 2)
    saved = SavedFilters()
    for query in "abc":
        saved.add(query)
    assert saved.all() == ["c", "b"]


def test_what_is_no_filter_in_the_file_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "filters.txt"
    path.write_bytes(b"ok\n\n   \n\xff\n" + b"x" * 5000 + b"\n")
    assert SavedFilters(path).all() == ["ok", "\ufffd"]


def test_a_file_that_cannot_be_written_leaves_them_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    saved = SavedFilters(tmp_path / "file" / "filters.txt")
    saved.add("a")
    saved.add("b")
    assert saved.all() == ["b", "a"]


def test_the_menu_keeps_uses_and_drops() -> None:
    saved = SavedFilters()
    assert [choice.value for choice in filters_menu(saved, "").choices] == [("use", "")]
    assert [choice.value for choice in filters_menu(saved, " a  b ").choices] == [("keep", "a b")]
    saved.add("a b")
    assert [choice.value for choice in filters_menu(saved, "a b").choices] == [
        ("use", "a b"),
        ("drop", "a b"),
    ]
    assert [choice.value for choice in filters_menu(saved, "c").choices] == [("keep", "c"), ("use", "a b")]


@needs_feature("cases")
def test_the_menu_says_where_test_cases_are_written_and_that_other_paths_are_asked_for() -> None:
    for folders, help_of_cases in (("/a/tests", "Writes into /a/tests"), ("", "")):
        helps = {choice.value[1]: choice.help for choice in export_menu([0], [], None, "", folders).choices}
        assert helps.pop("cases") == help_of_cases
        assert set(helps.values()) == {"The next prompt asks for the path of the file."}
