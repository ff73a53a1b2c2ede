"""The journal keeps the newest lines and hands out what a reader has not seen."""

from __future__ import annotations

from mcpdesk.hosting import journal
from mcpdesk.hosting.journal import Journal, Severity


def test_readers_get_what_they_have_not_seen() -> None:
    kept = Journal()
    kept.log("info", "server", "one")
    kept.log("error", "tool", "two", "tools/a.py:3", "sample")
    first, second = kept.lines()
    assert (first.text, second.where, second.server) == ("one", "tools/a.py:3", "sample")
    assert kept.lines(second.number) == []
    assert kept.lines(first.number) == [second]


def test_a_notice_is_a_log_line_too() -> None:
    kept = Journal()
    kept.notify("reloaded", Severity.WARNING, "workbench")
    assert [(each.text, each.screen) for each in kept.notices()] == [("reloaded", "workbench")]
    assert [(each.level, each.text) for each in kept.lines()] == [("warning", "reloaded")]


def test_old_and_long_lines_are_bounded() -> None:
    kept = Journal()
    for number in range(journal.KEPT_LINES + 10):
        kept.log("info", "server", str(number))
    kept.log("info", "server", "x" * 100_000)
    lines = kept.lines()
    assert len(lines) == journal.KEPT_LINES
    assert len(lines[-1].text) < journal.LONGEST_LINE + 10
