"""Answers to questions that servers ask the desk.

A form, a link or a sampling request waits in the inbox for a person. Roots are returned at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mcpdesk.client.connection import Questions
from mcpdesk.errors import HandlerError, ProtocolError
from mcpdesk.inbox.answers import parsed_number
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.protocol import content
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject

REFUSED_CODE = -1
"""Code of the error for a refused sampling request. Source: MCP basic."""
AGREE_LABEL = "yes"
YES_NO_LABELS = {"yes": True, "no": False}
_RULE_KEYWORDS = (
    *("type", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
MODEL_NAME = "the person at the desk"
_PREFERENCE_WORDS = {
    "costPriority": "cheap",
    "speedPriority": "fast",
    "intelligencePriority": "capable",
}

Roots = Callable[[], Sequence[JSONObject]]
"""Function that returns the desk's roots, in the form of `roots/list`."""


class PersonAnswers:
    """Answers the questions of one server through an inbox. Must be used on the inbox's event loop."""

    def __init__(
        self, server: str, inbox: Inbox, timeout_s: Callable[[], float], roots: Roots = tuple
    ) -> None:
        """`timeout_s` returns the time limit of a question."""
        self._server = server
        self._inbox = inbox
        self._timeout_s = timeout_s
        self._roots = roots

    def offered(self) -> Questions:
        """Return the handlers of the questions that can be answered now.

        If no person is at a screen, this is only the handler for roots.
        """
        handlers: Questions = {"roots/list": self._list_roots}
        if not self._inbox.people:
            return handlers
        return {"elicitation/create": self.elicit, "sampling/createMessage": self.sample, **handlers}

    async def elicit(self, params: JSONObject, asker: str) -> JSONObject:
        """Return the result of `elicitation/create`.

        `asker` names the tool, prompt, URI or method whose call caused the question.

        Raises: ProtocolError if too many questions are waiting.
        """
        pages = form_pages(params)
        question = await self._ask(pages, asker, may_cancel=True, is_form=len(pages) > 1)
        return form_result(params, question)

    async def sample(self, params: JSONObject, asker: str) -> JSONObject:
        """Return the result of `sampling/createMessage`, written by the person. Raises: ProtocolError."""
        question = await self._ask((sampling_page(params),), asker)
        if question.state is QuestionState.ANSWERED:
            return sampling_result(question.answers[0])
        reason_text = f": {question.reason}" if question.reason else ""
        raise ProtocolError(
            REFUSED_CODE, f"The request for a message was {question.state} at the desk{reason_text}"
        )

    async def _list_roots(self, params: JSONObject, asker: str) -> JSONObject:
        return {"roots": list(self._roots())}

    async def _ask(
        self, pages: tuple[Page, ...], asker: str, may_cancel: bool = False, is_form: bool = False
    ) -> Question:
        """Ask in the inbox. Return the question in its final state. Raises: ProtocolError."""
        try:
            identifier, future = self._inbox.ask(
                server=self._server,
                peer="desk",
                tool=asker,
                pages=pages,
                timeout_s=self._timeout_s(),
                may_cancel=may_cancel,
                is_form=is_form,
            )
        except HandlerError as error:
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, error.message) from None
        try:
            return await future
        finally:
            self._inbox.withdraw(identifier, "the call is over")


def form_pages(params: JSONObject) -> tuple[Page, ...]:
    """Return the pages of a question: one for each field of a form, or one for a link.

    A form without fields has one page, on which the person confirms.
    """
    message: str = params["message"]
    if params.get("mode") == "url":
        return (Page(message, "link", own_words=False, is_required=False, link=params["url"]),)
    schema = params["requestedSchema"]
    required = frozenset(schema.get("required", ()))
    fields: dict[str, JSONObject] = schema["properties"]
    pages = [_page(message, name, field, name in required) for name, field in fields.items()]
    if pages:
        return tuple(pages)
    agreement = Answer((AGREE_LABEL,))
    return (Page(message, options=(Option(AGREE_LABEL),), own_words=False, default=agreement),)


def form_result(params: JSONObject, question: Question) -> JSONObject:
    """Return the ElicitResult for a question in its final state."""
    if question.state is QuestionState.DECLINED:
        return {"action": "decline"}
    if question.state is not QuestionState.ANSWERED:
        return {"action": "cancel"}
    if params.get("mode") == "url":
        return {"action": "accept"}
    schema = params["requestedSchema"]
    return {"action": "accept", "content": _content(schema, question.answers)}


def _page(message: str, name: str, field: JSONObject, is_required: bool) -> Page:
    """Return the page for one field of a form. `name` is the key of the field."""
    labels = _values_by_label(field)
    allows_several = field["type"] == "array"
    title = field.get("title", name)
    options = tuple(Option(label, _option_detail(label, value)) for label, value in labels.items())
    may_be_empty = allows_several and not field.get("minItems")
    details = (field.get("description", ""), _limits(field, is_required))
    return Page(
        message,
        title,
        options,
        allows_several,
        own_words=not options,
        is_required=is_required and not may_be_empty,
        default=_default(field, labels),
        detail="\n".join(filter(None, details)),
        rules={key: field[key] for key in _RULE_KEYWORDS if key in field},
    )


