"""Method to handler, and the only place where hosted code's exceptions become answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mcpdesk.errors import LocalProtocolError, MissingCapability, ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec, shaping
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.methods import METHODS, Method, check_uri
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.direct import DirectCalls
from mcpdesk.server.offers import Offers
from mcpdesk.server.part import part
from mcpdesk.server.server import Server
from mcpdesk.server.services import Services

if TYPE_CHECKING:
    from mcpdesk.server.call import Call
    from mcpdesk.server.tasks import Tasks
    from mcpdesk.server.tool_call import ToolCalls

    Runs = dict[str, Callable[[Call], Awaitable[JSONObject]]]


class Dispatcher:
    """Answers the requests of one server. Conversations hand it what the protocol has already checked."""

    def __init__(self, server: Server, services: Services) -> None:
        self.server = server
        self.services = services
        self.offers = Offers(server)
        self.direct = DirectCalls(self)
        for registry in (server.tools, server.resources, server.templates, server.prompts):
            registry.subscribe(self._changed)

    @part
    def tasks(self) -> Tasks:
        """Calls that became tasks."""
        from mcpdesk.server.tasks import Tasks

        return Tasks(self.server, self.services, self.offers, self.refused)

    @part
    def tool_calls(self) -> ToolCalls:
        """Runs the tools."""
        from mcpdesk.server.tool_call import ToolCalls

        return ToolCalls(self.server, self.services, self.tasks)

    @part
    def runs(self) -> Runs:
        """What answers each method that is not answered at once."""
        from mcpdesk.server.handlers import Handlers

        handlers = Handlers(self.server, self.services, self.offers, self.tasks)
        return {
            "tools/call": self.tool_calls.run,
            "resources/read": handlers.read_resource,
            "prompts/get": handlers.get_prompt,
            "completion/complete": handlers.complete,
            "subscriptions/listen": handlers.listen,
            "tasks/get": self.tasks.get,
            "tasks/update": self.tasks.update,
            "tasks/cancel": self.tasks.cancel,
            "tasks/result": self.tasks.result,
            "tasks/list": self.tasks.listed,
        }

    def admit(self, method: str, params: JSONObject, revision: Revision) -> Method:
        """Refuse what can be refused without running anything.

        Raises: RemoteProtocolError (-32601, -32602).
        """
        row = METHODS.get(method)
        if row is None or not row.serves(revision):
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, f"Method not found: {method[:80]}")
        if row.capability and not self.offers.is_offered(row.capability):
            reason = f"Method not found: {method} needs the {row.capability} capability, which is not offered"
            raise RemoteProtocolError(ErrorCode.METHOD_NOT_FOUND, reason)
        for name, kind in row.param_types:
            value = params.get(name)
            if not isinstance(value, kind):
                raise invalid_params(f"{method} needs params.{name} ({kind.__name__})")
            if name == "uri" and isinstance(value, str):
                check_uri(value, "params.uri")
        return row

    def immediate(self, row: Method, params: JSONObject, terms: Terms) -> bytes | None:
        """The encoded result of a method that runs no handler; None when `run` must be awaited."""
        if row.list_key:
            cursor = params.get("cursor")
            if cursor is not None and not isinstance(cursor, str):
                raise invalid_params("cursor must be a string")
            return self.offers.page(row.name, terms.revision, cursor)
        if row.name == "server/discover":
            return self._encoded(row.name, self.offers.discover_result(terms.revision), terms)
        return None

    async def run(self, call: Call) -> bytes:
        """Run the handler behind a request and return the encoded result.

        Raises: ProtocolError for what is a JSON-RPC error; CancelledError when the call was ended.
        """
        call.check_token(self.server.access.requires_token, self.server.access.scopes)
        return await self.encoded(call, self._run(call))

    async def encoded(self, call: Call, work: Awaitable[JSONObject]) -> bytes:
        """The encoded result of what answers a request. Raises: as `run`."""
        try:
            return self.encode(call, await work)
        except ProtocolError:
            raise
        except Exception as error:  # readers and renderers are hosted code, and so is what they return
            raise self.refused(call, error) from error

    def encode(self, call: Call, body: JSONObject) -> bytes:
        """A result as a request gets it; a tool's that is no JSON is put into words.

        Raises: LocalProtocolError for any other.
        """
        try:
            return self._encoded(call.method, body, call.terms)
        except LocalProtocolError as error:
            if call.method != "tools/call":
                raise
            told = f"{call.params['name']} returned what cannot be sent: {error.message}"
            return self._encoded(call.method, self.tool_calls.sorry(told), call.terms)

    async def _run(self, call: Call) -> JSONObject:
        work = self.runs[call.method]
        rounds = self.services.rounds
        if not rounds.may_need(call):
            if "task" in call.params and self._is_to_be_task(call):
                return await rounds.run_departing(call, work, self.services.deadlines)
            return await work(call)
        if call.method == "tools/call":
            # Later rounds go on with a handler that runs already, but their headers count as much.
            self.tool_calls.admit(call)
        # Long enough for a question to time out, and for its handler to end with that.
        parked_s = self.server.limits.question_timeout_s + self.server.limits.tool_timeout_s
        return await rounds.run(self.server.name, call, work, self.services.deadlines, parked_s)

    def _is_to_be_task(self, call: Call) -> bool:
        if call.method != "tools/call" or call.terms.revision.is_stateless:
            return False
        return self.tasks.is_asked_for(call, self.tool_calls.admit(call)[0])

    def refused(self, call: Call, error: Exception) -> ProtocolError:
        """The error an exception of hosted code comes to."""
        if isinstance(error, ProtocolError):
            return error
        if isinstance(error, MissingCapability):
            return _uncapable(error, call.terms.revision)
        from mcpdesk.server import outcome

        text, where = outcome.author_lines(error, self.server.folder)
        self.services.log("error", call.method, text, where, self.server.name, call.trace.id)
        reason = f"Internal error in {call.method}: {outcome.described(error)}"
        return ProtocolError(ErrorCode.INTERNAL_ERROR, reason)

    def _encoded(self, method: str, body: JSONObject, terms: Terms) -> bytes:
        identity = self.offers.implementation(terms.revision)
        return codec.encode_part(shaping.result(method, body, terms.revision, identity))

    def _changed(self, kind: str) -> None:
        if self.offers.tells(kind):
            self.services.subscriptions.list_changed(self.server.name, kind, self.server.mode)


def _uncapable(error: MissingCapability, revision: Revision) -> ProtocolError:
    """What a request gets whose handler needed more than the client offers."""
    if revision.is_stateless:
        data = {"requiredCapabilities": error.required}
        return RemoteProtocolError(ErrorCode.MISSING_CAPABILITY, error.message, data)
    return ProtocolError(ErrorCode.INTERNAL_ERROR, error.message)
