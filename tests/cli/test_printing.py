"""Results in words."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from mcpdesk.cli.printing import aligned, print_bytes, print_json, print_text, report
from mcpdesk.errors import (
    CallTimeout,
    DeskError,
    DeskUserError,
    HttpError,
    InvalidAnswer,
    ManifestError,
    RemoteProtocolError,
    RpcError,
    TransportError,
)
from tests.support.tiers import open_terminal


def test_columns_are_aligned() -> None:
    assert list(aligned([("a", "b"), ("long", "c")], " ")) == [" a     b", " long  c"]
    assert list(aligned([])) == []


def test_long_name_does_not_widen_the_other_rows() -> None:
    rows = list(aligned([("a", "b"), ("x" * 300, "c")]))
    assert rows == [f"a{' ' * 61}b", f"{'x' * 300}  c"]


def test_piped_output_is_what_came(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_text("\x1b[31mred\x1b[0m é")
    print_json({"é": 1})
    print_bytes(b"\x00\x01", "")
    assert capfdbinary.readouterr().out == '\x1b[31mred\x1b[0m é\n{\n  "\\u00e9": 1\n}\n\x00\x01'.encode()


def test_text_that_utf8_cannot_carry_is_replaced(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_text("a\ud800b")
    assert capfdbinary.readouterr().out == b"a?b\n"


@pytest.mark.process
def test_terminal_sees_control_characters_instead_of_obeying_them() -> None:
    code = (
        "from mcpdesk.cli.printing import print_bytes, print_text\n"
        "print_text('\\x1b]0;title\\x07'); print_bytes(b'123', 'image/png')"
    )
    parent, child = open_terminal()
    with subprocess.Popen([sys.executable, "-c", code], stdout=child) as process:
        assert process.wait(120) == 0
    os.close(child)
    shown = os.read(parent, 10_000)
    os.close(parent)
    assert b"\x1b" not in shown
    assert "␛]0;title␇" in shown.decode()
    assert b"[image/png, 3 bytes;" in shown


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (DeskUserError("No.", "Do this."), 2, "mcpdesk: No.\n  Do this.\n"),
        (DeskUserError("Too slow.", exit_code=5), 5, "mcpdesk: Too slow.\n"),
        (ManifestError("no", "mcp.json", line=3, column=4), 2, "mcpdesk: mcp.json:3:4: no\n"),
        (TransportError("gone"), 3, "mcpdesk: gone\n"),
        (RemoteProtocolError(-32602, "Unknown tool"), 4, "mcpdesk: Unknown tool\n"),
        (HttpError("HTTP 404", "http://x"), 3, "mcpdesk: http://x: HTTP 404\n"),
        (InvalidAnswer("no JSON", "http://x"), 4, "mcpdesk: http://x: no JSON\n"),
        (RpcError(-32602, "Unknown tool", None, "http://x"), 4, "mcpdesk: http://x: Unknown tool (-32602)\n"),
        (CallTimeout("no answer", "http://x"), 5, "mcpdesk: http://x: no answer\n"),
        (DeskError("odd"), 1, "mcpdesk: odd\n"),
        (click.UsageError("No such option"), 2, "mcpdesk: No such option\n  See `mcpdesk --help`.\n"),
        (click.FileError("f", "why"), 2, "mcpdesk: Could not open file 'f': why\n"),
    ],
)
def test_error_is_one_sentence_a_hint_and_a_code(
    error: DeskError | click.ClickException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(error) == code
    captured = capsys.readouterr()
    assert captured.err == told
    assert captured.out == ""
