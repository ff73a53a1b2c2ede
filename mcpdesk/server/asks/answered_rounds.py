"""Rounds that a client has answered, with their results.

If a server asks questions, the client sends its request again with the answers, perhaps several times. Each
of these requests is a round. All rounds of one call are an operation.

A client or a proxy repeats a request if it did not receive the response. The repeated request belongs to the
same round as the original one, and gets the same result. The handler does not run again.

Source: MCP basic/patterns/mrtr: "At-most-once use needs a server-side record".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import LocalProtocolError, MissingCapability, ProtocolError, StorageError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.server.calls.outcomes import described

if TYPE_CHECKING:
    from mcpdesk.server.calls.running_call import Call

MAX_ROUNDS = 10_000
"""Maximum number of answered rounds in memory; the oldest are dropped first."""
MAX_BYTES = 16 << 20
"""Maximum total size in bytes of stored results. The oldest results are dropped first; their rounds stay
stored.
"""
MAX_RESULT_BYTES = 1 << 20
"""Maximum size in bytes of one stored result. Larger results are not stored."""

OTHER_ANSWERS = "requestState was already used with other inputResponses"
OPERATION_ENDED = "requestState belongs to an operation that has ended"
RESULT_DROPPED = "This round has already run; its result is no longer stored"


class AnsweredRound:
    """One answered round.

    While it runs, it has the original and the repeated requests that wait for its result. Then it has the
    result.
    """

    def __init__(self, answers_digest: str, expires: float) -> None:
        """`answers_digest` is the digest of `inputResponses`. `expires` is the Unix time when the state
        expires.
        """
        self.answers_digest = answers_digest
        self.expires = expires
        self.handler_call: Call | None = None
        """Call of the handler, or None before the handler starts and after the round has a result."""
        self.report_through: Callable[[Call], None] = lambda call: None
        """Function that makes the handler report to another request of the round."""
        self.asks_again = False
        """True if the result contains more questions. The operation then continues."""
        self.size = 0
        """Size in bytes of the stored result."""
        self._task: asyncio.Task[JSONObject] | None = None
        self._calls: list[Call] = []
        """Original and repeated requests that wait for the result. The handler reports to the first one."""
        self._body: JSONObject | None = None
        self._error: tuple[int, str, Any] | None = None
        """Code, message and data of an error. The exception itself would keep the request in memory."""
        self._outcome = OutcomeKind.OK

    @property
    def is_running(self) -> bool:
        """True until the round has a result."""
        return self._task is not None

    @property
    def is_abandoned(self) -> bool:
        """True if all requests of the round were cancelled, so that the handler is about to end."""
        return self.is_running and bool(self._calls) and all(call.stop for call in self._calls)

    def start(
        self, work: Coroutine[Any, Any, JSONObject], on_end: Callable[[AnsweredRound, bool], None]
    ) -> None:
        """Run `work`. Then call `on_end` with this round and a flag, which is False if a repeated request
        must run the work again.
        """
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(lambda task: self._on_task_end(task, on_end))

    async def result(self, call: Call) -> JSONObject:
        """Wait for the result of the round. If the only request that waits is cancelled, cancel the round.

        Raises: the error of the round; ProtocolError if the result was dropped; CancelledError.
        """
        if self._task is None:
            call.outcome = self._outcome
            return self._stored_result()
        task, is_first = self._task, not self._calls
        self._calls.append(call)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if self._calls == [call]:
                task.cancel()
                await asyncio.wait({task})
            elif self._calls[0] is call and self.handler_call is not None and not task.done():
                others = self._calls[1:]
                self.report_through(next((each for each in others if not each.stop), others[0]))
            raise
        finally:
            self._calls.remove(call)
        if is_first or task.cancelled():
            return task.result()
        call.outcome = self._outcome
        error = task.exception()
        # Use the result of the task, because a large result is not stored.
        return task.result() if error is None else self._stored_result(error)

    def first_waiting_call(self, call: Call) -> Call:
        """Return the first request that still waits, or `call` if none does."""
        return next((each for each in self._calls if not each.stop), call)

    async def wait_for_end(self) -> None:
        """Wait until the round has ended."""
        if self._task is not None:
            await asyncio.wait({self._task})

    def drop_result(self) -> None:
        """Delete the result. The round itself stays stored."""
        self._body = self._error = None
        self.size = 0

    def _stored_result(self, error: BaseException | None = None) -> JSONObject:
        if isinstance(error, MissingCapability | StorageError):
            raise error.with_traceback(None)
        if self._error is not None:
            raise ProtocolError(*self._error)
        if self._body is None:
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, RESULT_DROPPED)
        return self._body

    def _on_task_end(
        self, task: asyncio.Task[JSONObject], on_end: Callable[[AnsweredRound, bool], None]
    ) -> None:
        """Store the result or error of the round, and call `on_end`."""
        if self.handler_call is not None:
            self._outcome = self.handler_call.outcome
        # Release the references, so that the operation can be freed.
        self.handler_call = self._task = None
        self.report_through = lambda call: None
        error = None if task.cancelled() else task.exception()
        if isinstance(error, ProtocolError):
            self._error = error.code, error.message, error.data
            self.size = _size(error.data)
        elif error is not None:
            self._error = ErrorCode.INTERNAL_ERROR, f"Internal error: {described(error)}", None
        elif not task.cancelled():
            self._body = task.result()
            self.size = _size(self._body)
        # MissingCapability and StorageError concern only this request. The operation continues.
        on_end(self, not task.cancelled() and not isinstance(error, MissingCapability | StorageError))


def _size(value: Any) -> int:
    """Return the size in bytes of a result or of error data, or a very large number if the value cannot be
    encoded.
    """
    try:
        return len(codec.encode_part(value))
    except LocalProtocolError:
        return MAX_RESULT_BYTES + 1


class AnsweredRounds:
    """Answered rounds of all servers of a core, by digest of caller, operation and state.

    The number of rounds and the size of their results are limited.
    """

    def __init__(self) -> None:
        self.size = 0
        """Approximate bytes of the stored results."""
        self.dropped = 0
        """Number of rounds and results that were dropped because of the limits."""
        self._rounds: dict[str, AnsweredRound] = {}
        self._ended_operations: dict[str, float] = {}
        """For each operation with a final result, the Unix time when its states expire."""
        self._results: dict[str, AnsweredRound] = {}
        """Rounds whose result is stored, oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._rounds)

    def find(self, key: str, answers_digest: str, operation: str) -> AnsweredRound | None:
        """Return the round that a request repeats, or None if the request must run.

        If the round is abandoned, the caller must wait for its end, and then call this method again. Raises:
        RemoteProtocolError (-32602) if the state was used with other answers, or if its operation has ended.
        """
        earlier_round = self._rounds.get(key)
        if earlier_round is not None:
            if earlier_round.is_abandoned or earlier_round.answers_digest == answers_digest:
                return earlier_round
            if earlier_round.is_running or not earlier_round.asks_again:
                raise invalid_params(OTHER_ANSWERS)
        if operation in self._ended_operations:
            raise invalid_params(OPERATION_ENDED)
        return None

    def begin(self, key: str, new_round: AnsweredRound) -> None:
        """Store a round that begins to run."""
        self._delete(key)
        if len(self._rounds) >= MAX_ROUNDS:
            self._make_room()
        self._rounds[key] = new_round
        if self._timer is None:
            self._schedule()

    def end(self, key: str, operation: str, finished_round: AnsweredRound, *, is_kept: bool) -> None:
        """Store the result of a round. If `is_kept` is False, delete the round, so that a repeated request
        runs again.
        """
        if self._rounds.get(key) is not finished_round:
            return
        if not is_kept:
            del self._rounds[key]
            return
        if not finished_round.asks_again:
            self._ended_operations[operation] = finished_round.expires
            while len(self._ended_operations) > MAX_ROUNDS:
                del self._ended_operations[next(iter(self._ended_operations))]
                self.dropped += 1
        if finished_round.size > MAX_RESULT_BYTES:
            finished_round.drop_result()
            self.dropped += 1
            return
        self.size += finished_round.size
        self._results[key] = finished_round
        while self.size > MAX_BYTES:
            oldest = self._results.pop(next(iter(self._results)))
            self.size -= oldest.size
            oldest.drop_result()
            self.dropped += 1

    def expire(self, now: float) -> None:
        """Delete the rounds whose states have expired at the Unix time `now`."""
        for key, answered_round in list(self._rounds.items()):
            if answered_round.expires <= now and not answered_round.is_running:
                self._delete(key)
        for operation, expires in list(self._ended_operations.items()):
            if expires <= now:
                del self._ended_operations[operation]
        if self._timer is not None:
            self._timer.cancel()
        self._schedule()

    def close(self) -> None:
        """Delete all rounds. Running rounds end when their time limits expire."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._rounds.clear()
        self._ended_operations.clear()
        self._results.clear()
        self.size = 0

    def _delete(self, key: str) -> None:
        self._rounds.pop(key, None)
        round_with_result = self._results.pop(key, None)
        if round_with_result is not None:
            self.size -= round_with_result.size

    def _make_room(self) -> None:
        """Delete the oldest round with a result. `max_in_flight` limits the number of running rounds."""
        oldest_key = next((key for key, each in self._rounds.items() if not each.is_running), None)
        if oldest_key is not None:
            self._delete(oldest_key)
            self.dropped += 1

    def _schedule(self) -> None:
        """Start a timer for the next state that expires.

        Requests with an expired state are rejected even before the timer deletes the round.
        """
        next_expiry = min((each.expires for each in self._rounds.values()), default=None)
        loop = asyncio.get_running_loop()
        self._timer = None
        if next_expiry is not None:
            self._timer = loop.call_later(
                max(next_expiry - time.time(), 1.0), lambda: self.expire(time.time())
            )
