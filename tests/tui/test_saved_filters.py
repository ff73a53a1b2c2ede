"""Filters that are kept outlive the desk, and a file that cannot be written stops nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.tui.traffic import exchange_menus
from mcpdesk.tui.traffic.exchange_menus import SavedFilters, filters_menu


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
    monkeypatch.setattr(exchange_menus, "FILTERS_KEPT", 2)
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
