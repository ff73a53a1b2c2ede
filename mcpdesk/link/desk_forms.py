"""What hosted tools ask of the person at the desk as pages of a question, and the answers as results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpdesk.inbox.answers import number
from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.protocol.jsonrpc import JSONObject

AGREE = "yes"
YES_NO = {"yes": True, "no": False}
_BOUNDS = ("type", "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems")


def pages_of(params: JSONObject) -> tuple[Page, ...]:
    """A link is one page; a form has one a field, or asks for a yes when it has none."""
    message: str = params["message"]
    if params.get("mode") == "url":
        return (Page(message, "link", own_words=False, is_required=False, link=params["url"]),)
    schema = params["requestedSchema"]
    required = frozenset(schema.get("required", ()))
    fields: dict[str, JSONObject] = schema["properties"]
    pages = [_page(message, name, field, name in required) for name, field in fields.items()]
    agree = Page(message, options=(Option(AGREE),), own_words=False, default=Answer((AGREE,)))
    return tuple(pages) or (agree,)


def result_of(params: JSONObject, question: Question) -> JSONObject:
    """The ElicitResult a question in its final state comes to."""
    if question.state is QuestionState.DECLINED:
        return {"action": "decline"}
    if question.state is not QuestionState.ANSWERED:
        return {"action": "cancel"}
    if params.get("mode") == "url":
        return {"action": "accept"}
    schema = params["requestedSchema"]
    return {"action": "accept", "content": _content(schema, question.answers)}


def _page(message: str, name: str, field: JSONObject, is_required: bool) -> Page:
    labels = _labels(field)
    is_many = field["type"] == "array"
    title = field.get("title", name)
    options = tuple(Option(label, _meaning(label, value)) for label, value in labels.items())
    return Page(
        message,
        title,
        options,
        is_many,
        own_words=not options,
        is_required=is_required and not (is_many and not field.get("minItems")),
        default=_default(field, labels),
        detail="\n".join(
            part for part in (field.get("description", ""), _limits(field, is_required)) if part
        ),
        rules={key: field[key] for key in _BOUNDS if key in field},
    )


def _labels(field: JSONObject) -> dict[str, Any]:
    """Label -> value of everything that can be chosen; empty for fields that are written."""
    if field["type"] == "boolean":
        return YES_NO
    source = field["items"] if field["type"] == "array" else field
    titled = source.get("oneOf") or source.get("anyOf") or ()
    plain = source.get("enum", ())
    pairs = [(str(each.get("title", each["const"])), each["const"]) for each in titled] or list(
        zip(source.get("enumNames", plain), plain, strict=False)
    )
    named = dict(pairs)
    return named if len(named) == len(pairs) else {str(value): value for _, value in pairs}


def _meaning(label: str, value: Any) -> str:
    return value if isinstance(value, str) and value != label else ""


def _default(field: JSONObject, labels: dict[str, Any]) -> Answer:
    if "default" not in field:
        return Answer()
    given = field["default"]
    if labels:
        wanted = given if isinstance(given, list) else [given]
        return Answer(tuple(label for label, value in labels.items() if value in wanted))
    return Answer(other=str(given))


def _limits(field: JSONObject, is_required: bool) -> str:
    """Bounds in a few words: `whole number · 1 to 99 · may be left out`."""
    kind = {"integer": "whole number", "number": "number"}.get(field["type"], "")
    sizes = (
        _range(field.get("minimum"), field.get("maximum"), ""),
        _range(field.get("minLength"), field.get("maxLength"), " characters"),
        _range(field.get("minItems"), field.get("maxItems"), " of them"),
    )
    optional = "" if is_required else "may be left out"
    return " · ".join(part for part in (kind, field.get("format", ""), *sizes, optional) if part)


def _range(low: Any, high: Any, unit: str) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}{unit}"
    if low is not None:
        return f"at least {low}{unit}"
    return "" if high is None else f"at most {high}{unit}"


def _content(schema: JSONObject, answers: Sequence[Answer]) -> JSONObject:
    """Fields that were passed over are left out, save a required list, which is empty."""
    required = schema.get("required", ())
    pairs = zip(schema["properties"].items(), answers, strict=False)
    return {
        name: _value(field, answer)
        for (name, field), answer in pairs
        if answer != Answer() or (field["type"] == "array" and name in required)
    }


def _value(field: JSONObject, answer: Answer) -> Any:
    labels = _labels(field)
    chosen = [labels[label] for label in answer.selected]
    if field["type"] == "array":
        return chosen
    if chosen:
        return chosen[0]
    if field["type"] in ("number", "integer"):
        value = number(answer.other)
        return int(value) if value is not None and field["type"] == "integer" else value
    return answer.other
