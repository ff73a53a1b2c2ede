"""Questions for a person as one form that the calling client shows its user."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mcpdesk.errors import ClientTimeout
from mcpdesk.inbox.question import Answer, Page, Question, QuestionState
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcpdesk.server.asked import Elicited
    from mcpdesk.server.context import Context

STATES = {
    "accept": QuestionState.ANSWERED,
    "decline": QuestionState.DECLINED,
    "cancel": QuestionState.CANCELLED,
}
CLOSED = "the form was closed"


async def ask_client(pages: tuple[Page, ...], context: Context) -> Question:
    """Ask, and return the set as the inbox would, in its final state.

    Raises: ClientError when the client cannot be asked or refuses.
    """
    limit_s = context.server.limits.question_timeout_s
    asked = time.time()
    question = Question(0, context.server.name, context.peer, context.tool, pages, asked, asked + limit_s)
    try:
        elicited = await context.elicit(_message(pages), form_of(pages))
    except ClientTimeout:
        return replace(question, state=QuestionState.TIMED_OUT, ended=time.time())
    return replace(
        question,
        state=STATES[elicited.action],
        answers=answers_of(pages, elicited),
        reason=CLOSED if elicited.action == "cancel" else "",
        answered_by="the client",
        ended=time.time(),
    )


def form_of(pages: tuple[Page, ...]) -> JSONObject:
    """A flat schema: a choice a page, or a box an option where several may be chosen, and own words."""
    fields: JSONObject = {}
    for number, page in enumerate(pages, 1):
        if page.options:
            fields |= _boxes(number, page) if page.multi_select else _choice(number, page)
        if page.own_words or not page.options:
            fields[_other(number)] = {"type": "string", "title": f"{_title(page)}: in own words"}
    return {"type": "object", "properties": fields}


def answers_of(pages: tuple[Page, ...], elicited: Elicited) -> tuple[Answer, ...]:
    """One answer a page; none unless the form was filled."""
    if not elicited.accepted:
        return ()
    filled: dict[str, Any] = elicited.content
    return tuple(
        Answer(_selected(number, page, filled), filled.get(_other(number), "").strip())
        for number, page in enumerate(pages, 1)
    )


def _selected(number: int, page: Page, filled: dict[str, Any]) -> tuple[str, ...]:
    if not page.multi_select:
        chosen = filled.get(_field(number))
        return (chosen,) if chosen else ()
    ticked = (option.label for place, option in enumerate(page.options, 1) if filled.get(_box(number, place)))
    return tuple(ticked)


def _choice(number: int, page: Page) -> JSONObject:
    choices = [
        {"const": option.label, "title": _described(option.label, option.description)}
        for option in page.options
    ]
    return {
        _field(number): {
            "type": "string",
            "title": _title(page),
            "description": page.question,
            "oneOf": choices,
        }
    }


def _boxes(number: int, page: Page) -> JSONObject:
    return {
        _box(number, place): {
            "type": "boolean",
            "title": _described(option.label, option.description),
            "description": page.question,
        }
        for place, option in enumerate(page.options, 1)
    }


def _message(pages: tuple[Page, ...]) -> str:
    return "\n".join(line for page in pages for line in (page.question, page.detail) if line)


def _title(page: Page) -> str:
    return page.header or page.question


def _described(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label


def _field(number: int) -> str:
    return f"answer_{number}"


def _box(number: int, place: int) -> str:
    return f"answer_{number}_{place}"


def _other(number: int) -> str:
    return f"answer_{number}_other"
