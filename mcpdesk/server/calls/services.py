"""Services of the core that the handlers of a server may use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.server.calls.call_starts import CallStarts
from mcpdesk.server.calls.call_watch import AskedQuestion, question_span
from mcpdesk.server.calls.subscriptions import Subscriber, Subscriptions
from mcpdesk.server.calls.threads.running_code import CODE_ENDED, CODE_STILL_RUNS, RUNNING_CODE

if TYPE_CHECKING:
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.jobs.job import Job, JobStore, SharedOutcomes
    from mcpdesk.server.asks.round_claims import RoundClaims
    from mcpdesk.server.asks.rounds import Rounds
    from mcpdesk.server.background.shared_job_records import SharedJobRecords
    from mcpdesk.server.calls.call_observer import CallWatch
    from mcpdesk.server.calls.deadlines import Deadlines
    from mcpdesk.server.calls.running_call import Call


T_co = TypeVar("T_co", covariant=True)


class created_once(Generic[T_co]):
    """Decorator for a property that is created at its first access, and then stored for all threads."""

    def __init__(self, make: Callable[[Any], T_co]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T_co:
        value: T_co = owner.__dict__.setdefault(self._name, self._make(owner))
        return value


CaptureKey: TypeAlias = tuple[int, Id]
"""Connection and id of a request."""
WriteLine: TypeAlias = Callable[[str, str, str, str, str, str, CaptureKey | None], None]
"""Function that writes a log line of hosted code. Its arguments are those of `Services.log`."""


class Services:
    """Services of one core. All its servers share them."""

    def __init__(
        self,
        log: WriteLine,
        *,
        request_state_keys: Callable[[], Sequence[bytes]] | None = None,
        mask: Callable[[Any, Any], Any] = lambda value, schema: value,
        environment: Callable[[], dict[str, str]] = dict,
        starts: CallStarts | None = None,
    ) -> None:
        """`request_state_keys` returns the keys for `requestState`, see `Rounds`. If it is None, a random key
        is created.
        """
        self._log = log
        self.mask = mask
        """Function that masks the arguments of a call before a person sees them for approval.

        The second argument is the JSON Schema of the arguments, which may mark values as secret.
        """
        self.environment = environment
        """Function that returns the process environment without secrets, for programs and for
        `context.py`.
        """
        self.subscriptions = Subscriptions()
        self.on_job: Callable[[Job, bool], None] | None = None
        """Function that is called with a job that changed, and True if the job was deleted."""
        self.on_session: Callable[[Subscriber], None] | None = None
        """Function that is called with each new client session, except sessions within this process."""
        self.watch: CallWatch | None = None
        """Observer of all calls, or None. It is set only if a collector is configured."""
        self.mark = ""
        """Id of this process in the ids of jobs and rounds, or "" if no other process shares them."""
        self.records_of: Callable[[str], SharedJobRecords] | None = None
        """Function that returns the shared job records of a server, or None if no process shares them."""
        self.shared_rounds: RoundClaims | None = None
        """Claims of rounds that other processes may run, too, or None if no other process runs rounds."""
        self.shared_outcomes: SharedOutcomes | None = None
        """Store for the outcomes of jobs that several processes share, or None if no other process shares
        jobs.
        """
        self.on_running_code: Callable[[tuple[int, Id], bool], None] = lambda _capture_key, _is_running: None
        """Function that is called with True if the code of an ended call still runs, and with False when that
        code ends.
        """
        self.starts = starts or CallStarts()
        self._request_state_keys = request_state_keys

    def log(
        self,
        level: str,
        source: str,
        text: str,
        where: str = "",
        server: str = "",
        trace: str = "",
        call: CaptureKey | None = None,
    ) -> None:
        """Log one line. The client does not receive it.

        `where` is the source line as `file:line`, `trace` the id of the caller's trace, and `call` the
        connection and id of the request, each of them if it is known.
        """
        self._log(level, source, text, where, server, trace, call)

    @created_once
    def inbox(self) -> Inbox:
        """Questions for a person."""
        from mcpdesk.inbox.inbox import Inbox

        return Inbox()

    @created_once
    def deadlines(self) -> Deadlines:
        """Time limits of the running calls."""
        from mcpdesk.server.calls.deadlines import Deadlines

        return Deadlines()

    @created_once
    def rounds(self) -> Rounds:
        """Operations that wait until their client returns."""
        from mcpdesk.server.asks.rounds import Rounds

        return Rounds(self._request_state_keys, self.mark, self.shared_rounds)

    @created_once
    def jobs(self) -> JobStore:
        """Calls that continue after their response."""
        from mcpdesk.jobs.job import JobStore

        store = JobStore()
        store.on_change = self.on_job
        store.mark, store.shared = self.mark, self.shared_outcomes
        return store

    def has_created(self, part: str) -> bool:
        """Return True if a service was already created. `part` is its name. May be called on any thread."""
        return part in self.__dict__

    def question_span(
        self, call: Call, method: str, server: str, tool: str
    ) -> AbstractContextManager[AskedQuestion]:
        """Report a question to the observer when the block ends. The block sets its `outcome`."""
        report = None if self.watch is None else self.watch.question_ended
        return question_span(report, call, method, server, tool)

    def log_running_code(self, call: Call, source: str, server: str) -> None:
        """Log that a call has ended but its code still runs, and later that the code has ended."""
        capture_key = call.running
        if capture_key is None or not RUNNING_CODE.has(capture_key):
            return
        log = partial(self.log, source=source, where="", server=server, trace=call.trace.id, call=capture_key)

        def on_code_end() -> None:
            self.on_running_code(capture_key, False)
            log(level="info", text=CODE_ENDED)

        self.on_running_code(capture_key, True)
        log(level="warning", text=CODE_STILL_RUNS)
        RUNNING_CODE.when_ended(capture_key, on_code_end)

    async def close(self) -> None:
        """End subscriptions, rounds, jobs and calls."""
        created = self.__dict__
        self.subscriptions.close()
        if "rounds" in created:
            self.rounds.close()
        # Jobs are ended first, because they have no request to answer.
        stops = [self.jobs.stop()] if "jobs" in created else []
        if "deadlines" in created:
            stops.append(self.deadlines.stop())
        await asyncio.gather(*stops)
