"""Tasks of one server, in both designs: when a call becomes one, and requests about them.

Source: MCP basic/utilities/tasks of 2025-11-25.
"""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.errors import Refusal, RemoteProtocolError
from mcpdesk.jobs.job import Job, NoRoom
from mcpdesk.protocol import client_questions, codec, task_shapes
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool

if TYPE_CHECKING:
    from mcpdesk.server.background.task_work import Refuse, TaskWork


class ProtocolTasks:
    """Turns calls into tasks and answers for them. `refuse` makes an error of a handler's exception."""

    def __init__(self, server: Server, services: Services, offers: OfferListing, refuse: Refuse) -> None:
        self._server = server
        self._jobs = services.jobs
        self._services = services
        self._offers = offers
        self._refuse = refuse
        self._works: dict[str, TaskWork] = {}

    def share(self, whole: ProtocolTasks) -> None:
        """Have what runs in common with the tasks of the same server as a whole."""
        self._works = whole._works

    def is_asked_for(self, call: Call, tool: Tool) -> bool:
        """Whether the caller of the core design wants a task, as far as it may.

        Raises: RemoteProtocolError (-32601) for a tool that is never one, (-32602) for a bad lifetime.
        """
        if not call.terms.revision.has_core_tasks or call.requests is None:
            return False
        if not self._offers.is_offered("tasks"):
            return False
        if not tool.task:
            raise _not_found(f"{tool.name} cannot be called as a task")
        task_shapes.asked_ttl_s(call.params)
        return True

    def prepare(self, call: Call, tool: Tool) -> None:
        """Let a call of a tool that may be a task become one, now or when its handler says so.

        Raises: RemoteProtocolError for a caller that cannot have what the tool needs.
        """
        revision, operation = call.terms.revision, call.round
        if revision.is_stateless:
            if operation is None or not client_questions.declares_tasks(call.terms):
                if tool.task == "required":
                    raise task_shapes.missing_extension(tool.name)
                return
            operation.on_task = partial(self._begin, call, tool)
            if not tool.asks_first:
                operation.become_task()
        elif operation is not None:
            operation.on_task = partial(self._begin, call, tool)
            operation.become_task()
        elif tool.task == "required" and revision.has_core_tasks:
            raise _not_found(f"{tool.name} can be called as a task only")

    async def get(self, call: Call) -> JSONObject:
        """How a task stands; in the extension with what came of it."""
        job = self._job(call)
        return self.detailed(job) if call.terms.revision.is_stateless else task_shapes.core(job)

    async def update(self, call: Call) -> JSONObject:
        """Answers to what a task asks."""
        job = self._job(call)
        work = self._works.get(job.id)
        if work is not None:
            try:
                work.accept(call.params["inputResponses"])
            except ValueError as error:
                raise invalid_params(f"inputResponses.{error}") from None
        return {}

    async def cancel(self, call: Call) -> JSONObject:
        """End a task."""
        job = self._job(call)
        is_cancelled = self._jobs.cancel(job, "cancelled by the client")
        if call.terms.revision.is_stateless:
            return {}
        if not is_cancelled:
            raise invalid_params(f"The task is {job.status.value} already")
        return task_shapes.core(job)

    async def result(self, call: Call) -> JSONObject:
        """What the call would have been answered, once it is known."""
        job = self._job(call)
        work = self._works.get(job.id)
        if work is not None and not job.is_over:
            await work.attend(call, self._server.limits.question_timeout_s)
        if job.ending.error is not None:
            raise job.ending.error
        if job.status is TaskStatus.CANCELLED:
            raise invalid_params(f"The task was cancelled and has no result: {job.message}")
        body: JSONObject = codec.decode(job.ending.result)
        return body | {"_meta": (body.get("_meta") or {}) | task_shapes.related(job.id)}

    async def listed(self, call: Call) -> JSONObject:
        """A page of the caller's tasks, oldest first; nobody in particular has none."""
        after = _number(call.params.get("cursor"))
        jobs = self._jobs.owned(self._server.name, call.owner, after) if call.owner else []
        page = jobs[: self._server.limits.page_size]
        body: JSONObject = {"tasks": [task_shapes.core(job) for job in page]}
        return body | {"nextCursor": _cursor(page[-1].number)} if len(page) < len(jobs) else body

    def watched(self, call: Call, asked: JSONObject) -> list[Job]:
        """The tasks a listener is notified of, out of the ids it names.

        Raises: RemoteProtocolError (-32602, -32021) for ids that are none, and without the extension.
        """
        named = asked.get("taskIds")
        if not named or not self._offers.is_offered("tasks"):
            return []
        if not isinstance(named, list) or not all(isinstance(each, str) for each in named):
            raise invalid_params("notifications.taskIds must be a list of task ids")
        if not client_questions.declares_tasks(call.terms):
            raise task_shapes.missing_extension("notifications.taskIds")
        found = (self._jobs.get(each, self._server.name, call.owner) for each in dict.fromkeys(named))
        return [job for job in found if job is not None]

    def detailed(self, job: Job) -> JSONObject:
        """A task of the extension with everything about it."""
        work = self._works.get(job.id)
        requests = work.requests if work is not None else {}
        return task_shapes.detailed(job, job.ending.result, job.ending.error, requests)

    def _begin(self, call: Call, tool: Tool) -> None:
        from mcpdesk.server.asks.rounds import Round

        assert isinstance(call.round, Round)
        limits = self._server.limits
        try:
            job = self._jobs.add(
                server=self._server.name,
                owner=call.owner,
                tool=tool.name,
                peer=call.peer,
                ttl_s=_ttl_s(call, limits.task_ttl_s),
                most=limits.max_tasks,
                stop=call.round.end,
                size=len(codec.encode_part(call.params)),
            )
        except NoRoom as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, str(error)) from None
        over = partial(self._works.pop, job.id, None)
        from mcpdesk.server.background.task_work import TaskWork

        if self._services.watch is not None:
            self._services.watch.follow(self._server, call, job)
        work = self._works[job.id] = TaskWork(job, call.round, self._jobs, self._refuse, over)
        work.begin()

    def _job(self, call: Call) -> Job:
        """The task a request names. Raises: RemoteProtocolError (-32602, -32021)."""
        is_stateless, owner = call.terms.revision.is_stateless, call.owner
        if is_stateless and not client_questions.declares_tasks(call.terms):
            raise task_shapes.missing_extension(call.method)
        # What belongs to nobody in particular is of the extension: there, to know its id is enough.
        is_known = is_stateless or bool(owner)
        job = self._jobs.get(call.params["taskId"], self._server.name, owner) if is_known else None
        if job is None:
            raise invalid_params("Unknown task: it never was, has expired, or is not yours")
        return job


def _ttl_s(call: Call, most_s: float | None) -> float | None:
    wanted = None if call.terms.revision.is_stateless else task_shapes.asked_ttl_s(call.params)
    if wanted is None or most_s is None:
        return most_s if wanted is None else wanted
    return min(wanted, most_s)


def _not_found(reason: str) -> RemoteProtocolError:
    return RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, reason)


def _cursor(number: int) -> str:
    return base64.urlsafe_b64encode(str(number).encode()).decode()


def _number(cursor: Any) -> int:
    if cursor is None:
        return 0
    try:
        return int(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, TypeError, binascii.Error):
        raise invalid_params("Unknown cursor: start again without one") from None
