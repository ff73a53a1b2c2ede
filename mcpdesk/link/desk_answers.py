"""What servers may ask of the desk: forms, links and messages go to the person, roots are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mcpdesk.errors import HandlerError, ProtocolError
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Page, Question, QuestionState
from mcpdesk.link import desk_forms, desk_sampling
from mcpdesk.protocol import client_features
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.server.offer.server import Server

REFUSED = -1
"""The code of a refused sampling request. Source: WIRE 2.3."""

Roots = Callable[[], Sequence[JSONObject]]
"""The desk's roots, as `roots/list` has them."""


def folder_roots(folders: Iterable[Path]) -> list[JSONObject]:
    """Folders as roots."""
    return [{"uri": folder.absolute().as_uri(), "name": folder.name} for folder in folders]


class DeskAnswers:
    """Answers the questions of one server. Runs on the core's loop."""

    def __init__(self, server: Server, inbox: Inbox, roots: Roots) -> None:
        self._server = server
        self._inbox = inbox
        self._roots = roots

    @property
    def capabilities(self) -> JSONObject:
        """What the desk declares; without a screen there is nobody to ask."""
        if not self._inbox.audience:
            return client_features.ROOTS
        modes = client_features.FORM["elicitation"] | client_features.URL["elicitation"]
        return {"elicitation": modes} | client_features.SAMPLING | client_features.ROOTS

    async def answer(self, method: str, params: JSONObject, asker: str) -> JSONObject:
        """The result. `asker` names what is running on the server.

        Raises: ProtocolError for what is refused or was not declared.
        """
        if method == "ping":
            return {}
        if method == "roots/list":
            return {"roots": list(self._roots())}
        if method == "elicitation/create":
            pages = desk_forms.pages_of(params)
            return desk_forms.result_of(params, await self._ask(pages, asker, may_cancel=True))
        if method == "sampling/createMessage":
            return await self._sample(params, asker)
        raise ProtocolError(ErrorCode.METHOD_NOT_FOUND, f"The desk does not answer {method[:80]}")

    async def _sample(self, params: JSONObject, asker: str) -> JSONObject:
        question = await self._ask((desk_sampling.page_of(params),), asker)
        if question.state is QuestionState.ANSWERED:
            return desk_sampling.result_of(question.answers[0])
        because = f": {question.reason}" if question.reason else ""
        raise ProtocolError(REFUSED, f"The request for a message was {question.state} at the desk{because}")

    async def _ask(self, pages: tuple[Page, ...], asker: str, may_cancel: bool = False) -> Question:
        """Raises: ProtocolError when too many questions wait already."""
        try:
            number, future = self._inbox.ask(
                server=self._server.name,
                peer="desk",
                tool=asker,
                pages=pages,
                timeout_s=self._server.limits.question_timeout_s,
                may_cancel=may_cancel,
            )
        except HandlerError as error:
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, error.message) from None
        try:
            return await future
        finally:
            self._inbox.withdraw(number, "the call was cancelled")
