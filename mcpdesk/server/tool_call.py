"""One `tools/call`: arguments checked, handler run within its limit, output checked."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable
from time import monotonic
from typing import Any

from mcpdesk.errors import BadArgument, HandlerError, MissingCapability, Refusal
from mcpdesk.protocol import shaping
from mcpdesk.protocol.headers import check_parameters
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.server import outcome
from mcpdesk.server.call import Call
from mcpdesk.server.context import Context, make_context
from mcpdesk.server.home import Home
from mcpdesk.server.hosted import run_hosted
from mcpdesk.server.schema import Failure, SchemaError, Validator
from mcpdesk.server.server import Server
from mcpdesk.server.services import Services
from mcpdesk.server.tasks import Tasks
from mcpdesk.server.tool import CLAIMS, Tool
from mcpdesk.server.tool_figures import Outcome
from mcpdesk.server.validators import Validators


class _WrongArgument(Exception):
    """A handler could not use an argument that fits the schema."""

    def __init__(self, failures: list[Failure]) -> None:
        super().__init__()
        self.failures = failures


def outcome_of(body: JSONObject) -> Outcome:
    """How a call ended that came to a result."""
    return Outcome.TOOL_ERROR if body.get("isError") is True else Outcome.OK


class ToolCalls:
    """Runs the tools of one server."""

    def __init__(self, server: Server, services: Services, tasks: Tasks) -> None:
        self.validators = Validators()
        self._tasks = tasks
        self._server = server
        self._services = services

    async def run(self, call: Call) -> JSONObject:
        """The CallToolResult. Raises: ProtocolError as `admit`."""
        tool, arguments = self.admit(call)
        if tool.task:
            self._tasks.settle(call, tool)
        return self.answer(call, tool, await self._checked(call, tool, arguments))

    def answer(self, call: Call, tool: Tool, body: JSONObject) -> JSONObject:
        """A CallToolResult as the revision spoken has it."""
        return shaping.tool_result(body, call.terms.revision, tool.output_schema)

    def sorry(self, message: str) -> JSONObject:
        """The CallToolResult that says what went wrong with another one."""
        return outcome.failed(message)

    def refused_arguments(self, tool: Tool, failures: list[Failure]) -> JSONObject:
        """The CallToolResult that names each place where the arguments do not fit."""
        return outcome.refused_arguments(tool, failures)

    def admit(self, call: Call) -> tuple[Tool, JSONObject]:
        """The tool and its arguments. Raises: ProtocolError for an unknown tool or misshapen params."""
        name = call.params["name"]
        tool = self._server.tools.get(name)
        if tool is None:
            raise invalid_params(f"Unknown tool: {name[:120]}{self._server.tools.suggestion(name)}")
        call.check_token(tool.requires_jwt, tool.scopes)
        arguments = call.params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise invalid_params("arguments must be an object")
        if CLAIMS in arguments:
            # Claims come from a verified token, whatever a client says of itself.
            arguments = {name: value for name, value in arguments.items() if name != CLAIMS}
        if tool.mirrored and call.headers is not None and call.terms.revision.is_stateless:
            check_parameters(tool.mirrored, arguments, call.headers)
        return tool, arguments

    def check(self, name: str, arguments: Any) -> list[Failure]:
        """Where arguments do not fit a tool's schema; safe from any thread. Unknown tools accept nothing."""
        tool = self._server.tools.get(name)
        if tool is None:
            return [Failure((), f"there is no tool {name!r}")]
        try:
            return self.validators.of(tool)[0].failures(arguments)
        except SchemaError as error:
            return [Failure((), str(error))]

    def checks(self, tool: Tool) -> tuple[Validator, Validator | None] | None:
        """The validators of what a tool takes and gives; None when one does not compile."""
        try:
            return self.validators.of(tool)
        except SchemaError:
            return None

    def body(self, tool: Tool, output: Any, check_output: Validator | None) -> JSONObject:
        """The CallToolResult a handler's output comes to."""
        return outcome.tool_body(tool, output, check_output)

    def refusal(self, call: Call, tool: Tool, arguments: JSONObject) -> JSONObject | None:
        """The CallToolResult of a call that may not even begin; None: it may."""
        home, figure = self._server.home, self._server.tool_figures.of(tool.name)
        if home is not None and (reason := home.refusal(tool, call.session, arguments)):
            figure.refuse(Outcome.REFUSED)
            return outcome.failed(reason)
        try:
            check_input, _ = self.validators.of(tool)
        except SchemaError as error:
            figure.refuse(Outcome.CRASH)
            return outcome.failed(f"{tool.name} cannot be called: {error}")
        if not check_input.accepts(arguments):
            figure.refuse(Outcome.INVALID_ARGUMENTS)
            return self.refused_arguments(tool, check_input.failures(arguments))
        return None

    async def _checked(self, call: Call, tool: Tool, arguments: JSONObject) -> JSONObject:
        refusal = self.refusal(call, tool, arguments)
        if refusal is not None:
            return refusal
        home, (_, check_output) = self._server.home, self.validators.of(tool)
        if home is not None and home.approvals.concerns(call, tool):
            reason = await self._unapproved(call, tool, arguments, home)
            if reason:
                self._server.tool_figures.of(tool.name).refuse(Outcome.REFUSED)
                return outcome.failed(reason)
        return await self.conclude(call, tool, self._handled(call, tool, arguments), check_output)

    async def _unapproved(self, call: Call, tool: Tool, arguments: JSONObject, home: Home) -> str:
        """Why it may not go on; while somebody was asked, other rules may have come into force."""
        from mcpdesk.server.approving import unapproved

        try:
            reason = await unapproved(self._server, self._services, call, tool, arguments, home.approvals)
        except HandlerError as error:
            return error.message
        return reason or home.refusal(tool, call.session, arguments)

    async def conclude(
        self,
        call: Call,
        tool: Tool,
        work: Awaitable[Any],
        check_output: Validator | None,
        began: float | None = None,
    ) -> JSONObject:
        """The CallToolResult of hosted code, whatever becomes of it; it began just now, or at `began`."""
        ended = Outcome.CRASH
        began = monotonic() if began is None else began
        try:
            body, ended = await self._concluded(call, tool, work, check_output, began)
            return body
        except Refusal:
            ended = Outcome.REFUSED
            raise
        except MissingCapability:
            ended = Outcome.TOOL_ERROR
            raise
        except _WrongArgument as wrong:
            ended = Outcome.INVALID_ARGUMENTS
            return self.refused_arguments(tool, wrong.failures)
        except CancelledError:
            ended = Outcome.CANCELLED
            raise
        finally:
            self._server.tool_figures.of(tool.name).end(ended, began)

    async def _concluded(
        self, call: Call, tool: Tool, work: Awaitable[Any], check_output: Validator | None, began: float
    ) -> tuple[JSONObject, Outcome]:
        limit_s = self._limit_s(call) if tool.timeout_s is None else tool.timeout_s
        try:
            output = await run_hosted(work, call, self._services.deadlines, limit_s)
        except MissingCapability as error:
            if call.terms.revision.is_stateless:
                raise
            return outcome.failed(error.message), Outcome.TOOL_ERROR
        except Refusal:
            raise
        except BadArgument as error:
            raise _WrongArgument([Failure((error.name,), error.reason)]) from None
        except Exception as error:  # a handler is hosted code
            text, where = outcome.author_lines(error, self._server.folder)
            self._services.log("error", tool.name, text, where, self._server.name, call.trace.id)
            is_late = isinstance(error, TimeoutError) and monotonic() - began >= limit_s
            said = isinstance(error, HandlerError)
            ended = Outcome.TIMEOUT if is_late else Outcome.TOOL_ERROR if said else Outcome.CRASH
            return outcome.raised(tool.name, error), ended
        body = self.body(tool, output, check_output)
        return body, outcome_of(body)

    def _limit_s(self, call: Call) -> float:
        """The limit of a tool that has none of its own: nobody waits for the answer of a job or a task."""
        limits, is_task = self._server.limits, call.round is not None and call.round.is_task
        return limits.job_timeout_s if is_task or call.feed is not None else limits.tool_timeout_s

    def _handled(self, call: Call, tool: Tool, arguments: JSONObject) -> Awaitable[Any]:
        if self._server.create_context is None:
            return tool.handler(arguments, Context(self._server, self._services, call, tool.name))
        return self._handled_in_context(call, tool, arguments)

    async def _handled_in_context(self, call: Call, tool: Tool, arguments: JSONObject) -> Any:
        context = await make_context(self._server, self._services, call, tool.name)
        return await tool.handler(arguments, context)
