"""What a server's handlers may use of the process around them, handed in as values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.server.calls.call_starts import CallStarts
from mcpdesk.server.calls.subscriptions import Subscriber, Subscriptions

if TYPE_CHECKING:
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.jobs.job import Job, JobStore, SharedEnds
    from mcpdesk.server.asks.rounds import Rounds
    from mcpdesk.server.background.job_records import SharedJobRecords
    from mcpdesk.server.calls.call_watch import CallWatch
    from mcpdesk.server.calls.deadlines import Deadlines
    from mcpdesk.storage.shared.engine_rounds import EngineRounds


T_co = TypeVar("T_co", covariant=True)


class made_once(Generic[T_co]):
    """Decorates a method that makes an attribute. There is only ever one, whichever threads ask for it."""

    def __init__(self, make: Callable[[Any], T_co]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T_co:
        made: T_co = owner.__dict__.setdefault(self._name, self._make(owner))
        return made


class Log(Protocol):
    """Where log lines of hosted code go besides the wire."""

    def __call__(
        self,
        level: str,
        source: str,
        text: str,
        where: str = "",
        server: str = "",
        trace: str = "",
        call: tuple[int, Id] | None = None,
    ) -> None:
        """Keep one line. `where` is `file:line` when known, `trace` the id of the caller's trace.

        `call` are connection and id of the request it belongs to, where that is known.
        """


class Mask(Protocol):
    """Makes illegible what a tool calls secret."""

    def __call__(self, value: Any, schema: Any = None) -> Any:
        """A copy of a JSON value without what `schema`, its JSON Schema, calls secret. The rest stays."""


def _unmasked(value: Any, schema: Any = None) -> Any:
    return value


class Services:
    """One per core, shared by all its servers."""

    def __init__(
        self,
        log: Log,
        *,
        round_keys: Callable[[], Sequence[bytes]] | None = None,
        mask: Mask = _unmasked,
        environment: Callable[[], dict[str, str]] = dict,
    ) -> None:
        """`round_keys` gives the keys of `requestState`, see `Rounds`; None: one that nobody else has."""
        self.log = log
        self.mask = mask
        """For what a person is shown of a call, who decides by that what runs."""
        self.environment = environment
        """The process environment without what is secret in it, for `context.py` on pipes and programs."""
        self.subscriptions = Subscriptions()
        self.on_job: Callable[[Job, bool], None] | None = None
        """Told of each call that is a job when it changes, and whether it is forgotten."""
        self.on_session: Callable[[Subscriber], None] | None = None
        """Told of each session of a client that opens, but for those within this process."""
        self.watch: CallWatch | None = None
        """Follows every call; None: nobody does."""
        self.mark = ""
        """What the ids of jobs and rounds tell of this replica; empty: there are no replicas."""
        self.records_of: Callable[[str], SharedJobRecords] | None = None
        """The records that replicas have of the jobs of a server; None: there are no replicas."""
        self.shared_rounds: EngineRounds | None = None
        """Record of the rounds that replicas have answered; None without replicas."""
        self.shared_ends: SharedEnds | None = None
        """Where ends of jobs are written before they count; None: there are no replicas."""
        self.on_left: Callable[[tuple[int, Id], bool], None] = lambda _place, _runs: None
        """Called when a call has ended whose code still runs, with True, and with False once it has ended."""
        self.starts = CallStarts()
        self._round_keys = round_keys

    @made_once
    def inbox(self) -> Inbox:
        """Questions for a person."""
        from mcpdesk.inbox.inbox import Inbox

        return Inbox()

    @made_once
    def deadlines(self) -> Deadlines:
        """When calls have to be over."""
        from mcpdesk.server.calls.deadlines import Deadlines

        return Deadlines()

    @made_once
    def rounds(self) -> Rounds:
        """Operations that wait for their client to come back."""
        from mcpdesk.server.asks.rounds import Rounds

        return Rounds(self._round_keys, self.mark, self.shared_rounds)

    @made_once
    def jobs(self) -> JobStore:
        """Calls that go on without their request."""
        from mcpdesk.jobs.job import JobStore

        store = JobStore()
        store.on_change = self.on_job
        store.mark, store.shared = self.mark, self.shared_ends
        return store

    def has_made(self, part: str) -> bool:
        """Whether something that is made at its first use is there; from any thread."""
        return part in self.__dict__

    async def close(self) -> None:
        """End what listens, waits and goes on."""
        made = self.__dict__
        self.subscriptions.close()
        if "rounds" in made:
            self.rounds.close()
        # What goes on without its request ends first: nobody is to be answered there.
        ending = [self.jobs.stop()] if "jobs" in made else []
        if "deadlines" in made:
            ending.append(self.deadlines.stop())
        await asyncio.gather(*ending)
