"""Forms as questions, and their answers as content."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.link.desk_forms import LEAVE_OUT, pages_of, result_of

TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]


def form(field: dict[str, Any] | None, required: bool = True) -> dict[str, Any]:
    properties = {} if field is None else {"it": field}
    schema = {"type": "object", "properties": properties, "required": list(properties) if required else []}
    return {"message": "Please", "requestedSchema": schema}


def ended(pages: tuple[Page, ...], state: QuestionState, *answers: Answer) -> Question:
    return Question(1, "s", "desk", "t", pages, 0.0, 1.0, state, answers)


def content(field: dict[str, Any], answer: Answer, required: bool = True) -> Any:
    asked = form(field, required)
    return result_of(asked, ended(pages_of(asked), QuestionState.ANSWERED, answer))["content"]


@pytest.mark.parametrize(
    ("field", "labels", "answer", "value"),
    [
        ({"type": "string"}, [], Answer(other="x"), "x"),
        ({"type": "string", "default": "d"}, ["d"], Answer(("d",)), "d"),
        ({"type": "integer", "default": 3}, ["3"], Answer(("3",)), 3),
        ({"type": "number"}, [], Answer(other="1.5"), 1.5),
        ({"type": "integer"}, [], Answer(other="many"), "many"),
        ({"type": "boolean"}, ["yes", "no"], Answer(("no",)), False),
        ({"type": "string", "enum": ["a", "b"]}, ["a", "b"], Answer(("b",)), "b"),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["A"], Answer(("A",)), "a"),
        ({"type": "string", "oneOf": TITLED}, ["Red", "Green"], Answer(("Green",)), "g"),
        ({"type": "array", "items": {"anyOf": TITLED}}, ["Red", "Green"], Answer(("Red",)), ["r"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], Answer(("a",), "c"), ["a", "c"]),
    ],
)  # fmt: skip
def test_each_kind_of_field(field: dict[str, Any], labels: list[str], answer: Answer, value: Any) -> None:
    (page,) = pages_of(form(field))
    assert [option.label for option in page.options] == labels
    assert page.question == "Please\nit" and page.multi_select == (field["type"] == "array")
    assert content(field, answer) == {"it": value}


def test_what_need_not_be_given_can_be_left_out() -> None:
    assert content({"type": "string"}, Answer((LEAVE_OUT,)), required=False) == {}


def test_a_form_without_fields_asks_for_a_yes() -> None:
    asked = form(None)
    pages = pages_of(asked)
    assert [option.label for option in pages[0].options] == ["yes"]
    answered = ended(pages, QuestionState.ANSWERED, Answer(("yes",)))
    assert result_of(asked, answered) == {"action": "accept", "content": {}}


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (QuestionState.DECLINED, "decline"),
        (QuestionState.TIMED_OUT, "cancel"),
        (QuestionState.WITHDRAWN, "cancel"),
    ],
)
def test_without_an_answer_there_is_no_content(state: QuestionState, action: str) -> None:
    asked = form({"type": "string"})
    assert result_of(asked, ended(pages_of(asked), state)) == {"action": action}
