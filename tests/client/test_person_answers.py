"""Answers from the desk: its capabilities, forms and links as questions, and messages a person writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.client.person_answers import (
    MODEL_NAME,
    PersonAnswers,
    form_pages,
    form_result,
    sampling_page,
    sampling_result,
)
from mcpdesk.client.roots import folder_roots
from mcpdesk.errors import ProtocolError
from mcpdesk.inbox import inbox as inbox_module
from mcpdesk.inbox.answers import problem
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.server.asks.question_wording import read_sampled
from tests.support.patience import until


def answers(inbox: Inbox | None = None) -> PersonAnswers:
    return PersonAnswers("s", inbox or Inbox(), lambda: 60.0, lambda: folder_roots([Path("/srv/a b")]))


async def test_folders_are_roots() -> None:
    roots = await answers().offered()["roots/list"]({}, "")
    assert roots == {"roots": [{"uri": "file:///srv/a%20b", "name": "a b"}]}


async def test_a_full_inbox_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "MAX_WAITING_QUESTIONS", 0)
    with pytest.raises(ProtocolError, match="the inbox is full"):
        await answers().elicit(LINK, "")


def test_what_needs_a_person_is_offered_with_a_screen_only() -> None:
    inbox = Inbox()
    assert set(answers(inbox).offered()) == {"roots/list"}
    inbox.audience = 1
    assert set(answers(inbox).offered()) == {"roots/list", "elicitation/create", "sampling/createMessage"}


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
    pages = form_pages(asked)
    assert problem(pages[0], answer) == ""
    return form_result(asked, ended(pages, QuestionState.ANSWERED, answer))["content"]


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
    (page,) = form_pages(form(field))
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
    assert form_pages(form(field))[0].default == default


@pytest.mark.parametrize(
    "field", [{"type": "string"}, {"type": "string", "enum": ["a"]}, {"type": "boolean"}]
)
def test_what_need_not_be_given_can_be_passed_over(field: dict[str, Any]) -> None:
    assert content(field, Answer(), required=False) == {}
    assert "may be left out" in form_pages(form(field, required=False))[0].detail


def test_a_page_tells_what_a_field_is_about_and_its_bounds() -> None:
    field = {"type": "integer", "title": "Age", "description": "In years", "minimum": 1, "maximum": 99}
    (page,) = form_pages(form(field))
    assert (page.header, page.detail) == ("Age", "In years\nwhole number · 1 to 99")
    assert problem(page, Answer(other="100")) == "at most 99"
    assert form_pages(form({"type": "string", "minLength": 2}))[0].detail == "at least 2 characters"
    assert form_pages(form({"type": "string", "maxLength": 2}))[0].detail == "at most 2 characters"


def test_a_page_has_the_pattern_of_its_field() -> None:
    (page,) = form_pages(form({"type": "string", "pattern": "^[A-Z]{3}$"}))
    assert page.detail == "matches ^[A-Z]{3}$"
    assert problem(page, Answer(other="lis")) == "the text must match ^[A-Z]{3}$"
    assert problem(page, Answer(other="LIS")) == ""
    number = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 9, "multipleOf": 2}
    assert form_pages(form(number))[0].detail == "number · more than 0 · less than 9 · a multiple of 2"


def waiting(inbox: Inbox) -> list[Question]:
    return [each for each in inbox.questions() if each.state is QuestionState.WAITING]


async def test_the_fields_of_a_request_are_one_form() -> None:
    inbox = Inbox()
    asked = form({"type": "string"})
    asked["requestedSchema"]["properties"]["more"] = {"type": "boolean"}
    for params, is_form in ((asked, True), (form({"type": "string"}), False), (LINK, False)):
        asking = asyncio.create_task(answers(inbox).elicit(params, "book"))
        await until(lambda: waiting(inbox))
        (question,) = waiting(inbox)
        assert question.is_form is is_form
        inbox.decline(question.id)
        assert await asking == {"action": "decline"}


def test_a_form_without_fields_asks_for_a_yes() -> None:
    asked = form(None)
    pages = form_pages(asked)
    assert pages[0].default == Answer(("yes",))
    answered = ended(pages, QuestionState.ANSWERED, Answer(("yes",)))
    assert form_result(asked, answered) == {"action": "accept", "content": {}}


def test_a_link_is_agreed_to_without_content() -> None:
    (page,) = form_pages(LINK)
    assert (page.link, page.question) == ("https://example.org/in", "Sign in")
    answered = ended((page,), QuestionState.ANSWERED, Answer())
    assert form_result(LINK, answered) == {"action": "accept"}


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
        assert form_result(asked, ended(form_pages(asked), state)) == {"action": action}


ASKED = {
    "messages": [
        {"role": "user", "content": {"type": "text", "text": "The capital of France?"}},
        {"role": "user", "content": [{"type": "image", "data": "", "mimeType": "image/png"}]},
    ],
    "systemPrompt": "Be brief.",
    "maxTokens": 50,
    "temperature": 0.2,
    "stopSequences": ["."],
    "modelPreferences": {"hints": [{"name": "sonnet"}], "speedPriority": 0.8},
}


def test_messages_and_wishes_are_there_to_be_read() -> None:
    page = sampling_page(ASKED)
    assert page.is_long and page.is_required
    assert page.detail.split("\n\n") == [
        "system: Be brief.",
        "user: The capital of France?",
        "user: [image image/png]",
        "wants sonnet · fast 0.8 · at most 50 tokens · temperature 0.2 · stops at '.'",
    ]


def test_the_text_is_the_answer_of_a_model() -> None:
    sampled = read_sampled(sampling_result(Answer(other="Paris")))
    assert (sampled.text, sampled.model, sampled.stop_reason) == ("Paris", MODEL_NAME, "endTurn")
