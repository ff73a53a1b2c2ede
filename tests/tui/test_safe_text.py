"""Text of strangers made harmless and cut, and commands on lines that fit."""

from __future__ import annotations

import shlex
import subprocess
from unicodedata import normalize

import pytest
from rich.cells import cell_len
from textual.content import Content

from mcpdesk.tui.actions import key_name
from mcpdesk.tui.render.amounts import clock, rate, since, sparkline
from mcpdesk.tui.render.safe_text import clean, ending, fold_command, one_line, shortened, whole_sentences
from mcpdesk.tui.widgets.line_list import column


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("a\tb", "a    b"),
        ("a\r\nb\nc", "a\nb\nc"),
        ("\x1b[31mred\x07", "␛[31mred␇"),
        ("\x00\x7f\x9b", "␀␡‹9b›"),
        ("a\u202eb\u200b\ufeff", "a‹202e›b‹200b›‹feff›"),
        ("half \ud83d pair", "half ‹d83d› pair"),
        ("Zoë 語 🎉", "Zoë 語 🎉"),
    ],
)
def test_control_characters_become_visible(text: str, seen: str) -> None:
    assert clean(text) == seen
    assert Content(clean(text)).plain == seen


def test_one_line_is_cut_by_cells() -> None:
    assert one_line("a\nb") == "a⏎b"
    assert one_line("abcdef", 4) == "abc…" and one_line("abcd", 4) == "abcd"
    assert one_line("日本語日本語", 7) == "日本語…"


def test_every_character_is_harmless() -> None:
    text = clean("".join(map(chr, range(0x3000))))
    assert not any((ord(char) < 0x20 and char != "\n") or 0x7F <= ord(char) < 0xA0 for char in text)


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ctrl+p", "^p"),
        ("question_mark", "?"),
        ("shift+tab", "⇧tab"),
        ("f5", "f5"),
        ("G", "G"),
        ("alt+up", "⌥↑"),
    ],
)
def test_keys_are_named_as_people_read_them(key: str, name: str) -> None:
    assert key_name(key) == name


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (3 * 3600 + 300, "3 h 05"), (200_000, "2 d 7 h")],
)
def test_spans_of_time(seconds: float, text: str) -> None:
    assert since(seconds) == text


def test_clock_has_milliseconds() -> None:
    assert clock(1_700_000_000.112).endswith(".112") and len(clock(0)) == 12


def test_sparkline_scales_and_shows_the_least_thing() -> None:
    assert sparkline([0, 1, 50, 100]) == " ▁▄█" and sparkline([]) == "" and sparkline([0, 0]) == "  "
    assert sparkline([1], ceiling=8) == "▁"


@pytest.mark.parametrize(("number", "text"), [(0, "0/s"), (0.4, "0.4/s"), (14.2, "14/s"), (12_345, "12k/s")])
def test_rates(number: float, text: str) -> None:
    assert rate(number) == text


@pytest.mark.parametrize(
    ("width", "told"),
    [(0, "/a/b\u23ce日本.md"), (12, "/a/b\u23ce日本.md"), (11, "…/b\u23ce日本.md"), (8, "…日本.md")],
)
def test_the_end_of_a_path_is_kept(width: int, told: str) -> None:
    assert ending("/a/b\n日本.md", width) == told
    assert not width or cell_len(ending("/a/b\n日本.md", width)) <= width


CURL = (
    "curl -sS -H 'Content-Type: application/json' -H 'X-Key: a b' "
    """-d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' http://127.0.0.1:3333/mcp/hello"""
)


def words(lines: list[str]) -> list[str]:
    """Arguments a shell reads from the lines."""
    script = "printf '%s\\0' " + "\n".join(lines)
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=20).stdout
    return out.split("\0")[:-1]


def test_options_stay_with_their_values() -> None:
    assert fold_command(CURL, 76) == [
        "curl -sS -H 'Content-Type: application/json' -H 'X-Key: a b' \\",
        """  -d '{"jsonrpc":"2.0","id":1,"method":"tools/list"}' \\""",
        "  http://127.0.0.1:3333/mcp/hello",
    ]


@pytest.mark.process
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
    assert words(fold_command(command, width)) == shlex.split(command)


@pytest.mark.parametrize("width", [60, 72, 76, 90, 150])
def test_no_line_is_too_long(width: int) -> None:
    assert all(cell_len(line) <= width for line in fold_command(CURL, width))


def test_what_is_no_command_stays_as_it_is() -> None:
    assert fold_command("it's  not closed " * 9, 40) == ["it's  not closed " * 9]


def test_letters_with_combining_accents_are_cut_whole() -> None:
    name = normalize("NFD", "éàü-éàü-outil-çédille")
    assert column(name, 21) == name
    assert normalize("NFC", shortened(name, 20)) == "éàü-éàü-outil…édille"
    assert normalize("NFC", ending(name, 10)) == "…l-çédille"


def test_whole_sentences_are_kept_before_words() -> None:
    text = "Stay at the newest line. Press again to stop."
    assert whole_sentences(text, 60) == text
    assert whole_sentences(text, 30) == "Stay at the newest line."
    assert whole_sentences(text, 15) == "Stay at the …"
