"""Calls that continue as a job after their response. Each handler runs in a task of its own."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import LocalProtocolError, ProtocolError, Refusal, StorageError
from mcpdesk.jobs import downloads
from mcpdesk.jobs.downloads import ProducedFile
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.jobs.job import Job, JobEnding, JobStore, NoRoom
from mcpdesk.protocol import codec, job_shapes, shaping
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.outlet import NullOutlet
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.background.repeatable_calls import encode_call
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.outcomes import ToolOutcome, invalid_arguments_error
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.threads.running_code import note_running_code_of_job
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool
from mcpdesk.server.state.server_state import ToolOptions

if TYPE_CHECKING:
    from mcpdesk.server.background.task_work import ToProtocolError

MAX_TURN_S = 0.002
"""Seconds for which a job may report before it must let other tasks run."""
DROPPED = "the result exceeds the limit of stored results"


def job_owner(principal: Principal) -> str:
    """Return the owner of a caller's jobs. It never equals the owner of a protocol task."""
    return f"call:{principal.identity}"


def session_mark(session: str) -> str:
    """Return the id of an HTTP session for its jobs. It is a digest, so that the session id is not stored."""
    return hashlib.sha256(session.encode()).hexdigest() if session else ""


def job_roots(server: Server) -> tuple[Path, ...]:
    """Return the folders that may contain files of the server's jobs.

    File names are relative to the first folder.
    """
    server_folder = () if server.folder is None else (server.folder,)
    hosted = server.hosted
    job_folders = () if hosted is None else (hosted.call_folders.root, hosted.outputs)
    return server_folder + job_folders + server.limits.output_dirs


def output_chars(server: Server) -> int:
    """Return the maximum number of characters of a program's output in one response."""
    return ToolOptions().output_chars if server.hosted is None else server.hosted.options.output_chars


async def recorded_output(server: Server, body: JSONObject) -> tuple[ProducedFile, ...]:
    """If the result has only a part of the output, return the file with the full output. Otherwise return an
    empty tuple.

    A result may name any path, but only files in the server's folder for outputs are returned.
    """
    structured, hosted = body.get("structuredContent"), server.hosted
    output_path = structured.get("output_file") if isinstance(structured, dict) else None
    if hosted is None or not isinstance(output_path, str) or Path(output_path).parent != hosted.outputs:
        return ()
    files = await asyncio.to_thread(downloads.record_files, (Path(output_path),), (hosted.outputs,))
    return tuple(replace(file, is_output=True) for file in files)


async def store_output(
    server: Server, store: JobStore, call: Call, tool: Tool, body: JSONObject
) -> Job | None:
    """Store the full output of a call as a finished job. The call was answered at once.

    Return None if the result has the whole output, or if no more jobs can be stored.
    """
    files = await recorded_output(server, body)
    if not files:
        return None
    limits, feed = server.limits, CallFeed()
    try:
        job = store.add(
            server=server.name,
            owner=job_owner(call.principal),
            tool=tool.name,
            peer=call.peer,
            ttl_s=limits.job_ttl_s,
            max_jobs=limits.max_tasks,
            stop=lambda _: None,
            feed=feed,
        )
        job.session = session_mark((call.headers or {}).get("mcp-session-id", ""))
        await store.confirm(job)
    except (NoRoom, StorageError):
        return None
    store.begin(job)
    structured = body.get("structuredContent")
    stdout, stderr, job.exit_code = job_shapes.outputs(body, structured)
    feed.stdout(stdout)
    feed.stderr(stderr)
    job.files = files
    error = job_shapes.execution_error(tool.name, body, structured)
    status = TaskStatus.COMPLETED if error is None else TaskStatus.FAILED
    store.finish(job, status, JobEnding(error=error), "" if error is None else error.message)
    await store.wait_until_settled(job)
    return job


class _YieldingOutlet(NullOutlet):
    """Outlet that drops the messages of a job. If a handler reports constantly, `drain` lets other tasks
    run.
    """

    must_drain = True

    def __init__(self) -> None:
        self._last_turn = time.monotonic()

    async def drain(self) -> None:
        """Let other tasks run if the job has occupied the loop for `MAX_TURN_S` seconds."""
        if time.monotonic() - self._last_turn > MAX_TURN_S:
            await asyncio.sleep(0)
            self._last_turn = time.monotonic()


