"""The journal keeps the newest lines and returns those a reader has not seen."""

from __future__ import annotations

import logging
from pathlib import Path

from mcpdesk.hosting import journal
from mcpdesk.hosting.journal import Journal, logging_to


def test_readers_get_what_they_have_not_seen() -> None:
    kept = Journal()
    kept.log("info", "server", "one")
    kept.log("error", "tool", "two", "tools/a.py:3", "sample")
    first, second = kept.lines()
    assert (first.text, second.where, second.server) == ("one", "tools/a.py:3", "sample")
    assert kept.lines(second.number) == []
    assert kept.lines(first.number) == [second]


def test_old_and_long_lines_are_bounded() -> None:
    kept = Journal()
    for number in range(journal.MAX_LINES + 10):
        kept.log("info", "server", str(number))
    kept.log("info", "server", "x" * 100_000)
    lines = kept.lines()
    assert len(lines) == journal.MAX_LINES
    assert len(lines[-1].text) < journal.MAX_LINE_LENGTH + 10


HERE = Path(__file__)


def lines(journal: Journal) -> list[tuple[str, str, str, str]]:
    return [(line.level, line.source, line.text, line.where) for line in journal.lines()]


def test_record_becomes_a_line_with_level_logger_and_place() -> None:
    journal = Journal()
    with logging_to(journal, lambda: [HERE.parent]):
        logging.getLogger("mine").warning("%d of %s", 1, "two")
    (line,) = lines(journal)
    assert line[:3] == ("warning", "mine", "1 of two")
    assert line[3].startswith("test_journal.py:")


def test_traceback_comes_along() -> None:
    journal = Journal()
    with logging_to(journal, tuple):
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("mine").exception("failed")
    assert "Traceback" in journal.lines()[0].text
    assert "ValueError: no" in journal.lines()[0].text


def test_bad_format_is_shown_as_it_is() -> None:
    journal = Journal()
    with logging_to(journal, tuple):
        logging.getLogger("mine").warning("%d apples", "no")
    assert journal.lines()[0].text == "%d apples ('no',)"


def test_logging_is_as_before_afterwards() -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    with logging_to(Journal(), tuple):
        assert root.handlers != before[0]
    assert (root.handlers, root.level) == before
