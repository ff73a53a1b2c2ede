"""Valid questions, and refusals that name the location."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.inbox.question import Option, Page
from mcpdesk.tools.ask import pages_from

GOOD = {"question": "Which?", "options": ["a", "b"]}


def pages(value: Any) -> tuple[Page, ...]:
    return pages_from(orjson.dumps(value).decode())


@pytest.mark.parametrize(
    "wrap", [lambda each: [each], lambda each: {"questions": [each]}], ids=["list", "object"]
)
def test_a_list_and_an_object_mean_the_same(wrap: Any) -> None:
    full = {
        "question": "Which? ",
        "header": "H",
        "multiSelect": True,
        "options": ["a", {"label": "b", "description": "the second", "preview": "ignored"}],
    }
    assert pages(wrap(full)) == (Page("Which?", "H", (Option("a"), Option("b", "the second")), True),)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "questions_json: must be a list of questions"),
        ("text", "questions_json: must be a list of questions"),
        ([], "questions_json: has 0 questions; 1 to 8 are allowed"),
        ([GOOD] * 9, "questions_json: has 9 questions"),
        ([GOOD, 7], r"questions\[1\]: must be an object"),
        ([{"options": ["a", "b"]}], r"questions\[0\].question: must be a text"),
        ([GOOD | {"question": "  "}], r"questions\[0\].question: must be a text"),
        ([GOOD | {"header": 5}], r"questions\[0\].header: must be a text, if given"),
        ([GOOD | {"multiSelect": "yes"}], r"questions\[0\].multiSelect: must be true or false"),
        ([{"question": "Which?"}], r"questions\[0\].options: must be a list"),
        ([GOOD | {"options": ["a"]}], r"questions\[0\].options: has 1 options; 2 to 9 are allowed"),
        ([GOOD | {"options": list("abcdefghij")}], r"questions\[0\].options: has 10 options"),
        ([GOOD, GOOD | {"options": ["a", 5]}], r"questions\[1\].options\[1\]: must be a string or an object"),
        (
            [GOOD | {"options": ["a", {"description": "x"}]}],
            r"questions\[0\].options\[1\].label: must be a text",
        ),
        ([GOOD | {"options": ["a", {"label": "a"}]}], r"options\[1\]: two options are called 'a'"),
        ([GOOD | {"options": ["a", "x" * 201]}], r"options\[1\]: has 201 characters; at most 200"),
    ],
)
def test_a_refusal_names_the_place(value: Any, message: str) -> None:
    with pytest.raises(HandlerError, match=message):
        pages(value)


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(HandlerError, match=r"questions_json: must be a list of questions, .* Parse error"):
        pages_from("[{]")
