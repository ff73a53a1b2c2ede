"""Docstrings as descriptions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.hosting.folder.hints import Doc, read_docstring


def test_plain_docstring_is_the_description() -> None:
    assert read_docstring("Do it.\n\n    Twice.\n    ") == Doc("Do it.\n\nTwice.")
    assert read_docstring(None) == Doc()


def test_lines_broken_for_an_editor_flow_and_what_has_a_shape_keeps_it() -> None:
    text = "Do it\nwell.\n\nWays:\n- one\n- two\n\n    code\n    more\n\n1. first\n2. second"
    flowing = "Do it well.\n\nWays:\n- one\n- two\n\n    code\n    more\n\n1. first\n2. second"
    assert read_docstring(text).text == flowing


@pytest.mark.parametrize(
    "docstring",
    [
        "Add.\n\nArgs:\n    a: the first,\n        really\n    b (int): the second\n\nReturns:\n    the sum",
        "Add.\n\n:param a: the first, really\n:param b: the second\n:returns: the sum",
        "Add.\n\nParameters\n----------\na : int\n    the first, really\nb : int\n    the second\n",
    ],
)
def test_parameters_are_found_in_every_style(docstring: str) -> None:
    assert read_docstring(docstring) == Doc("Add.", {"a": "the first, really", "b": "the second"})


def test_section_names_inside_sentences_are_no_sections() -> None:
    assert read_docstring("Example: a line about Args: and more.").parameters == {}


PIECES = [
    "Args:",
    "Raises:",
    "Parameters\n----------\n",
    ":param x:",
    "@param y",
    ":",
    "x",
    "(int)",
    "\n",
    "    ",
    "\0",
    "é",
]


def test_a_section_nobody_can_read_is_text() -> None:
    assert read_docstring("Do it.\n\n:  : odd\n:param x: y") == Doc("Do it.\n\n:  : odd :param x: y")


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4)).map("".join))
def test_any_docstring_is_read(docstring: str) -> None:
    read_docstring(docstring)


def test_random_docstrings_are_read() -> None:
    dice = random.Random(1)
    for _ in range(3_000):
        read_docstring("".join(dice.choices(PIECES, k=dice.randrange(14))))
