"""State of an asynchronous call as JSON, with the changes since the previous read of one client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import orjson
from msgspec.structs import replace

from mcpdesk.jobs.feed import START, CallFeed, FeedUpdate
from mcpdesk.jobs.job import Job
from mcpdesk.jobs.schedule import call_soon_safely
from mcpdesk.protocol import codec, job_shapes
from mcpdesk.protocol.jsonrpc import JSONObject

KINDS = frozenset({"stdout", "stderr", "progress"})
"""Kinds of changes that a client may choose. The state of the job is always included."""


def state_of(job: Job) -> str:
    """Return the state of the job in the terms of asynchronous calls."""
    return job_shapes.state(job.status, job.started is not None)


def brief(job: Job) -> JSONObject:
    """Return the current state of a job, as in a list of jobs."""
    latest = _feed(job).latest
    return job_shapes.job_urls(job.id) | {
        "status": state_of(job),
        "server": job.server,
        "tool": job.tool,
        "exit_code": job.exit_code,
        "progress": _completed_fraction(job),
        "message": job.status_message or (latest.message if latest else ""),
        "created_at": job_shapes.timestamp(job.created),
        "started_at": job_shapes.timestamp(job.started),
        "updated_at": job_shapes.timestamp(job.updated),
        "finished_at": job_shapes.timestamp(job.updated if job.is_over else None),
        "output_file": job_shapes.output_file(job.id) if job.files else None,
    }


def details(job: Job, max_chars: int) -> JSONObject:
    """Return details of a job: its result, and up to `max_chars` characters from the end of each stream."""
    stdout, stderr = _feed(job).ends(max_chars)
    body = brief(job) | {"stdout": stdout, "stderr": stderr}
    if job.is_over and job.ttl_s is not None:
        body["expires_at"] = job_shapes.timestamp(job.updated + job.ttl_s)
    if job.ending.result:
        body["result"] = orjson.Fragment(job.ending.result)
    if job.ending.error is not None:
        body["error"] = codec.error_object(job.ending.error)
    return body


class JobReader:
    """Reads the changes of one job for one client. Use it on the core's loop, in a `with` block.

    A job that writes fast or a client that reads slowly costs no extra memory.
    """

    def __init__(self, job: Job, kinds: Collection[str] = KINDS) -> None:
        self._job = job
        self._kinds = kinds
        self._cursor = START
        self._last_state = ""
        self._loop = asyncio.get_running_loop()
        self._wake_up = asyncio.Event()
        self._is_wake_up_due = False
        self._has_ended = asyncio.Event()
        self._remove_listeners = (job.listen(self._on_state_change), _feed(job).listen(self._wake))

    def __enter__(self) -> JobReader:
        return self

    def __exit__(self, *problem: object) -> None:
        for remove_listener in self._remove_listeners:
            remove_listener()

    @property
    def is_complete(self) -> bool:
        """True if `changes` has returned the end of the job, or if this process can no longer receive
        changes.
        """
        return self._job.is_lost or (self._job.is_over and self._last_state == state_of(self._job))

    def changes(self) -> list[JSONObject]:
        """Return the changes since the last call, each kind in its own object. The end of the job is last."""
        self._mark_seen()
        job_reference: JSONObject = {"job_id": self._job.id}
        state, update = state_of(self._job), self._collect()
        events: list[JSONObject] = []
        if update.progress:
            events.append(job_reference | {"progress": update.progress.share} | _progress_message(update))
        events += [job_reference | {kind: text} for kind, text in self._stream_texts(update)]
        if state != self._last_state:
            # Only the end comes last. The start is reported before any output.
            if self._job.is_over:
                events.append(job_reference | self._end_event())
            else:
                events.insert(0, self._start_event(job_reference, state))
        self._last_state = state
        return events

    def event(self) -> JSONObject:
        """Return the current state, and the output since the last call."""
        self._mark_seen()
        state, update = state_of(self._job), self._collect()
        body: JSONObject = {"job_id": self._job.id, "status": state}
        if "progress" in self._kinds:
            body |= {"progress": _completed_fraction(self._job)} | _progress_message(update)
        body |= dict(self._stream_texts(update))
        self._last_state = state
        return body | self._end_event() if self._job.is_over else body

    async def wait_for_change(self, within_s: float | None = None) -> bool:
        """Wait until `changes` may have changes to return, at most `within_s` seconds. Return False on
        timeout.
        """
        return await _wait_for(self._wake_up, within_s)

    async def wait_for_end(self, within_s: float | None = None) -> bool:
        """Wait until the job is over, at most `within_s` seconds. Return False on timeout."""
        return self._job.is_over or await _wait_for(self._has_ended, within_s)

    def _collect(self) -> FeedUpdate:
        update = _feed(self._job).since(self._cursor)
        self._cursor = update.cursor
        return update if "progress" in self._kinds else replace(update, progress=None)

    def _stream_texts(self, update: FeedUpdate) -> list[tuple[str, str]]:
        streams = zip(("stdout", "stderr"), (update.stdout, update.stderr), update.missed, strict=True)
        return [
            (kind, _with_gap(text, missed_chars))
            for kind, text, missed_chars in streams
            if text and kind in self._kinds
        ]

    def _start_event(self, job_reference: JSONObject, state: str) -> JSONObject:
        body = job_reference | {"status": state}
        return body | {"progress": _completed_fraction(self._job)} if "progress" in self._kinds else body

    def _end_event(self) -> JSONObject:
        """Return the final state of the job, without its id."""
        job = self._job
        body: JSONObject = {"status": state_of(job), "exit_code": job.exit_code}
        if "progress" in self._kinds:
            body["progress"] = _completed_fraction(job)
        if job.status_message:
            body["message"] = job.status_message
        if job.files:
            body["output_file"] = job_shapes.output_file(job.id)
        return body

    def _mark_seen(self) -> None:
        self._is_wake_up_due = False
        self._wake_up.clear()

    def _on_state_change(self) -> None:
        """Record that the state of the job has changed, and not only its output."""
        if self._job.is_over or self._job.is_lost:
            self._has_ended.set()
        self._wake()

    def _wake(self) -> None:
        """Wake the reader. May be called on any thread, and several times before the next read."""
        if self._is_wake_up_due:
            return
        self._is_wake_up_due = True
        call_soon_safely(self._loop, self._wake_up.set)


async def _wait_for(event: asyncio.Event, within_s: float | None) -> bool:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _with_gap(text: str, missed_chars: int) -> str:
    return f"[... {missed_chars:,} characters left out ...]\n{text}" if missed_chars else text


def _progress_message(update: FeedUpdate) -> JSONObject:
    return {"message": update.progress.message} if update.progress and update.progress.message else {}


def _completed_fraction(job: Job) -> float:
    """Return the completed fraction, from 0 to 1, or 0 if it is unknown."""
    if job_shapes.state(job.status, True) == "succeeded":
        return 1.0
    latest = _feed(job).latest
    return 0.0 if latest is None else latest.share


def _feed(job: Job) -> CallFeed:
    assert job.feed is not None
    return job.feed
