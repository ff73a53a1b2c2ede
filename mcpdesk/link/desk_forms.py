"""Forms that hosted tools ask the desk to fill, as questions of the inbox, and the answers as content."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.protocol.jsonrpc import JSONObject

LEAVE_OUT = "(leave out)"
AGREE = "yes"
YES_NO = {"yes": True, "no": False}


def pages_of(params: JSONObject) -> tuple[Page, ...]:
    """One page a field, the message on the first; a form without fields asks for a yes."""
    schema = params["requestedSchema"]
    required = frozenset(schema.get("required", ()))
    fields: dict[str, JSONObject] = schema["properties"]
    pages = [_page(name, field, name in required) for name, field in fields.items()]
    if not pages:
        return (Page(params["message"], options=(Option(AGREE),)),)
    first = pages[0]
    question = f"{params['message']}\n{first.question}"
    return (Page(question, first.header, first.options, first.multi_select), *pages[1:])


def result_of(params: JSONObject, question: Question) -> JSONObject:
    """The ElicitResult a question in its final state comes to."""
    if question.state is QuestionState.DECLINED:
        return {"action": "decline"}
    if question.state is not QuestionState.ANSWERED:
        return {"action": "cancel"}
    return {
        "action": "accept",
        "content": _content(params["requestedSchema"]["properties"], question.answers),
    }


def _page(name: str, field: JSONObject, is_required: bool) -> Page:
    labels = list(_values(field))
    if not labels and "default" in field:
        labels = [str(field["default"])]
    is_many = field["type"] == "array"
    if not is_required:
        labels.append(LEAVE_OUT)
    title = field.get("title", name)
    options = tuple(Option(label) for label in labels)
    return Page(field.get("description") or title, title, options, is_many)


def _values(field: JSONObject) -> dict[str, Any]:
    """Label -> value of everything that can be chosen; empty for fields that are written."""
    if field["type"] == "boolean":
        return YES_NO
    source = field["items"] if field["type"] == "array" else field
    titled = source.get("oneOf") or source.get("anyOf") or ()
    named = {str(each.get("title", each["const"])): each["const"] for each in titled}
    plain = source.get("enum", ())
    return named or dict(zip(source.get("enumNames", plain), plain, strict=False))


def _content(fields: dict[str, JSONObject], answers: Sequence[Answer]) -> JSONObject:
    pairs = zip(fields.items(), answers, strict=False)
    return {
        name: _value(field, answer) for (name, field), answer in pairs if LEAVE_OUT not in answer.selected
    }


def _value(field: JSONObject, answer: Answer) -> Any:
    """What was chosen or written. What does not fit stays as it is: the server asks again."""
    values = _values(field)
    chosen = [values.get(label, label) for label in answer.selected]
    if field["type"] == "array":
        return [*chosen, *([answer.other] if answer.other else [])]
    given = chosen[0] if chosen else answer.other
    if field["type"] in ("number", "integer"):
        return _number(given)
    return given


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
