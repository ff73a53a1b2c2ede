"""A journal is written to stderr line by line, and nobody waits for who does not read it."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from mcpdesk.cli import core_process
from mcpdesk.cli.core_process import MOST_LINES, JournalPrinter
from mcpdesk.hosting.journal import Journal
from tests.support.patience import WITHIN_S


def printer_of(journal: Journal) -> JournalPrinter:
    return JournalPrinter(SimpleNamespace(journal=journal))  # type: ignore[arg-type]


def test_journal_is_followed_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal()
    with printer_of(journal) as printer:
        journal.log("warning", "print", "first", "tools/a.py:1")
        printer.follow()
        printer.follow()
        journal.log("info", "server", "second")
    told = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert told == ["warning print: first (tools/a.py:1)", "info server: second"]


def test_what_others_say_commands_no_terminal_and_makes_no_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with printer_of(Journal()) as printer:
        printer.say("from \x1b[31m\x9b31m\u202e\r\u2028\x85x\n2026-01-01 00:00:00 info server: all is well")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("from ␛[31m‹9b›31m‹202e›␍‹2028›‹85›x")
    assert second == "    2026-01-01 00:00:00 info server: all is well"


def test_who_does_not_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_process, "PATIENCE_S", 0.01)
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as unread:
        monkeypatch.setattr(sys, "stderr", unread)
        with printer_of(Journal()) as printer:
            for number in range(5 * MOST_LINES):
                printer.say(f"{number} {'x' * 100}")
        read = b""
        while f"{5 * MOST_LINES - 1} x".encode() not in read:
            read += os.read(reader, 1 << 20)
        assert printer._thread is not None
        printer._thread.join(WITHIN_S)
        os.close(reader)
    lines = read.decode().splitlines()
    assert " 0 x" in lines[0] and len(lines) < 4 * MOST_LINES
    assert any("lines left out: nobody read them in time" in line for line in lines)


def test_a_reader_that_has_gone_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    gone = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stderr", gone)
    with printer_of(Journal()) as printer:
        printer.say("to nobody")
    with pytest.raises(BrokenPipeError):
        gone.close()
