"""Log lines of one cause are limited to one a second, and counted; those of hosted code never are."""

from __future__ import annotations

import logging
from pathlib import Path

from mcpdesk.hosting import log_limits
from mcpdesk.hosting.journal import Journal, logging_to
from mcpdesk.hosting.log_limits import LogLimits


class Lines:
    """Lines that were written, by a clock of their own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.written: list[str] = []
        self.limits = LogLimits(lambda: self.now)

    def put(self, text: str, cause: str = "full") -> None:
        self.limits.put(cause, lambda more: self.written.append(text + more))


def test_one_line_a_second_of_each_cause_with_a_count() -> None:
    lines = Lines()
    for number in range(100):
        lines.put(f"job {number} waits")
    lines.put("read only", "read-only")
    assert lines.written == ["job 0 waits", "read only"]
    lines.now = 1.0
    lines.put("job 100 waits")
    assert lines.written[2:] == ["job 99 waits (99 times in 1 s)"]
    lines.now = 2.0
    lines.limits.flush()
    assert lines.written[3:] == ["job 100 waits"]
    lines.now = 3.0
    lines.put("job 101 waits")
    assert lines.written[4:] == ["job 101 waits"]


def test_a_cause_is_forgotten_once_a_second_passes_without_it() -> None:
    lines = Lines()
    for number in range(log_limits.MAX_CAUSES + 1):
        lines.put("again", f"cause {number}")
        lines.now += log_limits.INTERVAL_S
        lines.limits.flush()
    assert len(lines.written) == log_limits.MAX_CAUSES + 1


def test_lines_of_more_causes_than_are_known_are_written() -> None:
    lines = Lines()
    for _ in range(2):
        for number in range(log_limits.MAX_CAUSES + 1):
            lines.put(f"{number}", f"cause {number}")
    assert lines.written[-2:] == [f"{log_limits.MAX_CAUSES}"] * 2
    assert len(lines.written) == log_limits.MAX_CAUSES + 2


def test_the_program_repeats_no_line_within_a_second_and_a_tool_may() -> None:
    journal = Journal()
    with logging_to(journal, lambda: [Path("/s")]):
        for _ in range(3):
            logging.getLogger("mcpdesk.storage").warning("the engine is %s", "full")
            logging.getLogger("tools.mine").warning("hello")
    told = [(line.source, line.text) for line in journal.lines()]
    assert told.count(("mcpdesk.storage", "the engine is full")) == 1
    assert told.count(("tools.mine", "hello")) == 3


def test_a_notice_of_one_cause_is_shown_once_a_second() -> None:
    journal = Journal()
    for _ in range(3):
        journal.notify("the engine is away", cause="engine")
    assert [each.text for each in journal.notices()] == ["the engine is away"]


def test_lines_that_are_held_back_are_written_when_the_process_ends() -> None:
    journal = Journal()
    with logging_to(journal, list):
        for _ in range(3):
            logging.getLogger("mcpdesk.somewhere").warning("full")
        assert [each.text for each in journal.lines()] == ["full"]
    assert [each.text for each in journal.lines()] == ["full", "full (2 times in 1 s)"]
    journal.flush()
    assert len(journal.lines()) == 2
