"""One job: work of ours that outlives the call it began with. Its states and what is kept of it.

Knows nothing of what the work is: it can be stopped, and it says how it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol.tasks import TaskStatus, TaskView

if TYPE_CHECKING:
    from mcpdesk.jobs.feed import Feed
    from mcpdesk.jobs.files import Produced

MESSAGE_LENGTH = 200
"""Characters of a status message; the rest is left out."""


class Ending(NamedTuple):
    """How the work ended: an encoded result, or an error."""

    result: bytes = b""
    error: ProtocolError | None = None


NOT_ENDED = Ending()


class JobView(Struct, frozen=True):
    """A job at one moment, safe to hand between threads. Times are Unix seconds."""

    id: str
    server: str
    tool: str
    peer: str
    status: TaskStatus
    message: str
    created: float
    updated: float
    ttl_s: float | None
    """Counted from `created`; None: it is kept for good."""
    feed: Feed | None = None
    """What an asynchronous call puts out; None for a task."""
    exit_code: int | None = None
    started: float | None = None
    """When a call's turn came; None: it waits."""
    files: tuple[Produced, ...] = ()


class Job(Struct, eq=False):
    """Its identity and state. `owner` is whoever may see it: a principal, a session, or everybody ("").

    With a `feed` it is an asynchronous call of the gateway: it may wait for its turn, and is kept for `ttl_s`
    from its end instead of its beginning. Listeners are called after every change, and after something else
    about it changed (`touch`).
    """

    id: str
    number: int
    """Grows with every job of a store."""
    server: str
    owner: str
    tool: str
    peer: str
    created: float
    ttl_s: float | None
    """Counted from `created`, that of a call from its end; None: it is kept for good."""
    stop: Callable[[str], None]
    """Ends the work from outside, with a reason; harmless when it is over."""
    updated: float = 0.0
    status: TaskStatus = TaskStatus.WORKING
    message: str = ""
    ending: Ending = NOT_ENDED
    kept_bytes: int = 0
    feed: Feed | None = None
    started: float | None = None
    """When a call's turn came; None: it waits."""
    exit_code: int | None = None
    files: tuple[Produced, ...] = ()
    """What a call made, known once it is over."""
    session: str = ""
    """Mark of the HTTP session a call began in: whoever knows the id of that session may list the call."""
    listeners: dict[int, Callable[[], None]] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its state is final."""
        return self.status.is_final

    def is_expired(self, now: float) -> bool:
        """Whether its lifetime is over."""
        if self.ttl_s is None or (self.feed is not None and not self.is_over):
            return False
        return (self.created if self.feed is None else self.updated) + self.ttl_s <= now

    def move(self, status: TaskStatus, now: float, message: str = "") -> bool:
        """Change the state; False, and nothing happens, where that is not legal any more."""
        if not self.status.may_become(status):
            return False
        self.status = status
        self.message = message[:MESSAGE_LENGTH]
        self.touch(now)
        return True

    def say(self, message: str) -> None:
        """What it is at, for whoever looks; nobody is told."""
        if not self.is_over:
            self.message = message[:MESSAGE_LENGTH]

    def touch(self, now: float) -> None:
        """Tell the listeners that something changed."""
        self.updated = max(now, self.created)
        for listener in list((self.listeners or {}).values()):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change; what is returned ends that."""
        if self.listeners is None:
            self.listeners = {}
        listeners, key = self.listeners, id(listener)
        listeners[key] = listener

        def forget() -> None:
            listeners.pop(key, None)

        return forget

    def task(self) -> TaskView:
        """What the wire says of it."""
        return TaskView(self.id, self.status, self.created, self.updated, self.ttl_s, self.message)

    def view(self) -> JobView:
        """What a front end sees of it."""
        return JobView(
            self.id, self.server, self.tool, self.peer, self.status, self.message,
            self.created, self.updated, self.ttl_s, self.feed, self.exit_code,
            self.started, self.files,
        )  # fmt: skip
