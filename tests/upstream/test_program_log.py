"""Stderr of a program, as log entries with levels."""

from __future__ import annotations

import asyncio

import pytest

from mcpdesk.client.targets import CommandTarget
from mcpdesk.upstream import program_log
from mcpdesk.upstream.program_log import ProgramLog, level_of
from mcpdesk.upstream.target_transport import guarded_program
from tests.support.patience import within

TRACEBACK = """Traceback (most recent call last):
  File "weather.py", line 30, in current
    ERROR = table[city]
KeyError: 'Atlantis'
During handling of the above exception, another exception occurred:
Traceback (most recent call last):
  File "weather.py", line 31, in current
UnexpectedTool: current"""
RICH = """[11/26/26 16:52:45] ERROR    Tool 'current' raised an unexpected   server.py:455
                             exception
                             ╭─ Traceback (most recent call last) ─╮
                             │ /weather.py:30 in current           │
                             │   INFO = table[city]                │
                             ╰─────────────────────────────────────╯
                             KeyError: 'Atlantis'"""
BOX = """╭─ Traceback (most recent call last) ─╮
│ ❱ 30     reading = table[city]      │
╰─────────────────────────────────────╯
KeyError: 'Atlantis'"""
NODE = """Error: listen EADDRINUSE
    at Server.listen (net.js:1)"""


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("ERROR:weather:no such city", "error"),
        ("INFO:     Started server process", "info"),
        ("[ERROR] no such city", "error"),
        ("[warn] old", "warning"),
        ("error: no such file", "error"),
        ("2026-11-26 16:52:45,123 - my.weather - WARNING - slow", "warning"),
        ("2026-11-26T16:52:45.123Z DEBUG looking", "debug"),
        ("2026-11-26 16:52:45.123 | CRITICAL | weather:current:30 - no more", "critical"),
        ("[2026-11-26 16:52:45] [weather] FATAL: gone", "critical"),
        ('{"time": 1, "level": "error", "msg": "no such city"}', "error"),
        ("time=2026-11-26 level=warn msg=slow", "warning"),
        ("Traceback (most recent call last):", "error"),
        ("Weather server, running on stdio", ""),
        ("errors are shown here", ""),
        ("The level is ERROR from now on", ""),
        ("ERRORS: 0", ""),
    ],
)
def test_a_line_says_its_level_in_many_formats(line: str, level: str) -> None:
    assert level_of(line) == level


async def entries(text: str) -> list[tuple[str, str]]:
    """Level and text of the entries that some lines make."""
    kept = list[tuple[str, str]]()
    log = ProgramLog(lambda level, entry, at: kept.append((level, entry)))
    for line in text.split("\n"):
        log.feed(line)
    log.flush()
    return kept


@pytest.mark.parametrize("one", [TRACEBACK, RICH, BOX, NODE, f"ERROR:weather:it failed\n{TRACEBACK}"])
async def test_a_traceback_is_one_entry_and_an_error(one: str) -> None:
    around = f"it begins\n{one}\nit continues\n                    INFO     Processing request\n{one}"
    assert await entries(around) == [
        ("info", "it begins"),
        ("error", one),
        ("info", "it continues"),
        ("info", "                    INFO     Processing request"),
        ("error", one),
    ]


async def test_of_a_long_entry_beginning_and_end_are_kept() -> None:
    [(level, text)] = await entries("ERROR: much\n" + "\n".join(f"  line {n}" for n in range(1_000)))
    lines = text.split("\n")
    assert (level, lines[0], lines[-1], len(lines)) == ("error", "ERROR: much", "  line 999", 151)
    assert lines[75] == "… 851 lines left out"


async def test_an_entry_is_kept_soon_after_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_log, "QUIET_PERIOD_S", 0.01)
    kept = asyncio.Queue[str]()
    log = ProgramLog(lambda level, entry, at: kept.put_nowait(entry))
    log.feed("WARNING: slow")
    assert kept.empty()
    async with within():
        assert await kept.get() == "WARNING: slow"


def test_a_program_is_told_how_wide_its_log_may_be_unless_it_was_told_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert guarded_program(CommandTarget(("server",))).environment["COLUMNS"] == "120"
    own = CommandTarget(("server",), {"COLUMNS": "60"})
    assert guarded_program(own).environment["COLUMNS"] == "60"
    monkeypatch.setenv("COLUMNS", "200")
    assert guarded_program(CommandTarget(("server",))).environment["COLUMNS"] == "200"