class JobWork:
    """One tool call that continues after its response, from the queue to its end."""

    def __init__(
        self,
        server: Server,
        request: Call,
        tool: Tool,
        arguments: JSONObject,
        run: Callable[[Call], Awaitable[ToolOutcome]],
        to_protocol_error: ToProtocolError,
    ) -> None:
        """`run` runs the tool for a call. `to_protocol_error` converts exceptions to protocol errors."""
        params: JSONObject = {"name": tool.name, "arguments": arguments}
        if isinstance(request.params.get("_meta"), dict):
            params["_meta"] = request.params["_meta"]
        self._server, self._tool = server, tool
        self._run_tool, self._to_protocol_error = run, to_protocol_error
        # The request is already answered. It has no stream for reports, and its client cannot be asked.
        self._call = Call(
            request.id,
            request.method,
            params,
            request.terms,
            _YieldingOutlet(),
            request.transport,
            request.peer,
            request.headers,
        )
        self._call.opening_headers, self._call.principal = request.opening_headers, request.principal
        self._call.connection, self._call.span = request.connection, request.span

    async def begin(self, store: JobStore) -> Job:
        """Create a job for the call. The job runs when a slot is free.

        Raises: Refusal if no more jobs can be stored.
        """
        server, call, limits = self._server, self._call, self._server.limits
        try:
            job = store.add(
                server=server.name,
                owner=job_owner(call.principal),
                tool=self._tool.name,
                peer=call.peer,
                ttl_s=limits.job_ttl_s,
                max_jobs=limits.max_tasks,
                stop=call.end,
                size=len(codec.encode_part(call.params["arguments"])),
                feed=CallFeed(),
            )
        except NoRoom as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, str(error)) from None
        job.session = session_mark((call.headers or {}).get("mcp-session-id", ""))
        if self._tool.resume and store.shared is not None:
            job.request = encode_call(call, call.params)
        try:
            await store.confirm(job)
        except StorageError as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, str(error)) from None
        self.start(job, store)
        return job

    def start(self, job: Job, store: JobStore) -> None:
        """Queue the job, which runs when a slot is free."""
        call, job.stop = self._call, self._call.end
        call.feed = job.feed
        # `stop` and `task` are set before the first step of the task, because a client may end the job before
        # it.
        slot = store.run_semaphore(job.server, self._server.limits.jobs_at_once)
        call.task = store.run(job, self._run(job, store, slot))

    async def _run(self, job: Job, store: JobStore, slot: asyncio.Semaphore) -> None:
        """Wait for a slot, and run the job to its end."""
        call = self._call
        try:
            async with slot:
                store.begin(job)
                await self._work(job, store)
        except asyncio.CancelledError:
            store.cancel(job, call.stop or "ended from outside")
            if not call.stop:
                raise
        finally:
            call.stop = call.stop or "finished"
            call.undo_cancellation()
            call.task = None
            note_running_code_of_job(call.running, job, store)

    async def _work(self, job: Job, store: JobStore) -> None:
        try:
            outcome = await self._run_tool(self._call)
            if outcome.failures:
                raise invalid_arguments_error(self._tool, outcome)
            await self._complete(job, store, outcome.body)
        except Exception as error:  # nothing else would end the job
            self._fail(job, store, await self._to_protocol_error(self._call, error))

    async def _complete(self, job: Job, store: JobStore, body: JSONObject) -> None:
        """Store the output, the files and the result of the job."""
        if job.is_settled:
            return  # the job was cancelled, but its handler ran to the end
        assert job.feed is not None
        structured = body.get("structuredContent")
        stdout, stderr, exit_code = job_shapes.outputs(body, structured)
        if not job.feed.size:
            # The handler wrote no output while it ran, so the output in the result is used.
            job.feed.stdout(stdout)
            job.feed.stderr(stderr)
        paths = job.feed.files
        if paths:
            roots = job_roots(self._server)
            job.files = await asyncio.to_thread(downloads.record_files, paths, roots, job.started or 0.0)
        job.files += await recorded_output(self._server, body)
        job.exit_code = exit_code
        error = job_shapes.execution_error(self._tool.name, body, structured)
        message = "" if error is None else error.message
        status = TaskStatus.FAILED if body.get("isError") else TaskStatus.COMPLETED
        try:
            revision, schema = self._call.terms.revision, self._tool.output_schema
            encoded = codec.encode(shaping.tool_result(body, revision, schema))
        except LocalProtocolError as encoding_error:
            error_body = outcomes.failed(
                f"{self._tool.name} returned a value that cannot be sent: {encoding_error.message}"
            )
            encoded = codec.encode(error_body)
            status = TaskStatus.FAILED
            message = error_body["content"][0]["text"]
        try:
            store.finish(job, status, JobEnding(encoded, error), message)
        except NoRoom:
            store.finish(job, status, JobEnding(b"", error), message or DROPPED)

    def _fail(self, job: Job, store: JobStore, error: ProtocolError) -> None:
        if job.is_settled:
            return
        store.finish(job, TaskStatus.FAILED, JobEnding(error=error), error.message)
