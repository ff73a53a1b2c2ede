"""Implementation of `tools/call` for all transports, revisions and dialects.

A plan contains the facts about a tool that are the same for all its calls. Calls with questions, protocol
tasks and jobs all use `ToolCalls.outcome`. Only this method counts calls.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.errors import (
    BadArgument,
    HandlerError,
    MissingCapability,
    Refusal,
    ServerStopping,
    StorageError,
)
from mcpdesk.protocol import shaping
from mcpdesk.protocol.headers import check_parameters
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.server.calls import outcomes
from mcpdesk.server.calls.call_figures import OutcomeKind, ToolFigure
from mcpdesk.server.calls.context import Context, ToolCall, make_context
from mcpdesk.server.calls.outcomes import ToolOutcome
from mcpdesk.server.calls.running_call import Call
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import CLAIMS, Tool
from mcpdesk.server.schemas.validation import SchemaError, SchemaFailure, Validator, compile_schema

if TYPE_CHECKING:
    from mcpdesk.jobs.job import Job
    from mcpdesk.server.background.job_work import JobWork
    from mcpdesk.server.background.protocol_tasks import ProtocolTasks
    from mcpdesk.server.background.task_work import ToProtocolError


class ToolPlan(Struct, frozen=True):
    """Facts about a tool. A plan is valid until the tool or the approval rules change."""

    tool: Tool
    check_input: Validator | None
    """Validator of the arguments, or None if the tool cannot be called because a schema does not compile."""
    check_output: Validator | None
    """Validator of the output, or None if the tool has no output schema."""
    problem: str
    """Reason why the tool cannot be called, or "" if it can."""
    may_run_now: bool
    """True if no policy or plan-mode check is needed."""
    figure: ToolFigure
    """Counts the calls of the tool."""


class ToolPlans:
    """Plans of one server's tools. A plan is created at the first call of its tool."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._plans: dict[str, ToolPlan] = {}
        self._tools = server.tools.items
        self._rules_version = -1
        """Version of the approval rules for which the plans were created."""
        self._validators: dict[str, tuple[Tool, Validator, Validator | None]] = {}
        """Compiled schemas. They remain when the rules or other tools change."""

    def find(self, name: str) -> ToolPlan | None:
        """Return the plan of a tool, or None if the tool does not exist."""
        server = self._server
        rules_version = 0 if server.hosted is None else server.hosted.rules_version
        if self._tools is not server.tools.items or self._rules_version != rules_version:
            self._plans.clear()
            self._tools, self._rules_version = server.tools.items, rules_version
        return self._plans.get(name) or self._create_plan(name)

    def validators(self, tool: Tool) -> tuple[Validator, Validator | None]:
        """Return the validators of a tool's input and output. May be called on any thread.

        Raises: SchemaError if a schema does not compile.
        """
        cached = self._validators.get(tool.name)
        if cached is None or cached[0] is not tool:
            check_output = None if tool.output_schema is None else compile_schema(tool.output_schema)
            cached = (tool, compile_schema(tool.input_schema), check_output)
            self._validators[tool.name] = cached
        return cached[1], cached[2]

    def _create_plan(self, name: str) -> ToolPlan | None:
        """Create and cache the plan of a tool. Return None if the tool does not exist."""
        server = self._server
        tool = server.tools.get(name)
        if tool is None:
            return None
        check_input, check_output, problem = None, None, ""
        try:
            check_input, check_output = self.validators(tool)
        except SchemaError as error:
            problem = f"{name} cannot be called: {error}"
        may_run_now = server.hosted is None or (
            server.hosted.may_run_now(tool) and server.hosted.approvals.allows(name)
        )
        figure = server.tool_figures.of(name)
        plan = self._plans[name] = ToolPlan(tool, check_input, check_output, problem, may_run_now, figure)
        return plan


