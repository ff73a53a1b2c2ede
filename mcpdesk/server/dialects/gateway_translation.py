"""Translation between the gateway dialect and standard MCP, for requests and results.

All other code treats the peer like any other. Each conversation has its own dialect object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.jobs.job import Job
from mcpdesk.protocol import codec, gateway_dialect
from mcpdesk.protocol.jsonrpc import Id, JSONObject, invalid_params
from mcpdesk.protocol.outlet import Outlet
from mcpdesk.server.background.job_reader import JobReader
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.outcomes import ToolOutcome
from mcpdesk.server.offer.tool import Tool

INITIALIZED = codec.encode({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
PACE_S = 0.05
"""Seconds between two reports about a job to a listening client. Changes in this time are sent together."""


class GatewayDialect:
    """Translator for one peer. The peer may also send standard messages."""

    revision = gateway_dialect.REVISION
    """Revision that is used without a handshake. The dialect does not require one."""

    def __init__(self, push: Callable[[bytes], None] | None) -> None:
        """`push` sends messages about jobs, which belong to no request. None if the peer expects none."""
        self._push = push
        self._reporting: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Stop reporting jobs, because the peer has disconnected. The jobs continue."""
        self._push = None
        for task in self._reporting:
            task.cancel()

    def status(self, method: str, name: str, version: str) -> JSONObject | None:
        """Return the response to a status request. None if it is another method."""
        if method not in gateway_dialect.STATUS_METHODS:
            return None
        return {"status": "ok", "name": name, "version": version}

    def standard(self, message: JSONObject) -> JSONObject:
        """Convert a request to a standard one. Raises: RemoteProtocolError (-32602)."""
        return gateway_dialect.translated(message)

    def wants_job(self, params: JSONObject) -> bool:
        """Return True if a call asks to continue as a job.

        Raises: RemoteProtocolError (-32602) for an unknown mode.
        """
        return gateway_dialect.mode(params) == gateway_dialect.ASYNC

    def opens(self, answer: bytes) -> bool:
        """Send the response to the handshake, and then `notifications/initialized`.

        Return False if it was not sent.
        """
        if self._push is None:
            return False
        self._push(answer)
        self._push(INITIALIZED)
        return True

    def result(
        self, tool: Tool, ended: ToolOutcome, shaped: JSONObject, stored_job: Job | None = None
    ) -> JSONObject:
        """Return the result of a call. `shaped` is the result for a standard peer.

        `stored_job` is the job with the full output, if `shaped` has only a part of it. Raises:
        RemoteProtocolError (-32000) for a failed call, (-32602) for invalid arguments.
        """
        if ended.failures:
            raise unfit_error(tool, ended)
        structured = ended.body.get("structuredContent")
        more = {} if stored_job is None else gateway_dialect.stored_output(stored_job.id)
        error = gateway_dialect.execution_error(tool.name, ended.body, structured)
        if error is not None:
            error.data = error.data | more
            raise error
        return gateway_dialect.superset(shaped, structured) | more

    def report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report the progress of a job after the response to its call, if the peer expects this."""
        if self._push is not None:
            # The response is sent in this turn of the loop.
            asyncio.get_running_loop().call_soon(self._begin_report, job, token, outlet)

    def _begin_report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        if self._push is None:
            return
        task = asyncio.get_running_loop().create_task(self._report(job, token, outlet))
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def _report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report on a job until it has ended. A slow peer misses intermediate states."""
        tag: dict[str, Any] = {} if token is None else {"progressToken": token}
        with JobReader(job) as reader:
            while True:
                for news in reader.news():
                    outlet.send(codec.notification(gateway_dialect.PROGRESS, tag | news))
                await outlet.drain()
                if reader.is_complete:
                    return
                await reader.changed()
                await asyncio.sleep(PACE_S)


def unfit_error(tool: Tool, ended: ToolOutcome) -> RemoteProtocolError:
    """Return the error (-32602) that lists all schema violations of the arguments."""
    where = [{"path": outcomes.argument_path(each.path), "message": each.message} for each in ended.failures]
    return invalid_params(ended.body["content"][0]["text"], {"tool": tool.name, "failures": where})
