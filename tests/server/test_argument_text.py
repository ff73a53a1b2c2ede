"""Arguments as they are read before approving: nothing hidden without a word, nothing passes for more."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.server.asks.approval_questions import LONGEST_TEXT, LONGEST_VALUE, argument_text, shortened


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "without arguments"),
        ({"command": "ls -la"}, "command: ls -la"),
        ({"n": 5, "on": True, "none": None}, "n: 5\non: true\nnone: null"),
        ({"odd name\n": "x"}, '"odd name\\n": x'),
        ({"tags": ["a", "ü"]}, 'tags:\n    [\n      "a",\n      "ü"\n    ]'),
    ],
)
def test_a_line_an_argument(arguments: dict[str, Any], text: str) -> None:
    assert argument_text(arguments) == text


def test_a_text_of_several_lines_cannot_pass_for_another_argument() -> None:
    text = argument_text({"command": "echo a\ntimeout: 5", "timeout": 9000})
    assert text == "command:\n    echo a\n    timeout: 5\ntimeout: 9000"


def test_a_long_text_keeps_both_ends_and_says_what_is_missing() -> None:
    text = argument_text({"command": "echo " + "x" * 100_000 + "; rm -rf /"})
    assert text.startswith("command:\n    echo xxx") and text.endswith("; rm -rf /")
    assert f"{100_015 - LONGEST_VALUE:,} characters are not shown" in text
    assert len(text) < LONGEST_VALUE + 200


def test_many_arguments_are_bounded_as_a_whole() -> None:
    text = argument_text({f"a{number}": "y" * LONGEST_VALUE for number in range(100)})
    assert len(text) < LONGEST_TEXT + 100 and "characters are not shown" in text


def test_what_is_enormous_is_shortened_before_anybody_looks_through_it() -> None:
    value: Any = "x"
    for _ in range(900):
        value = [value]
    short = shortened(
        {
            "deep": value,
            "wide": list(range(100_000)),
            "text": "z" * 10_000_000,
            **{f"k{n}": n for n in range(500)},
        }
    )
    text = argument_text(short)
    assert "1 more inside" in text and "99,800 more" in text and "303 more" in text
    assert len(short["text"]) < 20_000