class ToolCalls:
    """Runs the tools of one server."""

    def __init__(
        self,
        server: Server,
        services: Services,
        tasks: ProtocolTasks,
        to_protocol_error: ToProtocolError,
    ) -> None:
        """`to_protocol_error` converts exceptions of hosted code to errors."""
        self._tasks = tasks
        self._to_protocol_error = to_protocol_error
        self._server = server
        self._services = services
        self._plans = ToolPlans(server)

    async def run(self, call: Call) -> JSONObject:
        """Return the CallToolResult in the caller's revision and dialect. Raises: ProtocolError."""
        plan, arguments = self.admit(call)
        if plan.tool.task and not call.wants_job:
            self._tasks.prepare(call, plan.tool)
        outcome = await self.outcome(call, plan, arguments)
        if outcome is None:
            assert call.job is not None and call.dialect is not None
            return call.dialect.accepted(call.job.id)
        standard_result = shaping.tool_result(outcome.body, call.terms.revision, plan.tool.output_schema)
        if call.dialect is None:
            return standard_result
        stored_job = None
        if outcome.body.get("structuredContent"):
            from mcpdesk.server.background.job_work import store_output

            stored_job = await store_output(self._server, self._services.jobs, call, plan.tool, outcome.body)
        return call.dialect.result(plan.tool, outcome, standard_result, stored_job)

    def failure(self, call: Call, message: str) -> JSONObject:
        """Return a CallToolResult with an error, in the caller's revision and dialect."""
        failed = outcomes.failed(message)
        if call.dialect is None:
            return failed
        tool = self.admit(call)[0].tool
        return call.dialect.result(tool, ToolOutcome(failed, OutcomeKind.TOOL_ERROR), failed)

    def admit(self, call: Call) -> tuple[ToolPlan, JSONObject]:
        """Return the plan of the tool and the arguments.

        Raises: ProtocolError for an unknown tool, a missing or insufficient token, and invalid params.
        """
        name = call.params["name"]
        plan = self._plans.find(name)
        if plan is None:
            raise invalid_params(f"Unknown tool: {name[:120]}{self._server.tools.suggestion(name)}")
        tool = plan.tool
        if tool.requires_jwt:
            call.check_token(True, tool.scopes)
        arguments = call.params.get("arguments")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise invalid_params("arguments must be an object")
        if CLAIMS in arguments:
            # Claims come only from a verified token. A client must not set them.
            arguments = {name: value for name, value in arguments.items() if name != CLAIMS}
        if tool.mirrored and call.headers is not None and call.terms.revision.is_stateless:
            check_parameters(tool.mirrored, arguments, call.headers)
        return plan, arguments

    def check(self, name: str, arguments: Any) -> list[SchemaFailure]:
        """Return the schema violations of arguments. May be called on any thread.

        An unknown tool is a violation as well.
        """
        tool = self._server.tools.get(name)
        if tool is None:
            return [SchemaFailure((), f"no tool {name!r}")]
        try:
            return self._plans.validators(tool)[0].failures(arguments)
        except SchemaError as error:
            return [SchemaFailure((), str(error))]

    async def outcome(self, call: Call, plan: ToolPlan, arguments: JSONObject) -> ToolOutcome | None:
        """Reject or run one tool call, and count it. Return None if the call continues as a job.

        Raises: Refusal, MissingCapability, CancelledError.
        """
        began: float | None = None
        try:
            tool_outcome = None if plan.may_run_now else await self._refusal(call, plan, arguments)
            validator = plan.check_input
            if tool_outcome is None and validator is None:
                tool_outcome = ToolOutcome(outcomes.failed(plan.problem), OutcomeKind.CRASH)
            elif tool_outcome is None and validator is not None and not validator.accepts(arguments):
                tool_outcome = outcomes.invalid_arguments_outcome(plan.tool, validator.failures(arguments))
            if tool_outcome is None and not plan.may_run_now:
                call.began = monotonic()
                tool_outcome = await self._disapproval(call, plan, arguments)
            if tool_outcome is None:
                if call.wants_job:
                    call.job = await self._job_work(call, plan, arguments).begin(self._services.jobs)
                    if self._services.watch is not None:
                        self._services.watch.follow(self._server, call, call.job)
                    return None
                began = monotonic()
                if call.waits is None:
                    call.began = began
                tool_outcome = await self._run_handler(call, plan, arguments, began)
        except BaseException as error:
            call.outcome = _outcome_kind(error)
            plan.figure.count(call.outcome, began)
            self._services.log_running_code(call, plan.tool.name, self._server.name)
            raise
        plan.figure.count(tool_outcome.kind, began)
        call.outcome = tool_outcome.kind
        if tool_outcome.kind is OutcomeKind.TIMEOUT:
            self._services.log_running_code(call, plan.tool.name, self._server.name)
        if tool_outcome.kind is OutcomeKind.INVALID_ARGUMENTS:
            name, text = plan.tool.name, tool_outcome.body["content"][0]["text"]
            # The first violation belongs to the first line of the log entry.
            detail = text.replace("\n- ", " ", 1)
            self._services.log("notice", name, detail, "", self._server.name, call.trace.id, call.capture_key)
        return tool_outcome

    async def _refusal(self, call: Call, plan: ToolPlan, arguments: JSONObject) -> ToolOutcome | None:
        """Return the outcome of a call that plan mode, a policy or a stopping server forbids, or None if the
        call is allowed.
        """
        state = self._server.hosted
        if state is None:
            return None
        if not state.has_read_plans:
            try:
                await state.read_plans()
            except StorageError as error:
                reason = f"{plan.tool.name} was not called: plan mode cannot be read. {error.message}"
                return ToolOutcome(outcomes.failed(reason), OutcomeKind.REFUSED)
        reason = state.refusal(plan.tool, call.session, arguments)
        return ToolOutcome(outcomes.failed(reason), OutcomeKind.REFUSED) if reason else None

    async def _disapproval(self, call: Call, plan: ToolPlan, arguments: JSONObject) -> ToolOutcome | None:
        """Return the outcome of a call that a person did not approve, or None if the call may begin."""
        state, tool = self._server.hosted, plan.tool
        assert state is not None
        if call.is_desk or not state.approvals.requires_question(tool.name):
            return None
        from mcpdesk.server.asks import approval_questions

        server, services, approvals = self._server, self._services, state.approvals
        try:
            if call.wants_job:  # the caller gets a response at once; the job asks a person
                reason = (
                    await approval_questions.decide_without_question(server, services, call, tool, approvals)
                    or ""
                )
            else:
                reason = await approval_questions.wait_for_approval(
                    server, services, call, tool, arguments, approvals
                )
                # The rules may have changed while the person was asked.
                reason = reason or state.refusal(tool, call.session, arguments)
        except HandlerError as error:
            reason = error.message
        return ToolOutcome(outcomes.failed(reason), OutcomeKind.REFUSED) if reason else None

    async def _run_handler(
        self, call: Call, plan: ToolPlan, arguments: JSONObject, began: float
    ) -> ToolOutcome:
        """Run hosted code, which may raise anything, and return its outcome."""
        tool, server = plan.tool, self._server
        limit_s = tool.timeout_s
        if limit_s is None:
            # No request waits for the result of a job or a task.
            is_lasting = call.feed is not None or (call.round is not None and call.round.is_task)
            limit_s = server.limits.job_timeout_s if is_lasting else server.limits.tool_timeout_s
        try:
            if server.create_context is None and server.lifespan is None and server.around_call is None:
                context = Context(server, self._services, call, tool.name)
                if server.hosted is None or server.hosted.folder_loops is None:
                    work = tool.handler(arguments, context)
                else:
                    work = self._invoke(tool, arguments, context)
            else:
                work = self._run_in_context(call, tool, arguments)
            output = await self._services.deadlines.run(work, call, limit_s)
            call.handled = monotonic()
        except MissingCapability as error:
            if call.terms.revision.is_stateless:
                raise
            return ToolOutcome(outcomes.failed(error.message), OutcomeKind.TOOL_ERROR)
        except Refusal:
            raise
        except BadArgument as error:
            return outcomes.invalid_arguments_outcome(tool, [SchemaFailure((error.name,), error.reason)])
        except ServerStopping as error:  # the handler did not fail
            log_entry = (tool.name, error.message, "", server.name, call.trace.id, call.capture_key)
            self._services.log("notice", *log_entry)
            return ToolOutcome(outcomes.exception_result(tool.name, error), OutcomeKind.TOOL_ERROR)
        except Exception as error:  # a handler is hosted code
            report = self._services.deadlines.report(outcomes.log_entry(error, server.folder))
            level, text, location = await report
            self._services.log(level, tool.name, text, location, server.name, call.trace.id, call.capture_key)
            is_late = isinstance(error, TimeoutError) and monotonic() - began >= limit_s
            kind = OutcomeKind.CRASH
            if is_late:
                kind = OutcomeKind.TIMEOUT
            elif isinstance(error, HandlerError):
                kind = OutcomeKind.TOOL_ERROR
            return ToolOutcome(outcomes.exception_result(tool.name, error), kind)
        body = outcomes.tool_body(tool, output, plan.check_output)
        return ToolOutcome(body, OutcomeKind.TOOL_ERROR if body["isError"] else OutcomeKind.OK)

    async def _run_in_context(self, call: Call, tool: Tool, arguments: JSONObject) -> Any:
        context = await make_context(self._server, self._services, call, tool.name)
        if self._server.around_call is None:
            return await self._invoke(tool, arguments, context)
        return await self._server.around_call(
            ToolCall(tool.name, arguments, context),
            lambda changed_call: self._invoke(tool, changed_call.arguments, context),
        )

    def _invoke(self, tool: Tool, arguments: JSONObject, context: Context) -> Awaitable[Any]:
        hosted = self._server.hosted
        if hosted is None or hosted.folder_loops is None:
            return tool.handler(arguments, context)
        from mcpdesk.server.calls.threads.loop_context import invoke  # imported late

        return invoke(
            self._server,
            tool.is_folder_code,
            lambda handler_context: tool.handler(arguments, handler_context),
            context,
        )

    def repeat(self, job: Job) -> bool:
        """Run a job again, because the process that ran it has ended. Return False if this is impossible."""
        from mcpdesk.jobs.feed import CallFeed
        from mcpdesk.jobs.job import NOT_ENDED
        from mcpdesk.protocol.outlet import NULL_OUTLET
        from mcpdesk.server.background.repeatable_calls import RESTARTED, decode_call

        repeatable = decode_call(job.request)
        plan = None if repeatable is None else self._plans.find(job.tool)
        if repeatable is None or plan is None or not plan.tool.resume:
            return False
        job.started, job.ending = None, NOT_ENDED
        job.feed = None if job.feed is None else CallFeed()
        job.message = RESTARTED
        if not self._services.jobs.restore(job):
            return False
        call = repeatable.call(NULL_OUTLET)
        if job.feed is not None:
            arguments = call.params["arguments"]
            self._job_work(call, plan, arguments).start(job, self._services.jobs)
        else:
            self._tasks.repeat(job, call, self.run)
        return True

    def _job_work(self, call: Call, plan: ToolPlan, arguments: JSONObject) -> JobWork:
        """Return the work of a call that continues after its response."""
        from mcpdesk.server.background.job_work import JobWork

        async def run(job_call: Call) -> ToolOutcome:
            tool_outcome = await self.outcome(job_call, plan, arguments)
            assert tool_outcome is not None
            return tool_outcome

        return JobWork(self._server, call, plan.tool, arguments, run, self._to_protocol_error)


def _outcome_kind(error: BaseException) -> OutcomeKind:
    """Return the outcome of a call that ended with a protocol error or without a response."""
    if isinstance(error, Refusal):
        return OutcomeKind.REFUSED
    if isinstance(error, MissingCapability):
        return OutcomeKind.TOOL_ERROR
    return OutcomeKind.CANCELLED if isinstance(error, CancelledError) else OutcomeKind.CRASH
