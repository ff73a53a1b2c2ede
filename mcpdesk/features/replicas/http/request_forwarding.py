"""Forwarding of requests to the replica that has their session, their job or their suspended call."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from multidict import CIMultiDict

from mcpdesk.errors import TransportError
from mcpdesk.features.replicas.group.forwarding import FORWARDED_HEADER, MOVED_HEADER
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.protocol.marked_ids import process_mark
from mcpdesk.protocol.request_state import round_of
from mcpdesk.transports.http.connections import connection_of
from mcpdesk.transports.http.mcp_routes import LISTEN
from mcpdesk.transports.http.passing.relay_policy import HOP_BY_HOP_HEADERS
from mcpdesk.transports.http.responses import SANDBOX_HEADERS, plain_error

OMITTED_HEADERS = HOP_BY_HOP_HEADERS | {"content-length", "expect"}
RESPONSE_TIMEOUT_S = 2.0
"""Maximum number of seconds to wait for a simple response of another replica."""
TASK_METHODS = frozenset({"tasks/get", "tasks/result", "tasks/update", "tasks/cancel", LISTEN})
"""Requests that only the replica with the named task answers.

A listen request may name several tasks; only the first one counts.
"""
PROGRAM_TOOLS = ("ReadBgOutput", "KillBgTask")
"""Built-in tools that must run on the replica that has the program in their argument `task_id`."""


def may_be_forwarded(request: web.BaseRequest) -> bool:
    """Return True if a client sent the request itself, and no other replica forwarded it."""
    return FORWARDED_HEADER not in request.headers


def forwarded_headers(request: web.BaseRequest) -> dict[str, str]:
    """Return the headers that are forwarded to another replica."""
    return {name: value for name, value in request.headers.items() if name.lower() not in OMITTED_HEADERS}


async def forward_request(
    request: web.BaseRequest,
    replicas: ReplicaGroup,
    replica: str,
    body: bytes = b"",
    within_s: float | None = None,
) -> web.StreamResponse:
    """Forward a request to a replica, and send the replica's response to the client.

    If that replica names another replica, the request is forwarded to the other one. The response must begin
    within `within_s` seconds. Raises: TransportError if the replica cannot be reached; ReplicaSilent if it
    does not respond; StorageError.
    """
    response, new_holder = await _forward_once(request, replicas, replica, body, within_s)
    if new_holder and replicas.is_alive(new_holder) and new_holder != replicas.id:
        response, new_holder = await _forward_once(request, replicas, new_holder, body, within_s)
    if new_holder:
        raise TransportError("the job has moved to a replica that has ended, or moved twice")
    return response


async def _forward_once(
    request: web.BaseRequest, replicas: ReplicaGroup, replica: str, body: bytes, within_s: float | None
) -> tuple[web.StreamResponse, str]:
    """Send the response of another replica to the client. Return the response and "".

    If the response names a further replica, send nothing, and return the id of that replica instead of "".
    """
    response, connection = web.StreamResponse(), connection_of(request)
    headers = forwarded_headers(request)
    try:
        async with replicas.answer_of(
            replica, request.method, request.raw_path, headers, body, within_s
        ) as answer:
            new_holder = next((value for name, value in answer.headers if name == MOVED_HEADER), "")
            if new_holder:
                return response, new_holder
            response_headers = CIMultiDict(
                (name, value) for name, value in answer.headers if name.lower() not in OMITTED_HEADERS
            )
            response_headers.update(SANDBOX_HEADERS)
            response = web.StreamResponse(status=answer.status, headers=response_headers)
            await response.prepare(request)
            async for chunk in answer.chunks():
                await response.write(chunk)
            await response.write_eof()
    except (ConnectionError, ClientConnectionResetError):
        connection.abort()
    except TransportError:
        if not response.prepared:
            raise
        connection.abort()  # otherwise the client would take a partial response for a complete one
    return response, ""


async def holder_of_job(
    request: web.BaseRequest, replicas: ReplicaGroup, identifier: str
) -> tuple[str, web.Response | None]:
    """Return the id of the other replica that has a job, or "", and a response to send, or None.

    If a client sent the request, there is no response, and the request must be forwarded to that replica. If
    another replica forwarded the request, the id is "", and the response names the replica with the job.

    Raises: StorageError.
    """
    creator = process_mark(identifier)
    is_first_hop = may_be_forwarded(request)
    if is_first_hop and creator != replicas.id and replicas.is_alive(creator):
        return creator, None
    holder = await replicas.job_holder(identifier)
    if is_first_hop or not holder:
        return holder, None
    return "", plain_error(421, "Another machine now has the job", {MOVED_HEADER: holder})


async def holder_of_call(message: dict[str, Any], replicas: ReplicaGroup) -> str:
    """Return the id of the replica that must answer a request, or "" if any replica can answer it.

    The replica is the one that runs the named background program, or on which the call is suspended.

    Raises: StorageError.
    """
    if program := _program_of(message):
        return replicas.holder_of(program)
    state = request_state(message)
    suspending_replica = process_mark(round_of(state)) if state else ""
    if not suspending_replica or replicas.is_alive(suspending_replica):
        return suspending_replica
    # That replica has ended. If another replica ran this request again, a repeated request gets its result.
    return await replicas.round_holder(state)


def task_of(message: dict[str, Any]) -> str:
    """Return the id of the task that a request names, or "".

    If a listen request names several tasks, return the first.
    """
    method, params = message["method"], message.get("params")
    if method not in TASK_METHODS or not isinstance(params, dict):
        return ""
    filters = params.get("notifications")
    task_ids = (
        filters.get("taskIds") if method == LISTEN and isinstance(filters, dict) else params.get("taskId")
    )
    task = task_ids[0] if isinstance(task_ids, list) and task_ids else task_ids
    return task if isinstance(task, str) else ""


def _program_of(message: dict[str, Any]) -> int:
    """Return the number of the background program in a call, or 0."""
    params = message.get("params")
    if not isinstance(params, dict) or params.get("name") not in PROGRAM_TOOLS:
        return 0
    arguments = params.get("arguments")
    number = arguments.get("task_id") if isinstance(arguments, dict) else None
    return number if isinstance(number, int) else 0


def request_state(message: dict[str, Any]) -> str:
    """Return the `requestState` of a request, or ""."""
    params = message.get("params")
    state = params.get("requestState") if isinstance(params, dict) else None
    return state if isinstance(state, str) else ""