def _values_by_label(field: JSONObject) -> dict[str, Any]:
    """Return the values of a choice, by label. Empty for a field with free text."""
    if field["type"] == "boolean":
        return YES_NO_LABELS
    source = field["items"] if field["type"] == "array" else field
    titled_options = source.get("oneOf") or source.get("anyOf") or ()
    enum_values = source.get("enum", ())
    pairs = [(str(each.get("title", each["const"])), each["const"]) for each in titled_options]
    if not pairs:
        pairs = list(zip(source.get("enumNames", enum_values), enum_values, strict=False))
    labels = dict(pairs)
    return labels if len(labels) == len(pairs) else {str(value): value for _, value in pairs}


def _option_detail(label: str, value: Any) -> str:
    return value if isinstance(value, str) and value != label else ""


def _default(field: JSONObject, labels: dict[str, Any]) -> Answer:
    if "default" not in field:
        return Answer()
    default = field["default"]
    if labels:
        values = default if isinstance(default, list) else [default]
        return Answer(tuple(label for label, value in labels.items() if value in values))
    return Answer(other=str(default))


def _limits(field: JSONObject, is_required: bool) -> str:
    """Describe the limits of a field briefly: `whole number · 1 to 99 · may be left out`."""
    kind = {"integer": "whole number", "number": "number"}.get(field["type"], "")
    range_texts = (
        _range(field.get("minimum"), field.get("maximum"), ""),
        _range(field.get("minLength"), field.get("maxLength"), " characters"),
        _range(field.get("minItems"), field.get("maxItems"), " of them"),
    )
    other_limits = (
        f"more than {field['exclusiveMinimum']}" if "exclusiveMinimum" in field else "",
        f"less than {field['exclusiveMaximum']}" if "exclusiveMaximum" in field else "",
        f"a multiple of {field['multipleOf']}" if "multipleOf" in field else "",
        f"matches {field['pattern']}" if "pattern" in field else "",
    )
    optional = "" if is_required else "may be left out"
    return " · ".join(
        part for part in (kind, field.get("format", ""), *range_texts, *other_limits, optional) if part
    )


def _range(low: Any, high: Any, unit: str) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}{unit}"
    if low is not None:
        return f"at least {low}{unit}"
    return "" if high is None else f"at most {high}{unit}"


def _content(schema: JSONObject, answers: Sequence[Answer]) -> JSONObject:
    """Return the content of a form. Skipped fields are omitted, except required lists, which are empty."""
    required = schema.get("required", ())
    pairs = zip(schema["properties"].items(), answers, strict=False)
    return {
        name: _value(field, answer)
        for (name, field), answer in pairs
        if answer != Answer() or (field["type"] == "array" and name in required)
    }


def _value(field: JSONObject, answer: Answer) -> Any:
    """Return the value of a field that the person's answer means."""
    labels = _values_by_label(field)
    selected_values = [labels[label] for label in answer.selected]
    if field["type"] == "array":
        return selected_values
    if selected_values:
        return selected_values[0]
    if field["type"] in ("number", "integer"):
        value = parsed_number(answer.other)
        return int(value) if value is not None and field["type"] == "integer" else value
    return answer.other


def sampling_page(params: JSONObject) -> Page:
    """Return a page with the system prompt, the messages, the preferences, and a field for the answer."""
    return Page(
        "Write what the model would answer.",
        "sampling",
        detail="\n\n".join(_text_parts(params)),
        is_long=True,
    )


def sampling_result(answer: Answer) -> JSONObject:
    """Return the CreateMessageResult."""
    return {
        "role": "assistant",
        "content": content.text(answer.other),
        "model": MODEL_NAME,
        "stopReason": "endTurn",
    }


def _text_parts(params: JSONObject) -> Iterator[str]:
    if system := params.get("systemPrompt"):
        yield f"system: {system}"
    for message in params["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else [message["content"]]
        for block in blocks:
            yield f"{message['role']}: {_block_text(block)}"
    if preferences := " · ".join(_preference_texts(params)):
        yield preferences


def _block_text(block: JSONObject) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    description = block.get("name") or block.get("mimeType") or block.get("toolUseId") or ""
    return f"[{block.get('type')} {description}]"


def _preference_texts(params: JSONObject) -> Iterator[str]:
    preferences: dict[str, Any] = params.get("modelPreferences") or {}
    hints = [str(hint["name"]) for hint in preferences.get("hints", ()) if hint.get("name")]
    if hints:
        yield f"wants {', '.join(hints)}"
    for key, word in _PREFERENCE_WORDS.items():
        if key in preferences:
            yield f"{word} {preferences[key]}"
    yield f"at most {params['maxTokens']} tokens"
    if "temperature" in params:
        yield f"temperature {params['temperature']}"
    if stops := params.get("stopSequences"):
        yield f"stops at {', '.join(map(repr, stops))}"
