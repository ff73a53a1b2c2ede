"""Tasks of one server: creation from calls, and requests about tasks.

The protocol has two designs of tasks: the core design of 2025-11-25, and the extension of 2026-07-28.

Source: MCP basic/utilities/tasks of 2025-11-25.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import ProtocolError, Refusal, RemoteProtocolError
from mcpdesk.jobs.job import Job, NoRoom
from mcpdesk.protocol import client_questions, codec, task_shapes
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.request_state import RequestState
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.background.watched_tasks import WatchedTasks
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcpdesk.server.asks.rounds import RoundOperation
    from mcpdesk.server.background.shared_job_records import SharedJobRecords
    from mcpdesk.server.background.task_work import TaskWork, ToProtocolError

STORED_PARAMS = ("name", "arguments", "_meta")
"""Parameters of a call that are stored, so that the call can run again."""
TASK_ELSEWHERE = "another machine has the task: ask again, over HTTP"
"""Error for a task that another process has, if that process cannot be asked."""


class ProtocolTasks:
    """Creates tasks from calls, and answers requests about tasks.

    `to_protocol_error` converts exceptions of handlers to protocol errors.
    """

    def __init__(
        self,
        server: Server,
        services: Services,
        offers: OfferListing,
        to_protocol_error: ToProtocolError,
    ) -> None:
        self._server = server
        self._services = services
        self._jobs = services.jobs
        self._unconfirmed: dict[str, Job] = {}
        """Tasks that are not stored yet, by id."""
        self._offers = offers
        self._to_protocol_error = to_protocol_error
        self._task_works: dict[str, TaskWork] = {}

    def share(self, base: ProtocolTasks) -> None:
        """Share the running tasks of `base`, which serves the same server with all tools."""
        self._task_works = base._task_works

    def is_task_requested(self, call: Call, tool: Tool) -> bool:
        """Return True if the caller asks for a task and the server offers tasks. Only for the core design.

        Raises: RemoteProtocolError (-32601) for a tool without task support, (-32602) for an invalid
        lifetime.
        """
        if not call.terms.revision.has_core_tasks or call.requests is None:
            return False
        if not self._offers.is_offered("tasks"):
            return False
        if not tool.task:
            raise _not_found(f"{tool.name} cannot be called as a task")
        task_shapes.requested_ttl_s(call.params)
        return True

    def prepare(self, call: Call, tool: Tool) -> None:
        """Allow a call to become a task, at once or when its handler asks for it.

        Raises: RemoteProtocolError if the caller lacks a capability that the tool needs.
        """
        revision, operation = call.terms.revision, call.round
        if revision.is_stateless:
            if operation is None or not client_questions.declares_tasks(call.terms):
                if tool.task == "required":
                    raise task_shapes.missing_extension(tool.name)
                return
            operation.on_task = partial(self._begin, call, tool)
            if not tool.asks_first or call.job is not None:
                operation.become_task()
        elif operation is not None:
            operation.on_task = partial(self._begin, call, tool)
            operation.become_task()
        elif tool.task == "required" and revision.has_core_tasks:
            raise _not_found(f"{tool.name} can only be called as a task")

    async def confirm(self, body: JSONObject) -> JSONObject:
        """Wait until the new task in a response, if any, is in the store that processes share. Return the
        response.

        Raises: StorageError; the task is then dropped.
        """
        task_fields = body["task"] if isinstance(body.get("task"), dict) else body
        job = self._unconfirmed.pop(str(task_fields.get("taskId")), None)
        if job is not None:
            await self._jobs.confirm(job)
        return body

    def repeat(self, job: Job, call: Call, run: Callable[[Call], Awaitable[JSONObject]]) -> None:
        """Run the call of a task again, because the process that started the task has ended."""
        from mcpdesk.server.asks.rounds import RoundOperation
        from mcpdesk.server.background.task_work import TaskWork

        operation = RoundOperation(call, RequestState("", "", 0.0), self._services.deadlines)
        operation.call.job = job
        job.stop = operation.end

        async def follow() -> None:
            try:
                await operation.run_or_resume(call, {}, run)
            except ProtocolError as error:
                TaskWork(job, operation, self._jobs, self._to_protocol_error, lambda: None).fail(error)

        self._jobs.run(job, follow())

    async def get(self, call: Call) -> JSONObject:
        """Return the state of a task. In the extension, the state includes the result or error."""
        job = await self._find_task(call)
        return self.detailed(job) if call.terms.revision.is_stateless else task_shapes.core(job)

    async def update(self, call: Call) -> JSONObject:
        """Accept answers to the questions of a task."""
        job = await self._find_task(call)
        work = self._task_works.get(job.id)
        if work is not None:
            try:
                work.accept(call.params["inputResponses"])
            except ValueError as error:
                raise invalid_params(f"inputResponses.{error}") from None
        elif not job.is_over and self._jobs.shared is not None:
            raise Refusal(ErrorCode.INTERNAL_ERROR, TASK_ELSEWHERE)
        return {}

    async def cancel(self, call: Call) -> JSONObject:
        """Cancel a task."""
        job = await self._find_task(call)
        reason = "cancelled by the client"
        is_cancelled = not job.is_settled
        if self._records is not None and self._jobs.by_id(job.id) is None:
            job = await self._records.cancel(job, reason) if is_cancelled else job
        else:
            self._jobs.check_shared(job)
            is_cancelled = self._jobs.cancel(job, reason)
            await self._jobs.wait_until_settled(job)
            await self._jobs.wait_for_work(job)
        if call.terms.revision.is_stateless:
            return {}
        if not is_cancelled:
            raise invalid_params(f"The task is {job.status.value} already")
        return task_shapes.core(job)

    async def result(self, call: Call) -> JSONObject:
        """Wait for a task and return the result of its call."""
        job = await self._find_task(call)
        work = self._task_works.get(job.id)
        if work is not None and not job.is_over:
            await work.attend(call, self._server.limits.question_timeout_s)
        elif not job.is_over and self._records is not None:
            job = await self._records.wait_for_end(job)
        if job.is_lost:
            raise Refusal(ErrorCode.INTERNAL_ERROR, TASK_ELSEWHERE)
        if job.ending.error is not None:
            raise job.ending.error
        if job.status is TaskStatus.CANCELLED:
            raise invalid_params(f"The task was cancelled and has no result: {job.message}")
        body: JSONObject = codec.decode(job.ending.result)
        return body | {"_meta": (body.get("_meta") or {}) | task_shapes.related(job.id)}

    async def list_tasks(self, call: Call) -> JSONObject:
        """Return a page of the caller's tasks, oldest first. Anonymous callers have no tasks."""
        cursor_key = _parse_cursor(call.params.get("cursor"))
        owner, name = call.owner, self._server.name
        jobs = {job.id: job for job in self._jobs.owned(name, owner)} if owner else {}
        if owner and self._records is not None:
            jobs = {job.id: job for job in await self._records.list_jobs(owner, is_task=True)} | jobs
        sort_keys = sorted(map(_sort_key, jobs.values()))
        remaining = [
            jobs[identifier] for created, identifier in sort_keys if (created, identifier) > cursor_key
        ]
        page = remaining[: self._server.limits.page_size]
        body: JSONObject = {"tasks": [task_shapes.core(job) for job in page]}
        return body | {"nextCursor": _cursor(page[-1])} if len(page) < len(remaining) else body

    async def tasks_to_watch(self, call: Call, filters: JSONObject) -> list[Job]:
        """Return the existing tasks among the ids in a subscription.

        Raises: RemoteProtocolError for invalid ids (-32602) and without the extension (-32021); StorageError.
        """
        task_ids = filters.get("taskIds")
        if not task_ids or not self._offers.is_offered("tasks"):
            return []
        if not isinstance(task_ids, list) or not all(isinstance(each, str) for each in task_ids):
            raise invalid_params("notifications.taskIds must be a list of task ids")
        if not client_questions.declares_tasks(call.terms):
            raise task_shapes.missing_extension("notifications.taskIds")
        unique_ids = list(dict.fromkeys(task_ids))
        jobs = {each: self._jobs.get(each, self._server.name, call.owner) for each in unique_ids}
        unknown_ids = [each for each, job in jobs.items() if job is None]
        if unknown_ids and self._records is not None:
            jobs |= zip(unknown_ids, await self._records.find_all(unknown_ids, call.owner), strict=True)
        return [job for job in jobs.values() if job is not None]

    def watch(self, jobs: Sequence[Job], notify: Callable[[JSONObject], None]) -> WatchedTasks:
        """Return a context manager that calls `notify` with each change of the tasks."""
        return WatchedTasks(jobs, self._jobs, self._records, lambda job: notify(self.detailed(job)))

    def detailed(self, job: Job) -> JSONObject:
        """Return a task in the format of the extension, with its result, error and pending questions."""
        work = self._task_works.get(job.id)
        requests: JSONObject = work.requests if work is not None else codec.decode(job.asked or b"{}")
        return task_shapes.detailed(job, job.ending.result, job.ending.error, requests)

    def _begin(self, call: Call, tool: Tool) -> None:
        """Create the task of a call, or continue the task of `call.job`. Raises: Refusal."""
        from mcpdesk.server.asks.rounds import RoundOperation

        assert isinstance(call.round, RoundOperation)
        if call.job is not None:  # another process ran the task before
            self._follow(call.job, call.round)
            return
        limits = self._server.limits
        try:
            job = self._jobs.add(
                server=self._server.name,
                owner=call.owner,
                tool=tool.name,
                peer=call.peer,
                ttl_s=_ttl_s(call, limits.task_ttl_s),
                max_jobs=limits.max_tasks,
                stop=call.round.end,
                size=len(codec.encode_part(call.params)),
            )
        except NoRoom as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, str(error)) from None
        if self._jobs.shared is not None:
            self._unconfirmed[job.id] = job
            if tool.resume:
                from mcpdesk.server.background.repeatable_calls import encode_call

                job.request = encode_call(
                    call, {key: call.params[key] for key in STORED_PARAMS if key in call.params}
                )
        self._follow(job, call.round)

    def _follow(self, job: Job, operation: RoundOperation) -> None:
        from mcpdesk.server.background.task_work import TaskWork

        if self._services.watch is not None:
            self._services.watch.follow(self._server, operation.call, job)
        on_end = partial(self._task_works.pop, job.id, None)
        work = TaskWork(job, operation, self._jobs, self._to_protocol_error, on_end)
        self._task_works[job.id] = work
        work.begin()

    @property
    def _records(self) -> SharedJobRecords | None:
        """Stored tasks that several processes share, or None if no other process shares them."""
        records_of = self._services.records_of
        return None if records_of is None else records_of(self._server.name)

    async def _find_task(self, call: Call) -> Job:
        """Return the task that a request names.

        Raises: RemoteProtocolError (-32602, -32021), StorageError.
        """
        is_stateless, owner = call.terms.revision.is_stateless, call.owner
        if is_stateless and not client_questions.declares_tasks(call.terms):
            raise task_shapes.missing_extension(call.method)
        # Only tasks of the extension may lack an owner. Any caller that knows their id may use them.
        may_find = is_stateless or bool(owner)
        job = self._jobs.get(call.params["taskId"], self._server.name, owner) if may_find else None
        if job is None and may_find and self._records is not None:
            job = await self._records.find(call.params["taskId"], owner)
        if job is None:
            raise invalid_params("Unknown task: it never existed, has expired, or is not yours")
        return job


def _ttl_s(call: Call, max_s: float | None) -> float | None:
    requested_s = None if call.terms.revision.is_stateless else task_shapes.requested_ttl_s(call.params)
    if requested_s is None:
        return max_s
    return requested_s if max_s is None else min(requested_s, max_s)


def _not_found(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, reason)


def _sort_key(job: Job) -> tuple[float, str]:
    """Return the sort key of a task in a list."""
    return job.created, job.id


def _cursor(job: Job) -> str:
    return base64.urlsafe_b64encode(f"{job.created!r} {job.id}".encode()).decode()


def _parse_cursor(cursor: Any) -> tuple[float, str]:
    if cursor is None:
        return 0.0, ""
    try:
        created, identifier = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(" ", 1)
        return float(created), identifier
    except (ValueError, TypeError, binascii.Error):
        raise invalid_params("Unknown cursor: start again without one") from None
