"""AskUserQuestion: questions for the person at the desk, answered as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpdesk.errors import HandlerError
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.protocol import content
from mcpdesk.protocol.client_features import FORM
from mcpdesk.server.tool import Tool, ToolResult
from mcpdesk.tools import Home
from mcpdesk.tools.ask_client import ask_client
from mcpdesk.tools.ask_pages import pages_from

if TYPE_CHECKING:
    from mcpdesk.server.context import Context

DESCRIPTION = (
    "Ask interactive multiple-choice questions via TUI. The person at the desk answers, also in own words, "
    "or declines; waits until then. questions_json: a list of 1 to 8 {question, header?, options, "
    "multiSelect?}, where options are 2 to 9 strings or {label, description?}."
)
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "questions_json": {"type": "string", "description": "JSON string with questions and options"},
    },
    "required": ["questions_json"],
    "additionalProperties": False,
}
STATUS = {
    QuestionState.ANSWERED: "answered",
    QuestionState.DECLINED: "declined",
    QuestionState.TIMED_OUT: "timed_out",
    QuestionState.WITHDRAWN: "withdrawn",
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"enum": list(STATUS.values())},
        "reason": {"type": "string", "description": "Why there is no answer, if that was said"},
        "answers": {
            "type": "array",
            "description": "One per question when answered, else empty",
            "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string"},
                    "header": {"type": "string"},
                    "selected": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Chosen labels",
                    },
                    "other": {"type": "string", "description": "What the person wrote; empty if nothing"},
                },
                "required": ["question", "header", "selected", "other"],
            },
        },
    },
    "required": ["status", "reason", "answers"],
}


def make(home: Home) -> Tool:
    """The tool; it needs nothing of the folder."""
    return Tool(
        name="AskUserQuestion",
        title="Ask the person at the desk",
        description=DESCRIPTION,
        handler=ask_user_question,
        input_schema=INPUT_SCHEMA,
        output_schema=OUTPUT_SCHEMA,
        annotations={
            "title": "Ask the person at the desk",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
        source="built-in",
    )


async def ask_user_question(arguments: dict[str, Any], context: Context) -> ToolResult:
    """Ask the desk, or the client's user when no desk is open, and wait.

    Raises: HandlerError for unusable questions, and at once when nobody could answer.
    """
    pages = pages_from(arguments["questions_json"])
    if context.audience:
        return _result(await context.ask(pages))
    if context.offers(FORM):
        return _result(await ask_client(pages, context))
    raise HandlerError(_nobody(context))


def _nobody(context: Context) -> str:
    target = context.folder or "FOLDER"
    return f"Nobody can answer: no desk is open. Run `mcpdesk {target}` in a terminal, then ask again."


def _result(question: Question) -> ToolResult:
    pairs = list(zip(question.pages, question.answers, strict=False))
    structured = {
        "status": STATUS[question.state],
        "reason": question.reason,
        "answers": [
            {
                "question": page.question,
                "header": page.header,
                "selected": list(answer.selected),
                "other": answer.other,
            }
            for page, answer in pairs
        ],
    }
    no_answer = question.state in (QuestionState.TIMED_OUT, QuestionState.WITHDRAWN)
    return ToolResult((content.text(_text(question, pairs)),), structured, is_error=no_answer)


def _text(question: Question, pairs: list[tuple[Page, Answer]]) -> str:
    waited_s = round(question.deadline - question.asked)
    because = f": {question.reason}" if question.reason else ""
    said = {
        QuestionState.DECLINED: f"The person declined to answer{because}.",
        QuestionState.TIMED_OUT: f"Nobody answered within {waited_s} s.",
        QuestionState.WITHDRAWN: f"The question was withdrawn before anybody answered{because}.",
    }
    return said.get(question.state) or "\n".join(_line(page, answer) for page, answer in pairs)


def _line(page: Page, answer: Answer) -> str:
    chosen = [*answer.selected, *([f"(own words) {answer.other}"] if answer.other else [])]
    return f"{page.question}\n-> {', '.join(chosen)}"
