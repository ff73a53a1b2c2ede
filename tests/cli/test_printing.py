"""Results in words."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from mcpdesk.cli.printing import aligned, print_bytes, print_json, print_text


def test_columns_are_aligned() -> None:
    assert list(aligned([("a", "b"), ("long", "c")], " ")) == [" a     b", " long  c"]
    assert list(aligned([])) == []


def test_piped_output_is_what_came(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_text("\x1b[31mred\x1b[0m é")
    print_json({"é": 1})
    print_bytes(b"\x00\x01", "")
    assert capfdbinary.readouterr().out == '\x1b[31mred\x1b[0m é\n{\n  "\\u00e9": 1\n}\n\x00\x01'.encode()


def test_text_that_utf8_cannot_carry_is_replaced(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_text("a\ud800b")
    assert capfdbinary.readouterr().out == b"a?b\n"


def test_terminal_sees_control_characters_instead_of_obeying_them() -> None:
    code = (
        "from mcpdesk.cli.printing import print_bytes, print_text\n"
        "print_text('\\x1b]0;title\\x07'); print_bytes(b'123', 'image/png')"
    )
    parent, child = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stdout=child) as process:
        assert process.wait(20) == 0
    os.close(child)
    shown = os.read(parent, 10_000)
    os.close(parent)
    assert b"\x1b" not in shown
    assert "␛]0;title␇" in shown.decode()
    assert b"[image/png, 3 bytes;" in shown
