"""Docstrings as descriptions."""

from __future__ import annotations

import pytest

from mcpdesk.hosting.docstrings import Doc, read_docstring


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
