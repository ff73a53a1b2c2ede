"""Jobs: work that outlives the call that started it.

`Job` has the state of one job, and `JobStore` contains all jobs. This module does not depend on the kind of
work: it can only stop the work and store the outcome.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from copy import copy
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import field

from mcpdesk.errors import DeskError, ProtocolError
from mcpdesk.protocol.marked_ids import marked
from mcpdesk.protocol.task_shapes import TaskStatus, TaskView

if TYPE_CHECKING:
    from mcpdesk.jobs.downloads import ProducedFile
    from mcpdesk.jobs.feed import CallFeed

CANCEL_WAIT_S, CANCEL_WAIT_TURNS = 0.2, 3
"""Limits of the wait for cancelled work: at most `CANCEL_WAIT_S` seconds, then `CANCEL_WAIT_TURNS` iterations
of the event loop."""
CODE_STILL_RUNS = "stopped waiting: its code still runs"
"""Remark in the status message of a cancelled job."""
MAX_MESSAGE_LENGTH = 200
"""Maximum characters of a status message. A longer message is cut."""
ID_BYTES = 24
"""Number of random bytes in the id of a job."""
SWEEP_S = 5.0
"""Seconds between two removals of expired jobs. An expired job is never returned, even before it is
removed.
"""
MAX_KEPT_BYTES = 64 << 20
"""Maximum size in bytes of the arguments and results that are kept for each server."""
SHUTDOWN_WAIT_S = 3.0
"""Seconds within which calls must end their programs when the core stops."""
TAKEN_OVER = "another machine continues it"
"""Reason for stopping the work of a job that another process has taken over."""
OWNER_DIVISOR = 2
"""An owner may have 1/OWNER_DIVISOR of the jobs that a server may have."""


class JobEnding(NamedTuple):
    """Outcome of a job's work: an encoded result, or an error."""

    result: bytes = b""
    error: ProtocolError | None = None


NOT_ENDED = JobEnding()


