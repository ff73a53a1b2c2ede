"""Forms and links as questions, and their answers as results."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.link.desk_forms import pages_of, result_of

TITLED = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
LINK = {"mode": "url", "message": "Sign in", "url": "https://example.org/in", "elicitationId": "1"}


def form(field: dict[str, Any] | None, required: bool = True) -> dict[str, Any]:
    properties = {} if field is None else {"it": field}
    schema = {"type": "object", "properties": properties, "required": list(properties) if required else []}
    return {"message": "Please", "requestedSchema": schema}


def ended(pages: tuple[Page, ...], state: QuestionState, *answers: Answer) -> Question:
    return Question(1, "s", "desk", "t", pages, 0.0, 1.0, state=state, answers=answers)


def content(field: dict[str, Any], answer: Answer, required: bool = True) -> Any:
    asked = form(field, required)
    pages = pages_of(asked)
    assert problem(pages[0], answer) == ""
    return result_of(asked, ended(pages, QuestionState.ANSWERED, answer))["content"]


@pytest.mark.parametrize(
    ("field", "labels", "answer", "value"),
    [
        ({"type": "string"}, [], Answer(other="x"), "x"),
        ({"type": "string", "format": "email"}, [], Answer(other="a@b.org"), "a@b.org"),
        ({"type": "integer"}, [], Answer(other="3"), 3),
        ({"type": "integer"}, [], Answer(other="1e2"), 100),
        ({"type": "number"}, [], Answer(other="1.5"), 1.5),
        ({"type": "boolean"}, ["yes", "no"], Answer(("no",)), False),
        ({"type": "string", "enum": ["a", "b"]}, ["a", "b"], Answer(("b",)), "b"),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["A"], Answer(("A",)), "a"),
        ({"type": "string", "oneOf": TITLED}, ["Red", "Green"], Answer(("Green",)), "g"),
        ({"type": "array", "items": {"anyOf": TITLED}}, ["Red", "Green"], Answer(("Red",)), ["r"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], Answer(("a", "b")), ["a", "b"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], Answer(), []),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["x", "x"]}, ["a", "b"], Answer(("b",)), "b"),
    ],
)  # fmt: skip
def test_each_kind_of_field(field: dict[str, Any], labels: list[str], answer: Answer, value: Any) -> None:
    (page,) = pages_of(form(field))
    assert [option.label for option in page.options] == labels
    assert (page.question, page.header) == ("Please", "it")
    assert page.multi_select == (field["type"] == "array") and page.own_words == (not labels)
    assert content(field, answer) == {"it": value}


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ({"type": "string", "default": "d"}, Answer(other="d")),
        ({"type": "integer", "default": 3}, Answer(other="3")),
        ({"type": "boolean", "default": False}, Answer(("no",))),
        ({"type": "string", "oneOf": TITLED, "default": "g"}, Answer(("Green",))),
        ({"type": "array", "items": {"anyOf": TITLED}, "default": ["r", "g"]}, Answer(("Red", "Green"))),
        ({"type": "string"}, Answer()),
    ],
)
def test_defaults_are_filled_in(field: dict[str, Any], default: Answer) -> None:
    assert pages_of(form(field))[0].default == default


@pytest.mark.parametrize(
    "field", [{"type": "string"}, {"type": "string", "enum": ["a"]}, {"type": "boolean"}]
)
def test_what_need_not_be_given_can_be_passed_over(field: dict[str, Any]) -> None:
    assert content(field, Answer(), required=False) == {}
    assert "may be left out" in pages_of(form(field, required=False))[0].detail


def test_a_page_tells_what_a_field_is_about_and_its_bounds() -> None:
    field = {"type": "integer", "title": "Age", "description": "In years", "minimum": 1, "maximum": 99}
    (page,) = pages_of(form(field))
    assert (page.header, page.detail) == ("Age", "In years\nwhole number · 1 to 99")
    assert problem(page, Answer(other="100")) == "at most 99"
    assert pages_of(form({"type": "string", "minLength": 2}))[0].detail == "at least 2 characters"
    assert pages_of(form({"type": "string", "maxLength": 2}))[0].detail == "at most 2 characters"


def test_a_form_without_fields_asks_for_a_yes() -> None:
    asked = form(None)
    pages = pages_of(asked)
    assert pages[0].default == Answer(("yes",))
    answered = ended(pages, QuestionState.ANSWERED, Answer(("yes",)))
    assert result_of(asked, answered) == {"action": "accept", "content": {}}


def test_a_link_is_agreed_to_without_content() -> None:
    (page,) = pages_of(LINK)
    assert (page.link, page.question) == ("https://example.org/in", "Sign in")
    answered = ended((page,), QuestionState.ANSWERED, Answer())
    assert result_of(LINK, answered) == {"action": "accept"}


@pytest.mark.parametrize(
    ("state", "action"),
    [
        (QuestionState.DECLINED, "decline"),
        (QuestionState.CANCELLED, "cancel"),
        (QuestionState.TIMED_OUT, "cancel"),
        (QuestionState.WITHDRAWN, "cancel"),
    ],
)
def test_without_an_answer_there_is_no_content(state: QuestionState, action: str) -> None:
    for asked in (form({"type": "string"}), LINK):
        assert result_of(asked, ended(pages_of(asked), state)) == {"action": action}
