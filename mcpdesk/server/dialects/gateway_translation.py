"""The gateway dialect, a translation at the edge: requests into standard messages, and results out of them.

Everything between is the same as for any other peer. One dialect object belongs to one conversation.
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
"""Between two looks at a job whose client listens: what comes meanwhile is reported together."""


class GatewayDialect:
    """What one peer of the dialect sends and is sent. It may speak the standard as well."""

    revision = gateway_dialect.REVISION
    """Spoken without a handshake, which is not asked for."""

    def __init__(self, push: Callable[[bytes], None] | None) -> None:
        """`push` takes messages about jobs, which belong to no request; None: the peer expects none."""
        self._push = push
        self._reporting: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """The peer is gone: jobs are no longer reported to it, but go on."""
        self._push = None
        for task in self._reporting:
            task.cancel()

    def status(self, method: str, name: str, version: str) -> JSONObject | None:
        """The answer to a question for the server's status; None: it is another method."""
        if method not in gateway_dialect.STATUS_METHODS:
            return None
        return {"status": "ok", "name": name, "version": version}

    def standard(self, message: JSONObject) -> JSONObject:
        """A request of the handshake era as the standard has it. Raises: RemoteProtocolError (-32602)."""
        return gateway_dialect.translated(message)

    def wants_job(self, params: JSONObject) -> bool:
        """Whether a call is to go on as a job. Raises: RemoteProtocolError (-32602) for an unknown mode."""
        return gateway_dialect.mode(params) == gateway_dialect.ASYNC

    def opens(self, answer: bytes) -> bool:
        """Send the answer to the handshake, and right behind it that we are ready; False: it was not sent."""
        if self._push is None:
            return False
        self._push(answer)
        self._push(INITIALIZED)
        return True

    def result(
        self, tool: Tool, ended: ToolOutcome, shaped: JSONObject, kept: Job | None = None
    ) -> JSONObject:
        """The result of a call. `shaped` is the result for a peer of the standard.

        `kept` is the job that keeps the whole output if `shaped` has only a part of it, else None.

        Raises: RemoteProtocolError (-32000) for a call that failed, (-32602) for unfit arguments.
        """
        if ended.failures:
            raise unfit_error(tool, ended)
        structured = ended.body.get("structuredContent")
        more = {} if kept is None else gateway_dialect.kept_output(kept.id)
        error = gateway_dialect.execution_error(tool.name, ended.body, structured)
        if error is not None:
            error.data = error.data | more
            raise error
        return gateway_dialect.superset(shaped, structured) | more

    def report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Tell a peer that expects it how its job goes on, once the answer to its call has left."""
        if self._push is not None:
            # The answer leaves in this turn of the loop.
            asyncio.get_running_loop().call_soon(self._begin_report, job, token, outlet)

    def _begin_report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        if self._push is None:
            return
        task = asyncio.get_running_loop().create_task(self._report(job, token, outlet))
        self._reporting.add(task)
        task.add_done_callback(self._reporting.discard)

    async def _report(self, job: Job, token: Id | None, outlet: Outlet) -> None:
        """Report on a job until it is over. A peer that does not keep up misses what lies in between."""
        tag: dict[str, Any] = {} if token is None else {"progressToken": token}
        with JobReader(job) as reader:
            while True:
                for news in reader.news():
                    outlet.send(codec.notification(gateway_dialect.PROGRESS, tag | news))
                await outlet.drain()
                if reader.has_told_all:
                    return
                await reader.changed()
                await asyncio.sleep(PACE_S)


def unfit_error(tool: Tool, ended: ToolOutcome) -> RemoteProtocolError:
    """The error (-32602) that names each place where the arguments do not fit."""
    where = [{"path": outcomes.place(each.path), "message": each.message} for each in ended.failures]
    return invalid_params(ended.body["content"][0]["text"], {"tool": tool.name, "failures": where})