class Job(TaskView, eq=False, kw_only=True):
    """Identity and state of a job. Only `owner` may see it: a principal, a session, or any caller ("").

    A job with a `feed` is an asynchronous call of the gateway. Such a job may be queued, and its `ttl_s`
    counts from its end instead of its creation. Listeners are called after every change of the state, and
    after other changes (`touch`). Times are Unix seconds.
    """

    server: str
    tool: str
    peer: str
    owner: str
    stop: Callable[[str], None]
    """Function that takes a reason and ends the work. It has no effect once the work is over."""
    number: int = 0
    """Position in the order of creation."""
    ending: JobEnding = NOT_ENDED
    kept_bytes: int = 0
    """Memory of the job that counts toward the limit of its server."""
    feed: CallFeed | None = None
    """Output of an asynchronous call, or None for a task."""
    started: float | None = None
    """Time at which a call began to run, or None while the call is queued."""
    exit_code: int | None = None
    files: tuple[ProducedFile, ...] = ()
    """Files that a call produced, or an empty tuple until the call is over."""
    session: str = ""
    """Mark of the HTTP session of a call. A client that knows the session's id may list the call."""
    fence: int = 1
    """Counter that increases each time another process takes over the job."""
    request: bytes = b""
    """Data with which another process can run the job again, or no bytes if the job must not run again."""
    asked: bytes = b""
    """Encoded questions of a task to its client, for requests that reach another process."""
    is_ending: bool = False
    """True while the end of the job is being written. During this time, nothing else can end the job."""
    has_running_code: bool = False
    """True while the job's code still runs in this process, although the work was cancelled."""
    is_lost: bool = False
    """True if another process has taken over the job. This process no longer changes or ends the job."""
    listeners: dict[int, Callable[[], None]] = field(default_factory=dict)

    @property
    def status_message(self) -> str:
        """Message for a client, with a remark if the code still runs although the job was cancelled."""
        if self.has_running_code:
            return "; ".join(filter(None, (self.message, CODE_STILL_RUNS)))
        return self.message

    @property
    def is_settled(self) -> bool:
        """True if the job is over, about to end, or taken over by another process."""
        return self.is_over or self.is_ending or self.is_lost

    @property
    def is_over(self) -> bool:
        """True if the state of the job is final."""
        return self.status.is_final

    def is_expired(self, now: float) -> bool:
        """Return True if the lifetime of the job is over."""
        if self.ttl_s is None or (self.feed is not None and not self.is_over):
            return False
        return (self.created if self.feed is None else self.updated) + self.ttl_s <= now

    def move(self, status: TaskStatus, now: float, message: str = "") -> bool:
        """Change the state. Return False, and change nothing, if the transition is not allowed."""
        if not self.status.may_become(status):
            return False
        self.status = status
        self.message = message[:MAX_MESSAGE_LENGTH]
        self.touch(now)
        return True

    def set_message(self, message: str) -> None:
        """Set the status message without notifying listeners."""
        if not self.is_over:
            self.message = message[:MAX_MESSAGE_LENGTH]

    def touch(self, now: float) -> None:
        """Notify the listeners of a change."""
        self.updated = max(now, self.created)
        for listener in list(self.listeners.values()):
            listener()

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change. Call the returned function to stop that."""
        key = id(listener)
        self.listeners[key] = listener

        def stop_listening() -> None:
            self.listeners.pop(key, None)

        return stop_listening


class NoRoom(DeskError):
    """The table has no room for another job, or for its result."""


class SharedOutcomes(Protocol):
    """Store for outcomes of jobs. An outcome is written before it takes effect, so that processes agree."""

    def check(self, job: Job) -> None:
        """Check that changes of a job can be written. Raises: StorageError."""

    async def begun(self, job: Job) -> None:
        """Write that a job has begun. Raises: StorageError."""

    async def conclude(self, final: Job) -> bool:
        """Write the final state of a job, and retry until the state is written. Return False if another
        process has taken over the job.
        """


class JobStore:
    """Jobs by id. Used on the core's loop; `snapshot` is safe on any thread."""

    def __init__(self, clock: Callable[[], float] = time.time, kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._clock = clock
        self._max_kept_bytes = kept_bytes
        self._jobs: dict[str, Job] = {}
        self._numbers = count(1)
        self._job_counts: Counter[tuple[str, ...]] = Counter()
        """Number of jobs by server, and by server and owner."""
        self._kept_bytes: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._semaphores: dict[str, asyncio.Semaphore] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._work_by_id: dict[str, asyncio.Task[None]] = {}
        """Work of each running job, by id."""
        self._is_closing = False
        self.on_change: Callable[[Job, bool], None] | None = None
        """Called with each stored job that was created, changed, ended or deleted. The second argument is
        True if the job was deleted. Not called while the store closes, because the next core restores the
        remaining jobs.
        """
        self.mark = ""
        """Mark of this process in the ids of jobs."""
        self.shared: SharedOutcomes | None = None
        """Store of outcomes that processes share, or None if an outcome takes effect at once."""
        self.version = 0
        """Counter that increases with every change."""

    def __len__(self) -> int:
        return len(self._jobs)

    def add(
        self,
        server: str,
        owner: str,
        tool: str,
        peer: str,
        ttl_s: float | None,
        max_jobs: int,
        stop: Callable[[str], None],
        size: int = 0,
        feed: CallFeed | None = None,
    ) -> Job:
        """Add a working job with an unguessable id. A server may have at most `max_jobs` jobs.

        `size` is the number of bytes that the work holds while it runs. With `feed` the job is an
        asynchronous call: the oldest finished calls are deleted to make room for it. Raises: NoRoom.
        """
        import secrets

        self._require_room(server, owner, max_jobs)
        if not self._make_room(server, size):
            raise self._no_room(size, "arguments")
        now = self._clock()
        job = Job(
            marked(secrets.token_urlsafe(ID_BYTES), self.mark), TaskStatus.WORKING, now, now, ttl_s,
            server=server, tool=tool, peer=peer, owner=owner, stop=stop, feed=feed,
            number=next(self._numbers),
        )  # fmt: skip
        self._insert(job, size)
        self._report_change(job)
        return job

    def restore(self, job: Job) -> bool:
        """Add a job that was stored by another process, which has ended. Return False if the job is known or
        expired, or if the table has no room for it.
        """
        size = len(job.ending.result) + _shrink_output(job)
        if job.id in self._jobs or job.is_expired(self._clock()) or not self._make_room(job.server, size):
            return False
        job.number = next(self._numbers)
        self._insert(job, size)
        return True

    def _insert(self, job: Job, size: int) -> None:
        self._jobs[job.id] = job
        self._set_kept_bytes(job, size)
        self._job_counts.update(((job.server,), (job.server, job.owner)))
        self.version += 1
        self._schedule_sweep()

    def _report_change(self, job: Job, *, is_deleted: bool = False) -> None:
        is_kept = (job.feed is not None or self.shared is not None) and not job.is_lost
        if is_kept and self.on_change is not None and not self._is_closing:
            self.on_change(job, is_deleted)

    async def confirm(self, job: Job) -> None:
        """Wait until the start of a job is stored. If storing fails, delete the job.

        Raises: StorageError.
        """
        if self.shared is None:
            return
        try:
            await self.shared.begun(job)
        except BaseException:
            self._delete(job, "it could not be written")
            raise

    def check_shared(self, job: Job) -> None:
        """Check that changes of a shared job can be written. Raises: StorageError."""
        if self.shared is not None:
            self.shared.check(job)

    async def wait_until_settled(self, job: Job) -> None:
        """Wait until the end of a job is stored, if the store is writing it."""
        if not job.is_ending or job.is_over or job.is_lost:
            return
        changed = asyncio.Event()
        stop_listening = job.listen(changed.set)
        try:
            while not (job.is_over or job.is_lost):
                changed.clear()
                await changed.wait()
        finally:
            stop_listening()

    def get(self, identifier: str, server: str, owner: str) -> Job | None:
        """Return a job by its id, or None if the job is unknown, expired, or of another server or owner."""
        job = self._jobs.get(identifier)
        if job is None or (job.server, job.owner) != (server, owner):
            return None
        if job.is_expired(self._clock()):
            self._delete(job, "its lifetime is over")
            return None
        return job

    def of_server(self, server: str) -> list[Job]:
        """Return all jobs and tasks of a server, oldest first."""
        return [job for job in self._jobs.values() if job.server == server]

    def by_id(self, identifier: str) -> Job | None:
        """Return a job by its id regardless of its owner, or None. Only for the person at the desk.

        Safe on any thread.
        """
        return self._jobs.get(identifier)

    def find(self, identifier: str, owner: str) -> Job | None:
        """Return an owner's asynchronous call by its id, of any server, or None if there is no such call."""
        job = self._jobs.get(identifier)
        owned_job = None if job is None else self.get(identifier, job.server, owner)
        return owned_job if owned_job is not None and owned_job.feed is not None else None

    def calls(self, server: str, owner: str | None = None) -> list[Job]:
        """Return the asynchronous calls of a server, oldest first. Without `owner`, return those of all
        owners.
        """
        now = self._clock()
        return [
            job
            for job in self._jobs.values()
            if job.feed is not None and job.server == server and owner in (None, job.owner)
            if not job.is_expired(now)
        ]

    def run_semaphore(self, server: str, max_running: int) -> asyncio.Semaphore:
        """Return the semaphore that a call must hold while it runs. It allows `max_running` calls of a server
        at a time.
        """
        return self._semaphores.setdefault(server, asyncio.Semaphore(max_running))

    def run(self, job: Job, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the work of a call as an asyncio task."""
        task = asyncio.get_running_loop().create_task(work, name=f"job {job.tool}")
        self._works.add(task)
        task.add_done_callback(self._works.discard)
        # If the job has a task already, the new task only writes the outcome.
        if self._work_by_id.setdefault(job.id, task) is task:
            task.add_done_callback(lambda _: self._work_by_id.pop(job.id))
        return task

    def set_running_code(self, job: Job, *, is_running: bool) -> None:
        """Record whether the code of a cancelled job still runs (`Job.has_running_code`)."""
        job.has_running_code = is_running
        self.version += 1

    async def wait_for_work(self, job: Job) -> None:
        """Wait briefly for the work of a cancelled job to end."""
        work = self._work_by_id.get(job.id)
        if work is not None:
            await asyncio.wait({work}, timeout=CANCEL_WAIT_S)
        for _ in range(CANCEL_WAIT_TURNS):
            await asyncio.sleep(0)

    def begin(self, job: Job) -> None:
        """Mark a call as running."""
        job.started = self._clock()
        self.version += 1
        job.touch(job.started)
        self._report_change(job)

    def owned(self, server: str, owner: str, after: int = 0) -> list[Job]:
        """Return the jobs of an owner whose number is greater than `after`, oldest first."""
        now = self._clock()
        return [
            job
            for job in self._jobs.values()
            if job.number > after and (job.server, job.owner) == (server, owner) and not job.is_expired(now)
        ]

    def wait_for_input(self, job: Job, *, is_waiting: bool) -> None:
        """Mark a job as waiting for input if `is_waiting`, otherwise as working again. Does not block."""
        status = TaskStatus.INPUT_REQUIRED if is_waiting else TaskStatus.WORKING
        self.version += 1
        if job.is_settled:
            return
        if not job.move(status, self._clock()) and is_waiting:
            job.touch(self._clock())
        if job.feed is None and self.shared is not None:
            self._report_change(job)

    def finish(self, job: Job, status: TaskStatus, ending: JobEnding, message: str = "") -> None:
        """Store the outcome of the work. No effect if the job is over.

        An `ending` without a result needs no further memory, because the output of the call is already
        counted. Raises: NoRoom if the result is too large.
        """
        if job.is_settled:
            return
        size = len(ending.result) + _shrink_output(job)
        has_room = self._make_room(job.server, size - job.kept_bytes)
        if ending.result and not has_room:
            raise self._no_room(size - job.kept_bytes, "a result")
        self._set_kept_bytes(job, size)
        self._store_outcome(job, status, ending, message)

    def cancel(self, job: Job, reason: str) -> bool:
        """Cancel a job and stop its work. Return False if the job is already over."""
        if job.is_settled:
            return False
        self._set_kept_bytes(job, _shrink_output(job))
        self._store_outcome(job, TaskStatus.CANCELLED, job.ending, reason)
        job.stop(reason)
        return True

    def remove_taken_over(self, identifier: str) -> None:
        """Remove a job that another process has taken over: stop its work and release its listeners."""
        job = self._jobs.get(identifier)
        if job is not None:
            job.is_lost = True
            self._remove(job)
            job.stop(TAKEN_OVER)
            job.touch(self._clock())

    def _store_outcome(self, job: Job, status: TaskStatus, ending: JobEnding, message: str) -> None:
        """Store the outcome of a job. If jobs are shared, the outcome is first written to `shared`."""
        if self.shared is None or self._is_closing or job.id not in self._jobs:
            self._end(job, status, ending, message)
            self._report_change(job)
            return
        job.is_ending = True
        final = copy(job)
        final.listeners = {}
        final.ending = ending
        final.move(status, self._clock(), message)
        self.run(job, self._confirm_end(job, final))

    async def _confirm_end(self, job: Job, final: Job) -> None:
        assert self.shared is not None
        if await self.shared.conclude(final):
            self._end(job, final.status, final.ending, final.message)
        else:
            self.remove_taken_over(job.id)

    def _end(self, job: Job, status: TaskStatus, ending: JobEnding, message: str) -> None:
        job.ending = ending
        self.version += 1
        job.move(status, self._clock(), message)

    def cancel_by_id(self, identifier: str, reason: str) -> None:
        """Cancel a job by its id. Ignored if the id is unknown."""
        job = self._jobs.get(identifier)
        if job is not None:
            self.cancel(job, reason)

    def delete_jobs_of_owner(self, server: str, owner: str, reason: str) -> None:
        """Delete all jobs of an owner that has disconnected."""
        for job in self.owned(server, owner):
            self._delete(job, reason)

    def cancel_all(self, server: str, reason: str) -> None:
        """Cancel all running jobs of a server."""
        for job in list(self._jobs.values()):
            if job.server == server:
                self.cancel(job, reason)

    def delete_jobs_of_server(self, server: str) -> None:
        """Delete all jobs of a removed server."""
        for job in list(self._jobs.values()):
            if job.server == server:
                self._delete(job, "its server was removed")
        self._semaphores.pop(server, None)

    @property
    def has_unfinished_work(self) -> bool:
        """True if clients would lose a running call or any task when this core ends."""
        return any(job.feed is None or not job.is_over for job in self._jobs.values())

    def snapshot(self) -> tuple[Job, ...]:
        """Return copies of all jobs in their current state, oldest first."""
        return tuple(copy(job) for job in list(self._jobs.values()))

    def close(self, reason: str = "the core stops") -> None:
        """Cancel and delete all jobs."""
        self._is_closing = True
        for job in list(self._jobs.values()):
            self._delete(job, reason)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def stop(self) -> None:
        """Cancel all jobs, and wait until their programs have ended."""
        self.close()
        if self._works:
            await asyncio.wait(set(self._works), timeout=SHUTDOWN_WAIT_S)

    def _require_room(self, server: str, owner: str, max_jobs: int) -> None:
        """Delete calls until an owner may add a job. Raises: NoRoom."""
        if self._has_room(server, owner, max_jobs):
            return
        self._sweep_now()
        while not self._has_room(server, owner, max_jobs):
            job_count = self._job_counts[(server,)]
            # If only this owner has too many jobs, the calls of other owners are not deleted.
            if self._delete_oldest_call(server, owner if job_count < max_jobs else None):
                continue
            raise NoRoom(
                f"{job_count} tasks are already stored (max_tasks is {max_jobs}, half of it for one client)"
            )

    def _has_room(self, server: str, owner: str, max_jobs: int) -> bool:
        max_owner_jobs = max(1, math.ceil(max_jobs / OWNER_DIVISOR))
        return self._job_counts[(server,)] < max_jobs and self._job_counts[(server, owner)] < max_owner_jobs

    def _make_room(self, server: str, size: int) -> bool:
        """Delete finished calls until `size` bytes fit. Return False if they still do not."""
        if size > 0 and self._kept_bytes[server] + size > self._max_kept_bytes:
            self._sweep_now()
        while size > 0 and self._kept_bytes[server] + size > self._max_kept_bytes:
            if size > self._max_kept_bytes or not self._delete_oldest_call(server, None):
                return False
        return True

    def _no_room(self, size: int, subject: str) -> NoRoom:
        return NoRoom(
            f"{subject} of {size} bytes exceeds the limit of stored results ({self._max_kept_bytes} bytes)"
        )

    def _delete_oldest_call(self, server: str, owner: str | None) -> bool:
        """Delete the call that ended first. Without `owner`, consider the calls of all owners. Return
        False if no call has ended.
        """
        ended_calls = [
            job
            for job in self._jobs.values()
            if job.feed is not None and job.is_over and job.server == server and owner in (None, job.owner)
        ]
        if not ended_calls:
            return False
        self._delete(min(ended_calls, key=lambda job: job.updated), "it was deleted to make room")
        return True

    def _set_kept_bytes(self, job: Job, size: int) -> None:
        self._kept_bytes[job.server] += size - job.kept_bytes
        job.kept_bytes = size

    def _delete(self, job: Job, reason: str) -> None:
        if not self._remove(job):
            return
        self.cancel(job, reason)
        self._set_kept_bytes(job, 0)
        self._report_change(job, is_deleted=True)

    def _remove(self, job: Job) -> bool:
        if self._jobs.pop(job.id, None) is None:
            return False
        self._job_counts.subtract(((job.server,), (job.server, job.owner)))
        if not self._job_counts[(job.server, job.owner)]:
            del self._job_counts[(job.server, job.owner)]
        self.version += 1
        self._set_kept_bytes(job, 0)
        return True

    def _sweep_now(self) -> None:
        now = self._clock()
        for job in list(self._jobs.values()):
            if job.is_expired(now):
                self._delete(job, "its lifetime is over")

    def _schedule_sweep(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        self._sweep_now()
        if self._jobs:
            self._schedule_sweep()


def _shrink_output(job: Job) -> int:
    """Drop all stored output of a finished call except its end. Return the approximate remaining size in
    bytes.
    """
    return 0 if job.feed is None else job.feed.shrink()
