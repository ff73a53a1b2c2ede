"""Dispatch of requests to their handlers. Only this module converts exceptions of hosted code to
responses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TYPE_CHECKING

from mcpdesk.errors import (
    LocalProtocolError,
    MissingCapability,
    ProtocolError,
    RemoteProtocolError,
    StorageError,
)
from mcpdesk.protocol import codec, shaping
from mcpdesk.protocol.client_questions import Terms
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, invalid_params
from mcpdesk.protocol.methods import METHODS, Method, check_uri
from mcpdesk.protocol.outlet import LARGE_ANSWER_BYTES
from mcpdesk.protocol.revisions import Revision
from mcpdesk.server.calls.services import Services, created_once
from mcpdesk.server.offer.listing import OfferListing
from mcpdesk.server.offer.server import Server

if TYPE_CHECKING:
    from mcpdesk.auth.principal import Principal
    from mcpdesk.server.background.protocol_tasks import ProtocolTasks
    from mcpdesk.server.calls.running_call import Call
    from mcpdesk.server.calls.tool_calls import ToolCalls

    Work = Callable[[Call], Awaitable[JSONObject]]


class Dispatcher:
    """Answers the requests of one server.

    A conversation passes requests to it after the protocol layer has validated them.
    """

    def __init__(self, server: Server, services: Services) -> None:
        self.server = server
        self.services = services
        self.offers = OfferListing(server)
        for registry in (server.tools, server.resources, server.templates, server.prompts):
            registry.subscribe(self._on_list_change)

    @created_once
    def tasks(self) -> ProtocolTasks:
        """Tasks of the server."""
        from mcpdesk.server.background.protocol_tasks import ProtocolTasks

        return ProtocolTasks(self.server, self.services, self.offers, self.protocol_error)

    @created_once
    def tool_calls(self) -> ToolCalls:
        """Tool calls of the server."""
        from mcpdesk.server.calls.tool_calls import ToolCalls

        return ToolCalls(self.server, self.services, self.tasks, self.protocol_error)

    @created_once
    def methods(self) -> dict[str, Work]:
        """Handlers by method, for all methods whose response needs more than the listings."""
        from mcpdesk.server.calls.handlers import Handlers
        from mcpdesk.server.calls.skill_requests import SkillRequests

        handlers = Handlers(self.server, self.services, self.offers, self.tasks)
        skills = SkillRequests(self.server)
        return {
            "tools/call": self.tool_calls.run,
            "resources/read": handlers.read_resource,
            "prompts/get": handlers.get_prompt,
            "completion/complete": handlers.complete,
            "subscriptions/listen": handlers.listen,
            "skills/get": skills.get,
            "resources/directory/read": skills.read_directory,
            "tasks/get": self.tasks.get,
            "tasks/update": self.tasks.update,
            "tasks/cancel": self.tasks.cancel,
            "tasks/result": self.tasks.result,
            "tasks/list": self.tasks.list_tasks,
        }

    def admit(self, method: str, params: JSONObject, revision: Revision) -> Method:
        """Reject a request if this is possible without running a handler.

        Raises: RemoteProtocolError (-32601, -32602).
        """
        row = METHODS.get(method)
        if row is None or revision.name not in row.revisions:
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, f"Method not found: {method[:80]}")
        if row.capability == "tools":
            is_offered = self.server.tools_enabled
        else:
            is_offered = not row.capability or self.offers.is_offered(row.capability)
        if not is_offered:
            reason = f"Method not found: {method} needs the {row.capability} capability, which is not offered"
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, reason)
        for name, kind in row.param_types:
            value = params.get(name)
            if not isinstance(value, kind):
                raise invalid_params(f"{method} needs params.{name} ({kind.__name__})")
            if name == "uri" and isinstance(value, str):
                check_uri(value, "params.uri")
        return row

    def immediate(
        self,
        identifier: Id,
        row: Method,
        params: JSONObject,
        terms: Terms,
        caller: Principal | None = None,
    ) -> bytes:
        """Return the response to a list method or to `server/discover`. These need no handler.

        `row` is the method. With a `caller`, a list contains only the items that this caller may use.
        """
        if not row.list_key:
            return self._response(identifier, row.name, self.offers.discover_result(terms.revision), terms)
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise invalid_params("cursor must be a string")
        return codec.result_frame(identifier, self.offers.page(row.name, terms.revision, cursor, caller))

    async def run(self, call: Call) -> bytes:
        """Run the handler of a request and return the response.

        Raises: ProtocolError for a JSON-RPC error; CancelledError if the call was ended.
        """
        access = self.server.access
        if access.requires_token:
            call.check_token(True, access.scopes)
        work, starts = self.methods[call.method], self.services.starts
        if not starts.may_begin():
            await starts.wait_for_turn()
        try:
            terms = call.terms
            if call.method != "tools/call":
                call.began = monotonic()
            # A quick check, because most requests need neither several rounds nor a task.
            if terms.revision.is_stateless:
                is_plain = not (terms.capabilities or call.is_later_round)
            else:
                is_plain = "task" not in call.params
            body = await (work(call) if is_plain or call.wants_job else self._in_rounds(call, work))
            call.handled = call.handled or monotonic()
            if (size := codec.estimated_size(body)) >= LARGE_ANSWER_BYTES:
                await call.outlet.reserve(size)
            try:
                return self._response(call.id, call.method, body, terms)
            except LocalProtocolError as error:
                if call.method != "tools/call":
                    raise
                problem = f"{call.params['name']} returned a value that cannot be sent: {error.message}"
                return self._response(call.id, call.method, self.tool_calls.failure(call, problem), terms)
        except ProtocolError:
            raise
        except StorageError as error:
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, str(error)) from error
        except Exception as error:  # readers and renderers are hosted code too, and may return invalid values
            raise await self.protocol_error(call, error) from error

    async def _in_rounds(self, call: Call, work: Work) -> JSONObject:
        """Return the result of a request that may become a task, or may need several rounds."""
        rounds, deadlines = self.services.rounds, self.services.deadlines
        is_tool = call.method == "tools/call"
        if not call.terms.revision.is_stateless:
            if is_tool and self.tasks.is_task_requested(call, self.tool_calls.admit(call)[0].tool):
                return await self.tasks.confirm(await rounds.run_detached(call, work, deadlines))
            return await work(call)
        if not rounds.may_need(call):
            return await work(call)
        if is_tool:
            # A later round resumes a running handler. Its headers and its token must be checked again.
            self.tool_calls.admit(call)
        # This time is long enough for a question to time out, and for its handler to end after that.
        parked_s = self.server.limits.question_timeout_s + self.server.limits.tool_timeout_s
        confirm = self.tasks.confirm if is_tool else None
        return await rounds.run(self.server.name, call, work, deadlines, parked_s, confirm)

    async def protocol_error(self, call: Call, error: Exception) -> ProtocolError:
        """Convert an exception of hosted code to a protocol error, and log it, with a traceback if it is
        unexpected.
        """
        if isinstance(error, ProtocolError):
            return error
        if isinstance(error, MissingCapability):
            return _missing_capability_error(error, call.terms.revision)
        from mcpdesk.server.calls import outcomes

        report = self.services.deadlines.report(outcomes.log_entry(error, self.server.folder))
        level, text, location = await report
        self.services.log(
            level, call.method, text, location, self.server.name, call.trace.id, call.capture_key
        )
        reason = f"Internal error in {call.method}: {outcomes.described(error)}"
        return ProtocolError(ErrorCode.INTERNAL_ERROR, reason)

    def _response(self, identifier: Id, method: str, body: JSONObject, terms: Terms) -> bytes:
        revision, offers = terms.revision, self.offers
        if revision.is_stateless:
            identity = offers.identities.get(revision.name) or offers.implementation(revision)
            body = shaping.result(method, body, revision, identity)
        return codec.response(identifier, body)

    def _on_list_change(self, kind: str) -> None:
        if self.offers.announces(kind):
            self.services.subscriptions.list_changed(self.server.name, kind, self.server.mode)


def _missing_capability_error(error: MissingCapability, revision: Revision) -> ProtocolError:
    """Return the error for a handler that needs a capability that the client lacks."""
    if revision.is_stateless:
        data = {"requiredCapabilities": error.required}
        return RemoteProtocolError(ErrorCode.MISSING_CAPABILITY, error.message, data)
    return ProtocolError(ErrorCode.INTERNAL_ERROR, error.message)
