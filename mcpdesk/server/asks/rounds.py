"""Operations with several rounds, in stateless revisions.

A round is one request of the client. If the result of the request asks for input, the client sends the
answers with its next request. Between rounds the coroutine of the handler is suspended (parked), so that the
handler runs only once. If the coroutine no longer exists, for example after a restart, the handler runs again
and reads the earlier answers from `requestState`. A request that repeats a round waits for that round or gets
its result (`answered_rounds.py`).

Source: MCP basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from mcpdesk.errors import ClientError, MissingCapability, ProtocolError, StorageError
from mcpdesk.protocol import client_questions, codec
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.marked_ids import marked
from mcpdesk.protocol.methods import CALLS
from mcpdesk.protocol.outlet import NULL_OUTLET, Outlet
from mcpdesk.protocol.request_state import RequestState, binding, digest, seal, unseal
from mcpdesk.server.asks.answered_rounds import OPERATION_ENDED, AnsweredRound, AnsweredRounds
from mcpdesk.server.asks.client_requests import answer_timeout
from mcpdesk.server.calls.deadlines import Deadlines
from mcpdesk.server.calls.running_call import Call

if TYPE_CHECKING:
    from mcpdesk.server.asks.question_wording import ClientQuestion
    from mcpdesk.server.asks.round_claims import RoundClaims

_log = logging.getLogger(__name__)
T = TypeVar("T")
Work = Callable[[Call], Awaitable[JSONObject]]
Confirm = Callable[[JSONObject], Awaitable[JSONObject]]

ROUND_ELSEWHERE = "Another machine runs this round: repeat the request over HTTP, to have it forwarded"
ROUND_LOST = "The machine that ran this round has stopped: its handler may or may not have finished"
MAX_PARKED_ROUNDS = 1_000
MAX_PARKED_BYTES = 64 << 20
"""Maximum size in bytes of client data in parked operations. The handler of a dropped operation runs again
when the client returns.
"""
STATE_TTL_S = 3600.0
"""Seconds within which a client must return with answers."""
GATHERING_TURNS = 3
"""Questions that a handler asks within this number of loop turns are sent to the client together."""
SECRET_BYTES = 32


class Follower(NamedTuple):
    """Functions that are called while an operation continues without a request."""

    on_questions: Callable[[], None]
    """Called when the set of pending questions has changed."""
    on_message: Callable[[str], None]
    """Called with each message of the handler."""
    on_end: Callable[[asyncio.Task[JSONObject]], None]
    """Called when the handler has ended."""


class _Pending(Struct, frozen=True):
    """Question that is not answered yet."""

    question: ClientQuestion[Any]
    answer: asyncio.Future[Any]


class RoundOperation:
    """Operation of one or more rounds: the task of its handler, its questions, and the answers so far.

    The handler always sees the same `call`, although the requests of the client change. An operation can also
    become an MCP task, which continues without a request.
    """

    def __init__(
        self, first_request: Call, state: RequestState, deadlines: Deadlines, mark: str = ""
    ) -> None:
        """`mark` identifies the process that parks the operation."""
        self.id = marked(os.urandom(8).hex(), mark)
        self.call = Call(
            first_request.id, first_request.method, first_request.params, first_request.terms, NULL_OUTLET
        )
        self.call.round = self
        self.timer: asyncio.TimerHandle | None = None
        self.size = 0
        self.server = ""
        self.on_task: Callable[[], None] | None = None
        """Function that turns the operation into an MCP task, or None if the operation cannot become one."""
        self.message_meta: JSONObject | None = None
        """`_meta` of every message of an MCP task. None if the operation is not one or sends no messages."""
        self._follower: Follower | None = None
        self._detached_body: JSONObject | None = None
        """Result with which the request was answered when the operation became an MCP task. None before."""
        self._deadlines = deadlines
        self._request_answers: dict[str, Any] = {}
        """Answers that no question has used yet, from the request and its `requestState`."""
        self._answers: dict[str, Any] = dict(state.answers)
        """Accepted answers, by key. The next `requestState` contains them.

        If the handler runs again, these are at first the answers of the `requestState` that the client sent.
        """
        self._question_digests = dict(state.questions)
        self._pending: dict[str, _Pending] = {}
        self._answer_problems: dict[str, str] = {}
        """Reasons why the last answers to pending questions were not accepted."""
        self._key_counts: Counter[str] = Counter()
        self._wake_up = asyncio.Event()
        self._handler_task: asyncio.Task[JSONObject] | None = None
        self._is_abandoned = False
        self._request = first_request
        """Request that the operation serves at present."""

    async def ask(self, question: ClientQuestion[T], limit_s: float, key: str | None = None) -> T:
        """Return the answer of the client, from this request or a later one.

        `key` names the question. The default key is the kind of the question and a number. Raises:
        MissingCapability if the client lacks the needed capability; ClientTimeout if the client did not
        answer within `limit_s` seconds, in which case a later answer is ignored.
        """
        if self.call.stop:
            raise ClientError("The call has ended, so its client cannot be asked")
        question.check(self.call.terms)
        key = self._unused_key(key or question.kind, is_explicit=key is not None)
        question_digest = digest([question.method, question.params])
        if self._question_digests.get(key, question_digest) != question_digest:
            # The earlier answer with this key is for a different question.
            self._request_answers.pop(key, None)
            self._answers.pop(key, None)
        self._question_digests[key] = question_digest
        loop = asyncio.get_running_loop()
        pending = _Pending(question, loop.create_future())
        self._pending[key] = pending
        self._answer_from_request(key)
        self._wake_up.set()
        self._notify_follower()
        timer = loop.call_later(limit_s, self.resolve, key, answer_timeout(question.method, limit_s))
        try:
            with self._deadlines.paused(self.call, is_client=True):
                answer: T = await pending.answer
                return answer
        finally:
            timer.cancel()
            self._pending.pop(key, None)
            self._answer_problems.pop(key, None)
            self._notify_follower()

    @property
    def is_task(self) -> bool:
        """True if the request was answered with an MCP task."""
        return self._detached_body is not None

    def become_task(self) -> bool:
        """Continue as an MCP task if possible. Return True if the operation is now one."""
        if self._detached_body is None and self.on_task is not None:
            self.on_task()
        return self._detached_body is not None

    def detach(
        self, body: JSONObject, follower: Follower, outlet: Outlet, message_meta: JSONObject | None
    ) -> None:
        """Answer the request with `body`, and continue without a request.

        From now on, messages of the handler are sent to `outlet`.
        """
        self._detached_body, self._follower, self.message_meta = body, follower, message_meta
        self.call.outlet = outlet
        self._wake_up.set()

    def report(self, message: str) -> None:
        """Pass a message of the handler to the follower."""
        if self._follower is not None:
            self._follower.on_message(message)

    def questions(self) -> dict[str, ClientQuestion[Any]]:
        """Pending questions, by key."""
        return {key: each.question for key, each in self._pending.items() if not each.answer.done()}

    def requests(self) -> JSONObject:
        """Pending questions in protocol format, by key."""
        return {
            key: _request(question, self._answer_problems.get(key, ""))
            for key, question in self.questions().items()
        }

    def accept(self, answers: dict[str, Any]) -> None:
        """Accept answers to pending questions. Other answers are ignored.

        Raises: ValueError for the first invalid answer; no answer is accepted then.
        """
        valid_answers = {}
        for key, question in self.questions().items():
            if key in answers:
                try:
                    valid_answers[key] = question.read(answers[key])
                except ValueError as error:
                    raise ValueError(f"{key}: {error}") from None
        for key, answer in valid_answers.items():
            self.resolve(key, answer)

    def resolve(self, key: str, answer: Any) -> None:
        """Set the answer to the question with this key, or its error. Ignored if the question is no longer
        pending.
        """
        pending = self._pending.get(key)
        if pending is None or pending.answer.done():
            return
        if isinstance(answer, ClientError):
            pending.answer.set_exception(answer)
        else:
            pending.answer.set_result(answer)

    async def run_or_resume(self, request: Call, answers: dict[str, Any], work: Work) -> JSONObject | None:
        """Run or resume the operation for a request.

        Return its result, or None if the client has questions to answer. If the operation continues without
        the request, return the `body` that was given to `detach`. Raises: exceptions of the handler;
        CancelledError if the request was ended, which also ends the handler.
        """
        # Drop answers of an earlier request that belong to no question.
        self._request_answers = self._answers | answers
        self._serve(request)
        if self._handler_task is None:
            self._handler_task = asyncio.create_task(self._run(work))
            self._handler_task.add_done_callback(self._on_handler_end)
        task = self._handler_task
        try:
            while not task.done() and self._detached_body is None:
                if self._pending and await self._waits_for_client(task):
                    self.call.outlet = NULL_OUTLET
                    self._copy_outcome(request)
                    return None
                await self._wake_up.wait()
                self._wake_up.clear()
        except asyncio.CancelledError:
            await self._end_and_wait(self._request.stop or "cancelled")
            raise
        self._copy_outcome(request)
        return task.result() if self._detached_body is None else self._detached_body

    def report_through(self, request: Call) -> None:
        """Send reports of the handler to another request of the same round, because the first request was
        cancelled.

        No effect after the operation has become an MCP task, which reports to its follower.
        """
        if self._detached_body is None:
            self._serve(request)

    def input_required(self, state_binding: str, secret: bytes) -> JSONObject:
        """Return the result that asks the client for input."""
        expires = time.time() + STATE_TTL_S
        state = RequestState(self.id, state_binding, expires, self._answers, self._question_digests)
        return {
            "resultType": "input_required",
            "inputRequests": self.requests(),
            "requestState": seal(state, secret),
        }

    def client_data_bytes(self) -> int:
        """Return the approximate size in bytes of the client data that the operation keeps."""
        return len(codec.encode_part([self.call.params, self._request_answers, self._answers]))

    def end(self, reason: str) -> None:
        """End the handler. Its result is ignored."""
        self._is_abandoned = True
        self.call.end(reason)

    async def _run(self, work: Work) -> JSONObject:
        self.call.task = asyncio.current_task()
        try:
            return await work(self.call)
        finally:
            self.call.stop = self.call.stop or "finished"
            self.call.task = None

    def _copy_outcome(self, request: Call) -> None:
        """Copy the outcome and the times of the handler to the request that is answered now."""
        call = self.call
        request.outcome = call.outcome
        request.began = max(request.began, call.began)
        request.handled = call.handled
        request.waits = call.waits

    def _notify_follower(self) -> None:
        if self._follower is not None:
            self._follower.on_questions()

    def _on_handler_end(self, task: asyncio.Task[JSONObject]) -> None:
        """Report the end of the handler, and release what it references."""
        self._wake_up.set()
        if self._follower is not None:
            self._follower.on_end(task)
        if not task.cancelled():
            # Mark the exception as retrieved, because perhaps no request retrieves it.
            task.exception()
        # Free the operation and its data. The call and the task would keep them in memory.
        self.call.round = None
        if self._is_abandoned:
            self._handler_task = None

    def _serve(self, request: Call) -> None:
        """Serve this request: copy its id, outlet and caller to the call of the handler."""
        self._request, call = request, self.call
        call.id, call.outlet, call.terms = request.id, request.outlet, request.terms
        call.transport, call.peer, call.principal = request.transport, request.peer, request.principal
        call.connection, call.span = request.connection, request.span
        call.headers, call.opening_headers = request.headers, request.opening_headers
        call.requests = request.requests
        call.session_requests, call.environment = request.session_requests, request.environment
        call.progress_token, call.progress = request.progress_token, -inf
        if call.waits is not None:
            call.waits.restart()
        for key in list(self._pending):
            self._answer_from_request(key)

    def _answer_from_request(self, key: str) -> None:
        """Answer a pending question from the request. If the answer is invalid, the question is asked
        again.
        """
        pending = self._pending[key]
        if pending.answer.done():
            return
        try:
            pending.question.check(self.call.terms)
            if key not in self._request_answers:
                return
            answer = self._request_answers.pop(key)
            pending.answer.set_result(pending.question.read(answer))
        except MissingCapability as error:
            pending.answer.set_exception(error)
        except ValueError as error:
            self._answer_problems[key] = str(error)
            _log.warning(
                "%s: asking again after an invalid answer to %s: %s",
                self.server or self.call.method,
                key,
                error,
            )
        else:
            self._answers[key] = answer

    async def _waits_for_client(self, task: asyncio.Task[JSONObject]) -> bool:
        for _ in range(GATHERING_TURNS):
            await asyncio.sleep(0)
        return not task.done() and any(not each.answer.done() for each in self._pending.values())

    async def _end_and_wait(self, reason: str) -> None:
        self.end(reason)
        if self._handler_task is not None:
            await asyncio.wait({self._handler_task})

    def _unused_key(self, base: str, *, is_explicit: bool) -> str:
        """Return a key that no question has used before."""
        while True:
            self._key_counts[base] += 1
            number = self._key_counts[base]
            key = base if is_explicit and number == 1 else f"{base}-{number}"
            if key == base or key not in self._key_counts:
                self._key_counts.setdefault(key, 1)
                return key


class _RoundArguments(Struct, frozen=True):
    """Arguments of `Rounds.run` that all steps of a round use."""

    server: str
    state_binding: str
    """Digest of the server, caller, method and parameters for which a `requestState` is valid."""
    work: Work
    deadlines: Deadlines
    parked_s: float
    confirm: Confirm | None


class Rounds:
    """Parked operations of all servers of a core.

    `secrets` returns the keys for `requestState`: the first one signs, and all of them verify. `mark` is the
    id of this process, which every state contains. `claims` is None if no other process runs rounds.
    """

    def __init__(
        self,
        secrets: Callable[[], Sequence[bytes]] | None = None,
        mark: str = "",
        claims: RoundClaims | None = None,
    ) -> None:
        self._secrets = secrets or cache(lambda: [os.urandom(SECRET_BYTES)])
        self._mark = mark
        self._claims = claims
        self.answered_rounds = AnsweredRounds()
        self._parked: dict[str, RoundOperation] = {}
        self.size = 0
        """Size in bytes of the client data in parked operations."""

    def __len__(self) -> int:
        return len(self._parked)

    @property
    def parked(self) -> list[RoundOperation]:
        """Operations that wait for their client to return."""
        return list(self._parked.values())

    @staticmethod
    def may_need(call: Call) -> bool:
        """Return True if a request may need more than one round, or is a later round itself."""
        if not call.terms.revision.is_stateless or call.method not in CALLS:
            return False
        terms = call.terms
        return (
            call.is_later_round
            or client_questions.can_be_asked(terms)
            or ("extensions" in terms.capabilities and client_questions.declares_tasks(terms))
        )

    async def run(
        self,
        server: str,
        call: Call,
        work: Work,
        deadlines: Deadlines,
        parked_s: float,
        confirm: Confirm | None = None,
    ) -> JSONObject:
        """Return the result of this round.

        If the handler has open questions, the operation is parked for at most `parked_s` seconds. `confirm`
        waits until a new MCP task in the result is stored, and returns the result. It is None if the result
        cannot contain a task. A request that repeats an earlier request waits for the earlier one, or gets
        the same result. Raises: RemoteProtocolError (-32602) for invalid answers or an invalid state;
        exceptions of the handler and of `confirm`.
        """
        answers = call.params.get("inputResponses", {})
        if not isinstance(answers, dict):
            raise invalid_params("inputResponses must be an object")
        state_binding = binding(server, call.method, call.params, call.principal.identity)
        arguments = _RoundArguments(server, state_binding, work, deadlines, parked_s, confirm)
        if "requestState" not in call.params:
            operation = RoundOperation(call, RequestState("", state_binding, 0.0), deadlines, self._mark)
            return await self._continue(operation, call, answers, arguments)
        token = call.params["requestState"]
        state = unseal(token, self._secrets(), state_binding, time.time())
        # These keys belong to one caller, because the binding includes its identity.
        round_key = digest([state_binding, token])
        operation_key = digest([state_binding, state.round])
        answers_digest = digest(answers)
        answered_round = self.answered_rounds.find(round_key, answers_digest, operation_key)
        while answered_round is not None and answered_round.is_abandoned:
            await answered_round.wait_for_end()
            answered_round = self.answered_rounds.find(round_key, answers_digest, operation_key)
        if answered_round is None:
            answered_round = AnsweredRound(answers_digest, state.expires)
            self.answered_rounds.begin(round_key, answered_round)
            answered_round.start(
                self._run_new_round(answered_round, state, call, answers, arguments),
                lambda ended, is_kept: self.answered_rounds.end(
                    round_key, operation_key, ended, is_kept=is_kept
                ),
            )
        return await answered_round.result(call)

    async def _run_new_round(
        self,
        answered_round: AnsweredRound,
        state: RequestState,
        call: Call,
        answers: dict[str, Any],
        arguments: _RoundArguments,
    ) -> JSONObject:
        """Run a round that was not answered before.

        Raises: StorageError if the claims of other processes cannot be read; otherwise as `run`.
        """
        claim_name = await self._claim(state, str(call.params["requestState"]))
        try:
            operation = self._remove(state.round)
            if operation is None:
                operation = RoundOperation(call, state, arguments.deadlines, self._mark)
            answered_round.handler_call = operation.call
            answered_round.report_through = operation.report_through
            waiting_call = answered_round.first_waiting_call(call)
            body = await self._continue(operation, waiting_call, answers, arguments)
        except (asyncio.CancelledError, MissingCapability, StorageError):
            if claim_name and self._claims is not None:
                with suppress(StorageError):
                    await self._claims.release(claim_name)
            raise
        answered_round.asks_again = body.get("resultType") == "input_required"
        if claim_name and self._claims is not None:
            with suppress(StorageError):  # if this fails, the claim stays until the state expires
                if answered_round.asks_again:
                    await self._claims.ask(claim_name)  # record that the handler waits for the client
                else:
                    await self._claims.end(claim_name)
        return body

    async def _claim(self, state: RequestState, token: str) -> str:
        """Claim a round, and return the name of the claim, or "" if no other process runs rounds.

        A parked operation also needs a claim, because another process may run the round while this process
        cannot reach the store. Raises: RemoteProtocolError (-32602) if the operation has ended; ProtocolError
        if the process that ran the round has ended; StorageError if another process runs the round, or if
        this is unknown.
        """
        if self._claims is None:
            return ""
        claim_name = digest(token)
        refusal = await self._claims.claim(claim_name, state.expires - time.time())
        if refusal == "ended":
            raise invalid_params(OPERATION_ENDED)
        if refusal == "lost":
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, ROUND_LOST)
        if refusal:
            raise StorageError(ROUND_ELSEWHERE)
        return claim_name

    async def _continue(
        self, operation: RoundOperation, call: Call, answers: dict[str, Any], arguments: _RoundArguments
    ) -> JSONObject:
        body = await operation.run_or_resume(call, answers, arguments.work)
        if body is None:
            operation.server = arguments.server
            self._park(operation, arguments.parked_s)
            return operation.input_required(arguments.state_binding, self._secrets()[0])
        return body if arguments.confirm is None else await arguments.confirm(body)

    @staticmethod
    async def run_detached(call: Call, work: Work, deadlines: Deadlines) -> JSONObject:
        """Run an operation that continues without its request. Return the `body` given to `detach`.

        Raises: exceptions of the handler.
        """
        body = await RoundOperation(call, RequestState("", "", 0.0), deadlines).run_or_resume(call, {}, work)
        assert body is not None
        return body

    def close(self) -> None:
        """End all parked operations."""
        self.answered_rounds.close()
        for operation_id in list(self._parked):
            self._drop(operation_id, "the core stops")

    def _remove(self, operation_id: str) -> RoundOperation | None:
        operation = self._parked.pop(operation_id, None)
        if operation is not None and operation.timer is not None:
            operation.timer.cancel()
            self.size -= operation.size
        return operation

    def _park(self, operation: RoundOperation, parked_s: float) -> None:
        operation.size = operation.client_data_bytes()
        self.size += operation.size
        while self._parked and (len(self._parked) >= MAX_PARKED_ROUNDS or self.size > MAX_PARKED_BYTES):
            self._drop(next(iter(self._parked)), "too many operations wait for their client")
        loop = asyncio.get_running_loop()
        operation.timer = loop.call_later(parked_s, self._drop, operation.id, "the client did not come back")
        self._parked[operation.id] = operation

    def _drop(self, operation_id: str, reason: str) -> None:
        operation = self._remove(operation_id)
        if operation is not None:
            operation.end(reason)


def _request(question: ClientQuestion[Any], problem: str) -> JSONObject:
    """Return a question in protocol format. If the question is asked again, its message ends with the
    reason.
    """
    params = question.params
    if problem and isinstance(params.get("message"), str):
        params = params | {"message": f"{params['message']}\n\nThe last answer was not accepted: {problem}"}
    request: JSONObject = {"method": question.method}
    return request | {"params": params} if params else request
