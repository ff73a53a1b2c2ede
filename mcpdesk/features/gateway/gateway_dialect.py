"""Translation of requests and results between the gateway dialect and standard MCP.

All other code handles a peer with this dialect like any other peer. Each conversation has its own dialect
object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from mcpdesk.features.gateway import dialect_shapes
from mcpdesk.jobs.job import Job
from mcpdesk.protocol import codec
from mcpdesk.protocol.job_shapes import execution_error
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.outlet import Outlet
from mcpdesk.server.background.job_reader import JobReader
from mcpdesk.server.calls.dialect import Dialect
from mcpdesk.server.calls.outcomes import ToolOutcome, invalid_arguments_error
from mcpdesk.server.offer.tool import Tool

INITIALIZED = codec.encode({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
REPORT_PERIOD_S = 0.05
"""Seconds between two reports about a job to a listening client. Changes in between are sent together."""


class GatewayDialect(Dialect):
    """Translator between a client of the gateway dialect and standard MCP."""

    name = "gateway"
    revision = dialect_shapes.REVISION

    def __init__(self, push: Callable[[bytes], None] | None, transport: str) -> None:
        """Create the dialect of one peer. Only peers that use WebSocket expect messages about jobs."""
        self._push = push if transport == "websocket" else None
        self._report_tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def description(
        cls, name: str, description: str, version: str, tools: Iterable[JSONObject]
    ) -> JSONObject:
        """Return the response to GET and OPTIONS."""
        return dialect_shapes.discovery(name, description, version, tools)

    def close(self) -> None:
        """Stop reporting jobs, because the peer has disconnected. The jobs continue."""
        self._push = None
        for task in self._report_tasks:
            task.cancel()

    def status(self, method: str, name: str, version: str) -> JSONObject | None:
        """Return the response to a status request, or None if `method` is another method."""
        if method not in dialect_shapes.STATUS_METHODS:
            return None
        return {"status": "ok", "name": name, "version": version}

    def standard(self, message: JSONObject) -> JSONObject:
        """Convert a request to a request of standard MCP. Raises: RemoteProtocolError (-32602)."""
        return dialect_shapes.translated(message)

    def wants_job(self, params: JSONObject) -> bool:
        """Return True if a call asks to continue as a job.

        Raises: RemoteProtocolError (-32602) for an unknown mode.
        """
        return dialect_shapes.mode(params) == dialect_shapes.ASYNC

    def answer_handshake(self, answer: bytes) -> bool:
        """Send the response to the handshake, and then `notifications/initialized`.

        In this dialect, the server sends this notification. Return False if nothing was sent, because the
        peer does not use WebSocket or has disconnected.
        """
        if self._push is None:
            return False
        self._push(answer)
        self._push(INITIALIZED)
        return True

    def accepted(self, job: str) -> JSONObject:
        """Return the result of a call that continues as a job."""
        return dialect_shapes.accepted(job)

    def result(
        self, tool: Tool, outcome: ToolOutcome, standard_result: JSONObject, stored_job: Job | None = None
    ) -> JSONObject:
        """Return the result of a call.

        `standard_result` is the result for a standard peer. If it has only a part of the output, `stored_job`
        is the job with the full output. Raises: RemoteProtocolError (-32000) for a failed call, (-32602) for
        invalid arguments.
        """
        if outcome.failures:  # the arguments violate the input schema
            raise invalid_arguments_error(tool, outcome)
        structured = outcome.body.get("structuredContent")
        extra_members = {} if stored_job is None else dialect_shapes.stored_output(stored_job.id)
        error = execution_error(tool.name, outcome.body, structured)
        if error is not None:
            error.data = error.data | extra_members
            raise error
        return dialect_shapes.dialect_result(standard_result, structured) | extra_members

    def report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report the progress of a job after the response to its call, if the peer expects such reports."""
        if self._push is not None:
            # Begin in the next turn of the loop, because the response is sent in this turn.
            asyncio.get_running_loop().call_soon(self._begin_report, job, token, outlet)

    def _begin_report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        if self._push is None:
            return
        task = asyncio.get_running_loop().create_task(self._report(job, token, outlet))
        self._report_tasks.add(task)
        task.add_done_callback(self._report_tasks.discard)

    async def _report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report on a job until the job has ended. A slow peer does not receive all intermediate states."""
        token_params: dict[str, Any] = {} if token is None else {"progressToken": token}
        with JobReader(job) as reader:
            while True:
                for changes in reader.changes():
                    outlet.send(codec.notification(dialect_shapes.PROGRESS, token_params | changes))
                await outlet.drain()
                if reader.is_complete:
                    return
                await reader.wait_for_change()
                await asyncio.sleep(REPORT_PERIOD_S)
