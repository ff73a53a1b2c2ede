"""AskUserQuestion: questions for the person at the desk, answered together."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from mcpdesk.errors import HandlerError, ProtocolError
from mcpdesk.inbox.question import Answer, Option, Page, Question, QuestionState
from mcpdesk.protocol import codec, content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult

Status = Literal["answered", "declined", "timed_out", "withdrawn"]
STATUS_BY_STATE: dict[QuestionState, Status] = {
    QuestionState.ANSWERED: "answered",
    QuestionState.DECLINED: "declined",
    QuestionState.CANCELLED: "declined",
    QuestionState.TIMED_OUT: "timed_out",
    QuestionState.WITHDRAWN: "withdrawn",
}


class Answered(Struct, frozen=True):
    """One question and its answer.

    Attributes:
        selected: Chosen labels
        other: Text that the person wrote, or empty
    """

    question: str
    header: str
    selected: tuple[str, ...]
    other: str


class Answers(Struct, frozen=True):
    """Outcome of the questions.

    Attributes:
        reason: Reason for the missing answer, if one was given
        answers: One per question when answered, else empty
    """

    status: Status
    reason: str
    answers: tuple[Answered, ...]


@tool(
    name="AskUserQuestion",
    title="Ask the person at the desk",
    read_only=True,
    destructive=False,
    idempotent=False,
    open_world=False,
)
async def ask_user_question(questions_json: str, ctx: Context) -> ToolResult[Answers]:
    """Ask interactive multiple-choice questions via TUI. Waits until the person at the desk has answered,
    possibly in own words, or declined. questions_json: a list of 1 to 8 {question, header?, options,
    multiSelect?}, where options are 2 to 9 strings or {label, description?}.

    Args:
        questions_json: JSON string with questions and options
    """
    return _result(await ctx.ask(pages_from(questions_json)))


def _result(question: Question) -> ToolResult[Answers]:
    pairs = list(zip(question.pages, question.answers, strict=False))
    answers = tuple(
        Answered(page.question, page.header, answer.selected, answer.other) for page, answer in pairs
    )
    body = Answers(STATUS_BY_STATE[question.state], question.reason, answers)
    is_unanswered = question.state in (QuestionState.TIMED_OUT, QuestionState.WITHDRAWN)
    return ToolResult((content.text(_text(question, pairs)),), body, is_error=is_unanswered)


def _text(question: Question, pairs: list[tuple[Page, Answer]]) -> str:
    waited_s = round(question.deadline - question.asked)
    reason = f": {question.reason}" if question.reason else ""
    failure_texts = {
        QuestionState.DECLINED: f"The person declined to answer{reason}.",
        QuestionState.CANCELLED: f"The person declined to answer{reason}.",
        QuestionState.TIMED_OUT: f"No person answered within {waited_s} s.",
        QuestionState.WITHDRAWN: f"The question was withdrawn before it was answered{reason}.",
    }
    return failure_texts.get(question.state) or "\n".join(_line(page, answer) for page, answer in pairs)


def _line(page: Page, answer: Answer) -> str:
    answers = [*answer.selected, *([f"(own words) {answer.other}"] if answer.other else [])]
    # A client may submit an empty form.
    return f"{page.question}\n-> {', '.join(answers) or '(no answer)'}"


QUESTION_COUNTS = (1, 8)
"""Minimum and maximum number of questions."""
OPTION_COUNTS = (2, 9)
"""Minimum and maximum number of options of a question."""
QUESTIONS_SHAPE = 'must be a list of questions, or {"questions": [...]}'
TEXT_LIMIT = 4_000
"""Maximum characters of a question or a description."""
LABEL_LIMIT = 200
"""Maximum characters of a label or a header."""


def pages_from(text: str) -> tuple[Page, ...]:
    """Return the pages in a JSON text: a list of questions, or an object with the list as `questions`.

    Raises: HandlerError with the path of the invalid value and a description of the allowed values.
    """
    try:
        value = codec.decode(text.encode())
    except ProtocolError as error:
        raise HandlerError(f"questions_json: {QUESTIONS_SHAPE}, as JSON. {error.message}") from None
    if isinstance(value, dict):
        value = value.get("questions")
    if not isinstance(value, list):
        raise HandlerError(f"questions_json: {QUESTIONS_SHAPE}")
    _check_count("questions_json", value, QUESTION_COUNTS, "questions")
    return tuple(_page(f"questions[{index}]", each) for index, each in enumerate(value))


def _page(path: str, value: Any) -> Page:
    if not isinstance(value, dict):
        raise HandlerError(f"{path}: must be an object with question and options")
    options = value.get("options")
    if not isinstance(options, list):
        raise HandlerError(f"{path}.options: must be a list of strings or {{label, description}} objects")
    _check_count(f"{path}.options", options, OPTION_COUNTS, "options")
    is_multi_select = value.get("multiSelect", False)
    if not isinstance(is_multi_select, bool):
        raise HandlerError(f"{path}.multiSelect: must be true or false")
    return Page(
        _string(f"{path}.question", value.get("question"), TEXT_LIMIT),
        _string(f"{path}.header", value.get("header", ""), LABEL_LIMIT, is_required=False),
        _options(f"{path}.options", options),
        is_multi_select,
    )


def _options(path: str, values: list[Any]) -> tuple[Option, ...]:
    options = tuple(_option(f"{path}[{index}]", each) for index, each in enumerate(values))
    labels = [option.label for option in options]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise HandlerError(f"{path}[{index}]: two options are called {label!r}")
    return options


def _option(path: str, value: Any) -> Option:
    if isinstance(value, str):
        return Option(_string(path, value, LABEL_LIMIT))
    if not isinstance(value, dict):
        raise HandlerError(f"{path}: must be a string or an object with label and description")
    return Option(
        _string(f"{path}.label", value.get("label"), LABEL_LIMIT),
        _string(f"{path}.description", value.get("description", ""), TEXT_LIMIT, is_required=False),
    )


def _string(path: str, value: Any, limit: int, *, is_required: bool = True) -> str:
    if not isinstance(value, str) or (is_required and not value.strip()):
        raise HandlerError(f"{path}: must be {'a text' if is_required else 'a text, if given'}")
    if len(value) > limit:
        raise HandlerError(f"{path}: has {len(value)} characters; at most {limit} are allowed")
    return value.strip()


def _check_count(path: str, values: list[Any], limits: tuple[int, int], noun: str) -> None:
    minimum, maximum = limits
    if not minimum <= len(values) <= maximum:
        raise HandlerError(f"{path}: has {len(values)} {noun}; {minimum} to {maximum} are allowed")
