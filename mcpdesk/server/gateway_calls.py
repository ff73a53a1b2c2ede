"""`tools/call` as the gateway has it: results with more members, errors where MCP has results, and jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from orjson import dumps

from mcpdesk.errors import Refusal
from mcpdesk.jobs.feed import Feed
from mcpdesk.jobs.job import NoRoom
from mcpdesk.protocol import codec, gateway_dialect, shaping
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.terms import Terms
from mcpdesk.server import outcome
from mcpdesk.server.call import Call
from mcpdesk.server.direct import DirectCalls, Usual
from mcpdesk.server.gateway_jobs import JobWork, job_owner, session_mark
from mcpdesk.server.schema import Failure, Validator
from mcpdesk.server.tool import Tool, ToolResult
from mcpdesk.server.tool_call import ToolCalls
from mcpdesk.server.tool_figures import Outcome

if TYPE_CHECKING:
    from mcpdesk.server.dispatch import Dispatcher


class GatewayCalls(ToolCalls):
    """Runs the tools of one server, at once or as jobs. Shares what it knows of tools with `base`."""

    def __init__(self, base: Dispatcher) -> None:
        super().__init__(base.server, base.services, base.tasks)
        self.validators = base.tool_calls.validators
        self.server = base.server
        self.refused = base.refused
        """Makes an error of a handler's exception."""

    async def run(self, call: Call) -> JSONObject:
        """The result, or that it was accepted. Raises: ProtocolError as `admit`, and for what went wrong."""
        if gateway_dialect.mode(call.params) == gateway_dialect.ASYNC:
            return await self._begin(call)
        return await super().run(call)

    def answer(self, call: Call, tool: Tool, body: JSONObject) -> JSONObject:
        """The result a request gets. Raises: RemoteProtocolError (-32000) for a program that failed."""
        structured = body.get("structuredContent")
        error = gateway_dialect.execution_error(tool.name, body, structured)
        if error is not None:
            raise error
        return gateway_dialect.superset(
            shaping.tool_result(body, call.terms.revision, tool.output_schema), structured
        )

    def body(self, tool: Tool, output: Any, check_output: Validator | None) -> JSONObject:
        """The CallToolResult a handler's output comes to: callers of the dialect are given all there is."""
        if isinstance(output, ToolResult) and output.whole is not None:
            output = replace(output, structured=output.whole)
        return super().body(tool, output, check_output)

    def sorry(self, message: str) -> JSONObject:
        """The result that says what went wrong with another one."""
        return gateway_dialect.superset(outcome.failed(message), None)

    def refused_arguments(self, tool: Tool, failures: list[Failure]) -> JSONObject:
        """Raises: RemoteProtocolError (-32602) naming each place where the arguments do not fit, always."""
        told = outcome.refused_arguments(tool, failures)["content"][0]["text"]
        where = [{"path": outcome.place(each.path), "message": each.message} for each in failures]
        raise invalid_params(told, {"tool": tool.name, "failures": where})

    async def for_job(self, call: Call, tool: Tool, arguments: JSONObject) -> JSONObject:
        """The CallToolResult behind a job, not shaped for anybody yet."""
        return await self._checked(call, tool, arguments)

    async def _begin(self, call: Call) -> JSONObject:
        tool, arguments = self.admit(call)
        home = self._server.home
        refusal = self.refusal(call, tool, arguments)
        if refusal is None and home is not None and home.approvals.concerns(call, tool):
            from mcpdesk.server.approving import unasked

            reason = await unasked(self._server, self._services, call, tool, home.approvals)
            refusal = outcome.failed(reason) if reason else None
        if refusal is not None:
            return self.answer(call, tool, refusal)
        store, server = self._services.jobs, self._server
        work = JobWork(self, call, tool, arguments)
        try:
            job = store.add(
                server=server.name,
                owner=job_owner(call.principal),
                tool=tool.name,
                peer=call.peer,
                ttl_s=server.limits.job_ttl_s,
                most=server.limits.max_tasks,
                stop=work.stop,
                size=len(codec.encode_part(arguments)),
                feed=Feed(),
            )
        except NoRoom as error:
            raise Refusal(ErrorCode.INTERNAL_ERROR, str(error)) from None
        job.session = session_mark((call.headers or {}).get("mcp-session-id", ""))
        work.begin(job, store, server.limits.jobs_at_once)
        call.job = job
        return gateway_dialect.accepted(job.id)


class GatewayDirect(DirectCalls):
    """The usual calls, with the members of the dialect in their answers."""

    def usual(self, message: JSONObject) -> Usual | None:
        """As the standard one; `"mode": "sync"` is nothing out of the ordinary."""
        params = message.get("params")
        if type(params) is dict and params.get("mode") == gateway_dialect.SYNC:
            del params["mode"]
        return super().usual(message)

    def _frame(self, call: Call, usual: Usual, output: Any) -> bytes:
        if type(output) is not str or usual.check_output is not None:
            return self._whole(call, usual, output)
        terms = call.terms
        name = terms.revision.name
        around = self._around.get(name)
        if around is None or self._identities.get(name) is not around[0]:
            around = self._look_around(terms)
        try:
            said = dumps(output)
            frame = around[1] % (dumps(call.id), said, said)
        except TypeError:  # a lone surrogate, which the long way puts into words
            return self._whole(call, usual, output)
        usual.figure.end(Outcome.OK, call.started)
        return frame

    def _result_of(self, body: JSONObject, terms: Terms) -> JSONObject:
        return gateway_dialect.superset(super()._result_of(body, terms), None)
