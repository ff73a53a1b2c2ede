"""Requests of a server to its client, in revisions with a handshake. Calls wait for the responses.

Source: MCP basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from mcpdesk.errors import ClientError, ClientTimeout
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.outlet import Outlet

if TYPE_CHECKING:
    from mcpdesk.server.asks.question_wording import ClientQuestion

T = TypeVar("T")
KEEP_ALIVE_S = 5.0
"""Seconds between two keep-alive messages while the client has not answered."""
NOT_NEEDED = "no longer needed"


class _PendingRequest(NamedTuple):
    call: object
    result: asyncio.Future[JSONObject]


class ClientRequests:
    """Requests to the client of one conversation, and their responses.

    The ids of requests cannot be guessed, and unexpected responses are ignored. `push` sends messages that
    belong to no request. `push` is None if the transport does not allow such messages.
    """

    def __init__(self, push: Callable[[bytes], None] | None = None) -> None:
        self.push = push
        self.pending_requests: dict[str, _PendingRequest] = {}
        """Pending requests, by id."""
        self._numbers = count(1)
        self._prefix = ""
        self.session_mark = ""
        """Id of a session that may continue after this conversation, or "" if no such session exists."""

    async def ask(
        self, call: object, outlet: Callable[[], Outlet], question: ClientQuestion[T], limit_s: float
    ) -> T:
        """Send a question on the stream of a call, and wait for the answer.

        `outlet` returns the current outlet of the call. Raises: ClientError if the client cannot be asked,
        refuses, or does not answer in time.
        """
        if not outlet().may_send:
            raise ClientError("The client accepts no stream, so it cannot be asked")
        identifier = self._identifier()
        result = asyncio.get_running_loop().create_future()
        self.pending_requests[identifier] = _PendingRequest(call, result)
        outlet().send(codec.request(identifier, question.method, question.params))
        try:
            await _wait_for_answer(question.method, outlet, result, limit_s)
        finally:
            self.pending_requests.pop(identifier, None)
            if not result.done():
                params: JSONObject = {"requestId": identifier, "reason": NOT_NEEDED}
                if "_meta" in question.params:  # names the task that the question belongs to
                    params["_meta"] = question.params["_meta"]
                outlet().send(codec.notification("notifications/cancelled", params))
        return _read_answer(question, result)

    def receive(self, response: JSONObject) -> None:
        """Handle a response. A response with an unknown id is ignored."""
        identifier = response.get("id")
        pending = self.pending_requests.get(identifier) if isinstance(identifier, str) else None
        if pending is not None and not pending.result.done():
            pending.result.set_result(response)

    @property
    def waiting_calls(self) -> list[object]:
        """Calls with pending questions. A call with several questions occurs several times."""
        return [each.call for each in list(self.pending_requests.values())]

    def forget(self, call: object) -> None:
        """Cancel the pending questions of a call that has ended."""
        for pending in list(self.pending_requests.values()):
            if pending.call is call:
                pending.result.cancel()

    @property
    def owner(self) -> str:
        """Owner of objects that only this conversation may use."""
        return f"session:{self.session_mark or self._ensure_prefix()}"

    @property
    def may_own(self) -> bool:
        """True if this conversation may own any object."""
        return bool(self._prefix or self.session_mark)

    @property
    def mark(self) -> str:
        """Unique id of this conversation, or "" until it is needed. The ids of its requests begin with it."""
        return self._prefix

    @mark.setter
    def mark(self, mark: str) -> None:
        self._prefix = mark

    def continue_numbering(self, mark: str, first_number: int) -> None:
        """Give the next requests the ids `<mark>-<number>`, with numbers from `first_number` upwards."""
        self._prefix, self._numbers = mark, count(first_number)

    def release_session(self) -> None:
        """Release the session, because the session continues in another conversation."""
        self._prefix = self.session_mark = ""

    def _identifier(self) -> str:
        return f"{self._ensure_prefix()}-{next(self._numbers)}"

    def _ensure_prefix(self) -> str:
        """Return the prefix of request ids. It is created at the first use."""
        import secrets

        self._prefix = self._prefix or secrets.token_hex(8)
        return self._prefix


def answer_timeout(method: str, limit_s: float) -> ClientTimeout:
    """Return the exception for a handler whose client did not answer in time."""
    return ClientTimeout(f"The client did not answer {method} within {limit_s:g} s")


async def _wait_for_answer(
    method: str, outlet: Callable[[], Outlet], result: asyncio.Future[Any], limit_s: float
) -> None:
    """Wait for a response, and send keep-alive messages. Raises: ClientTimeout."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not result.done():
        remaining_s = deadline - loop.time()
        if remaining_s <= 0:
            raise answer_timeout(method, limit_s)
        await asyncio.wait({result}, timeout=min(KEEP_ALIVE_S, remaining_s))
        if not result.done():
            outlet().keep_alive()


def _read_answer(question: ClientQuestion[T], result: asyncio.Future[JSONObject]) -> T:
    """Return the answer in a response. Raises: ClientError if the client refused or it is invalid."""
    response = result.result()
    error = response.get("error")
    if error is not None:
        raise _refusal(question, error)
    try:
        return question.read(response["result"])
    except ValueError as invalid:
        raise ClientError(
            f"The client answered {question.method} with an invalid result: {invalid}"
        ) from None


def _refusal(question: ClientQuestion[Any], error: Any) -> ClientError:
    error_object = error if isinstance(error, dict) else {}
    code, message = error_object.get("code"), error_object.get("message")
    reason = message[:500] if isinstance(message, str) else "no reason given"
    number = code if isinstance(code, int) else 0
    return ClientError(f"The client refused {question.method}: {reason} ({number})", number)
