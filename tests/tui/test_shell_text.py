"""A command on several lines is the command it was."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from rich.cells import cell_len

from mcpdesk.tui.render.safe_text import folded

CURL = (
    "curl -sS -H 'Content-Type: application/json' -H 'X-Key: a b' "
    """-d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' http://127.0.0.1:3333/mcp/hello"""
)


def words(lines: list[str]) -> list[str]:
    """What a shell makes of it."""
    script = "printf '%s\\0' " + "\n".join(lines)
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=20).stdout
    return out.split("\0")[:-1]


def test_what_fits_stays_on_its_line() -> None:
    assert folded(CURL, len(CURL)) == [CURL]


def test_options_stay_with_their_values() -> None:
    assert folded(CURL, 76) == [
        "curl -sS -H 'Content-Type: application/json' -H 'X-Key: a b' \\",
        """  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' \\""",
        "  http://127.0.0.1:3333/mcp/hello",
    ]


@pytest.mark.parametrize("width", [0, 20, 40, 60, 90, 150])
@pytest.mark.parametrize(
    "command",
    [
        CURL,
        shlex.join(["claude", "mcp", "add", "--transport", "http", "a-b", "http://[::1]:1/mcp/a"]),
        shlex.join(["say", "--", "it's", "", "two\nlines", "back\\slash", "-", "日本語 日本語", "--last"]),
    ],
)
def test_a_shell_reads_the_same_words(command: str, width: int) -> None:
    assert words(folded(command, width)) == shlex.split(command)


@pytest.mark.parametrize("width", [60, 72, 76, 90, 150])
def test_no_line_is_too_long(width: int) -> None:
    assert all(cell_len(line) <= width for line in folded(CURL, width))


def test_what_is_no_command_stays_as_it_is() -> None:
    assert folded("it's  not closed " * 9, 40) == ["it's  not closed " * 9]
