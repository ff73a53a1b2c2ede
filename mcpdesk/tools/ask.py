"""AskUserQuestion: questions for the person at the desk, answered as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.protocol import content
from mcpdesk.server.authoring import tool
from mcpdesk.server.context import Context
from mcpdesk.server.tool import ToolResult
from mcpdesk.tools.ask_pages import pages_from

Status = Literal["answered", "declined", "timed_out", "withdrawn"]
STATUS: dict[QuestionState, Status] = {
    QuestionState.ANSWERED: "answered",
    QuestionState.DECLINED: "declined",
    QuestionState.CANCELLED: "declined",
    QuestionState.TIMED_OUT: "timed_out",
    QuestionState.WITHDRAWN: "withdrawn",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and its answer.

    Attributes:
        selected: Chosen labels
        other: What the person wrote; empty if nothing
    """

    question: str
    header: str
    selected: tuple[str, ...]
    other: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of the questions.

    Attributes:
        reason: Why there is no answer, if that was said
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
    """Ask interactive multiple-choice questions via TUI. The person at the desk answers, also in own words,
    or declines; waits until then. questions_json: a list of 1 to 8 {question, header?, options,
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
    body = Answers(STATUS[question.state], question.reason, answers)
    no_answer = question.state in (QuestionState.TIMED_OUT, QuestionState.WITHDRAWN)
    return ToolResult((content.text(_text(question, pairs)),), body, is_error=no_answer)


def _text(question: Question, pairs: list[tuple[Page, Answer]]) -> str:
    waited_s = round(question.deadline - question.asked)
    because = f": {question.reason}" if question.reason else ""
    said = {
        QuestionState.DECLINED: f"The person declined to answer{because}.",
        QuestionState.CANCELLED: f"The person declined to answer{because}.",
        QuestionState.TIMED_OUT: f"Nobody answered within {waited_s} s.",
        QuestionState.WITHDRAWN: f"The question was withdrawn before anybody answered{because}.",
    }
    return said.get(question.state) or "\n".join(_line(page, answer) for page, answer in pairs)


def _line(page: Page, answer: Answer) -> str:
    chosen = [*answer.selected, *([f"(own words) {answer.other}"] if answer.other else [])]
    # A form of the client's may be sent off with nothing in it.
    return f"{page.question}\n-> {', '.join(chosen) or '(no answer)'}"
