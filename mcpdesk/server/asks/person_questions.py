"""Questions to a person. They are shown at the desk, or by the client as a form, while the call waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from mcpdesk.errors import ClientError, ClientTimeout, HandlerError
from mcpdesk.inbox.question import WAITING_TEXTS, Answer, Page, Question, QuestionKind, QuestionState
from mcpdesk.protocol.client_questions import FORM
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcpdesk.server.asks.question_wording import Elicited
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.calls.services import Services
    from mcpdesk.server.offer.server import Server
    from mcpdesk.server.state.server_state import ToolOptions

KEEP_ALIVE_S = 5.0
"""Seconds between two keep-alive messages to a client whose call waits for a person."""
PROGRESS_STEP = 1e-6
DECIDED_STATES = frozenset({QuestionState.ANSWERED, QuestionState.DECLINED})

ClientTask = asyncio.Task[Question]
"""Task that asks the same question through the client at the same time."""
FORM_STATES = {
    "accept": QuestionState.ANSWERED,
    "decline": QuestionState.DECLINED,
    "cancel": QuestionState.CANCELLED,
}
CLOSED_REASON = "the form was closed"


class Asker(Protocol):
    """Members of a handler's context that questions use."""

    server: Server
    tool: str

    @property
    def peer(self) -> str:
        """Display name of the caller."""

    @property
    def folder(self) -> Path | None:
        """Server folder, or None."""

    @property
    def options(self) -> ToolOptions:
        """Settings for tools."""

    @property
    def is_desk(self) -> bool:
        """True if the desk itself is the caller."""

    @property
    def audience(self) -> int:
        """Number of front ends that could answer now."""

    def offers(self, needed: Mapping[str, Any]) -> bool:
        """Return True if the client has the capability `needed`."""

    async def ask_desk(self, pages: Sequence[Page], client_task: ClientTask | None = None) -> Question:
        """Ask the person at the desk."""

    def show_ended_question(self, question: Question) -> None:
        """Show a question at the desk that was asked through the client and has ended."""

    async def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None
    ) -> Elicited[dict[str, Any]]:
        """Ask the client to show its user a form."""

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Report progress to the caller."""


async def ask_in_order(pages: Sequence[Page], context: Asker) -> Question:
    """Ask the person through the client or at the desk, in the order of the setting `ask_order`.

    Return the question with the answers. Raises: HandlerError if no person can be asked, or if only the
    client could be asked and it refuses.
    """
    pages = tuple(pages)
    order = context.options.ask_order
    has_desk = context.audience > 0
    # If the desk is the client, asking the client would ask the same person.
    has_client = not context.is_desk and context.offers(FORM)
    if has_desk and has_client and order == "both":
        return await _ask_both(pages, context)
    if has_client and (order == "client-first" or not has_desk):
        try:
            return await _ask_only_client(pages, context)
        except ClientError:
            if not has_desk:
                raise
    if has_desk:
        return await context.ask_desk(pages)
    target = context.folder or "FOLDER"
    raise HandlerError(
        f"No person can answer: no desk is open. Run `mcpdesk {target}` in a terminal, or sign in on the "
        "dashboard of a running one, then ask again. A client with elicitation can also answer."
    )


async def _ask_only_client(pages: tuple[Page, ...], context: Asker) -> Question:
    question = await ask_client(pages, context)
    context.show_ended_question(question)
    return question


async def _ask_both(pages: tuple[Page, ...], context: Asker) -> Question:
    """Ask at the desk and through the client at the same time. The first answer counts."""
    client_task = asyncio.create_task(ask_client(pages, context))
    try:
        # In a later round, the request may already contain the client's answer. Then the desk is not asked.
        await asyncio.sleep(0)
        if client_task.done() and client_task.exception() is None:
            return client_task.result()
        return await context.ask_desk(pages, client_task=client_task)
    finally:
        client_task.cancel()
        await asyncio.gather(client_task, return_exceptions=True)


class DeskQuestion:
    """One question in the inbox, while its caller waits. `number` is its number in the inbox."""

    def __init__(
        self, context: Asker, call: Call, services: Services, pages: Sequence[Page], kind: QuestionKind
    ) -> None:
        """Raises: HandlerError if too many questions are waiting."""
        self._context, self._call, self._services, self._kind = context, call, services, kind
        self.number, self._future = services.inbox.ask(
            server=context.server.name,
            peer=call.peer,
            connection=call.lasting_connection,
            tool=context.tool,
            pages=pages,
            timeout_s=context.server.limits.question_timeout_s,
            kind=kind,
        )

    async def answer(self, client_task: ClientTask | None = None) -> Question:
        """Wait for the answer, and return the question.

        `client_task` is the same question at the client. An answer of the client also ends the wait. The wait
        does not count against the tool's time limit. If the call ends, the question is withdrawn.
        """
        call = self._call
        call.asks_person += 1
        context, services = self._context, self._services
        try:
            with (
                services.deadlines.paused(call),
                services.question_span(call, self._kind, context.server.name, context.tool) as span,
            ):
                question = await self._first_answer(client_task)
                span.outcome, span.has_failed = question.word, question.state not in DECIDED_STATES
                return question
        finally:
            call.asks_person -= 1
            self._services.inbox.withdraw(self.number, call.stop or "the call ended")

    async def _first_answer(self, client_task: ClientTask | None) -> Question:
        """Wait for the answer of the desk or the client, and send keep-alive messages and progress."""
        call, start = self._call, time.monotonic()
        while not self._future.done():
            if client_task is not None and client_task.done():
                finished_task, client_task = client_task, None
                has_result = not finished_task.cancelled() and finished_task.exception() is None
                if has_result and finished_task.result().state in DECIDED_STATES:
                    client_question = finished_task.result()
                    self._services.inbox.withdraw(self.number, f"{client_question.state} by the client")
                    return client_question
            call.outlet.keep_alive()
            waited_s = time.monotonic() - start
            waiting_text = WAITING_TEXTS[self._kind] + (f", {waited_s:.0f} s" if waited_s >= 1 else "")
            # These steps are so small that they do not disturb the progress that the handler reports.
            handler_progress = max(call.progress, 0.0)
            await self._context.progress(handler_progress + PROGRESS_STEP, message=waiting_text)
            tasks = {self._future} if client_task is None else {self._future, client_task}
            await asyncio.wait(tasks, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
        return self._future.result()


async def ask_client(pages: tuple[Page, ...], context: Asker) -> Question:
    """Ask the person through the client. Return a question with answers, as the inbox does.

    Raises: ClientError if the client cannot be asked or refuses.
    """
    limit_s = context.server.limits.question_timeout_s
    asked_at = time.time()
    question = Question(
        0, context.server.name, context.peer, context.tool, pages, asked_at, asked_at + limit_s
    )
    try:
        elicited = await context.elicit(_message(pages), form_of(pages))
    except ClientTimeout:
        return replace(question, state=QuestionState.TIMED_OUT, ended=time.time())
    return replace(
        question,
        state=FORM_STATES[elicited.action],
        answers=answers_of(pages, elicited),
        reason=CLOSED_REASON if elicited.action == "cancel" else "",
        answered_by="the client",
        ended=time.time(),
    )


def form_of(pages: tuple[Page, ...]) -> JSONObject:
    """Return the schema of a flat form for the pages.

    Each page becomes one choice field, or one checkbox per option if several may be chosen. A text field
    allows an answer in the person's own words.
    """
    fields: JSONObject = {}
    for number, page in enumerate(pages, 1):
        if page.options:
            fields |= _checkboxes(number, page) if page.multi_select else _choice(number, page)
        if page.own_words or not page.options:
            fields[_own_words_field(number)] = {"type": "string", "title": f"{_title(page)}: in own words"}
    return {"type": "object", "properties": fields}


def answers_of(pages: tuple[Page, ...], elicited: Elicited[dict[str, Any]]) -> tuple[Answer, ...]:
    """Return one answer for each page, or an empty tuple if the form was not accepted."""
    if not elicited.accepted:
        return ()
    form_values = elicited.content
    return tuple(
        Answer(
            _selected_labels(number, page, form_values), form_values.get(_own_words_field(number), "").strip()
        )
        for number, page in enumerate(pages, 1)
    )


def _selected_labels(number: int, page: Page, form_values: dict[str, Any]) -> tuple[str, ...]:
    if not page.multi_select:
        label = form_values.get(_choice_field(number))
        return (label,) if label else ()
    selected_labels = (
        option.label
        for index, option in enumerate(page.options, 1)
        if form_values.get(_checkbox_field(number, index))
    )
    return tuple(selected_labels)


def _choice(number: int, page: Page) -> JSONObject:
    choices = [
        {"const": option.label, "title": _option_title(option.label, option.description)}
        for option in page.options
    ]
    return {
        _choice_field(number): {
            "type": "string",
            "title": _title(page),
            "description": page.question,
            "oneOf": choices,
        }
    }


def _checkboxes(number: int, page: Page) -> JSONObject:
    return {
        _checkbox_field(number, index): {
            "type": "boolean",
            "title": _option_title(option.label, option.description),
            "description": page.question,
        }
        for index, option in enumerate(page.options, 1)
    }


def _message(pages: tuple[Page, ...]) -> str:
    return "\n".join(line for page in pages for line in (page.question, page.detail) if line)


def _title(page: Page) -> str:
    return page.header or page.question


def _option_title(label: str, description: str) -> str:
    return f"{label}: {description}" if description else label


def _choice_field(number: int) -> str:
    return f"answer_{number}"


def _checkbox_field(number: int, index: int) -> str:
    return f"answer_{number}_{index}"


def _own_words_field(number: int) -> str:
    return f"answer_{number}_other"
