"""Menus of Traffic offer the formats, and write them."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.traffic.exchange_menus import copy_menu, export_menu, write
from mcpdesk.tui.widgets.menu import Menu
from tests.support.fake_link import FakeLink
from tests.support.traffic import asking_recording, busy_recording


def link_to(recording: Recording) -> FakeLink:
    link = FakeLink()
    link.traffic = recording.index
    return link


def labels(menu: Menu) -> list[str]:
    return [choice.label for choice in menu.choices]


def test_a_request_is_copied_as_a_command_where_there_is_one() -> None:
    link = link_to(busy_recording())
    assert labels(copy_menu(link, 2)) == ["text", "Markdown", "JSON", "curl", "mcpdesk"]
    assert labels(copy_menu(link, 0)) == ["text", "Markdown", "JSON", "curl"]
    assert labels(copy_menu(link, 1)) == ["text", "Markdown", "JSON"]


def test_formats_are_offered_for_what_is_shown_and_what_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cases")
    assert labels(export_menu([1, 2], [])) == [
        "2 shown, capture",
        "2 shown, Markdown report",
        "2 shown, JSON Lines",
        "2 shown, HTTP archive",
    ]
    assert [choice.key for choice in export_menu([1], [1]).choices] == [*"omjh", "", "", "", ""]
    assert export_menu([1, 2], [], 2).choices[-1].value == ([2], "md")


def test_an_archive_says_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = write(link_to(asking_recording()), [0, 3], "har")
    (file,) = tmp_path.iterdir()
    assert said == f"3 requests written to {file}; 3 did not use HTTP"
    assert len(orjson.loads(file.read_bytes())["log"]["entries"]) == 3


@pytest.mark.parametrize("name", ["jsonl", "md", "har"])
def test_a_written_format_is_readable_by_its_owner_only(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(link_to(busy_recording()), [2], name)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
