"""The usual `tools/call`, from a decoded message to its answer in one coroutine.

Usual is what most calls are: the tool may run without anybody being asked, and knows neither tasks nor
tokens nor mirrored arguments, and the caller is not one that can be asked in further rounds. Everything else
goes the long way, whose rules hold here too: what is wrong with a request, what a handler raises, and what is
more than a text is handed on to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from orjson import dumps

from mcpdesk.auth.access import NOTHING_ASKED
from mcpdesk.auth.principal import Principal
from mcpdesk.current_task import current_task
from mcpdesk.protocol import client_features, codec, shaping
from mcpdesk.protocol.content import text
from mcpdesk.protocol.jsonrpc import LARGEST_ID, JSONObject
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.context import Context
from mcpdesk.server.reply import ACCEPTED, Reply
from mcpdesk.server.tool_figures import Outcome, ToolFigure

if TYPE_CHECKING:
    from mcpdesk.server.call import Call
    from mcpdesk.server.conversation import Conversation
    from mcpdesk.server.dispatch import Dispatcher
    from mcpdesk.server.schema import Validator
    from mcpdesk.server.tool import Tool

METHOD = "tools/call"
_MARK = "\ue000"


class Usual(Struct, frozen=True):
    """A tool without anything out of the ordinary, ready to be called."""

    tool: Tool
    accepts: Callable[[Any], bool]
    check_output: Validator | None
    figure: ToolFigure


class DirectCalls:
    """Calls the usual tools of one server."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._server = dispatcher.server
        self._services = dispatcher.services
        self._tools = dispatcher.server.tools
        self.usuals: dict[str, Usual] = {}
        """Those looked at, by name. Holds after `are_usual`, until the loop turns."""
        self._items = self._tools.items
        self._rules = 0
        """The tools, and the rules the usual ones were looked at under."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._identities = dispatcher.offers.identities
        self._around: dict[str, tuple[JSONObject, bytes]] = {}

    def usual(self, message: JSONObject) -> Usual | None:
        """The tool of a `tools/call` that has nothing out of the ordinary itself; None: not this way."""
        identifier, params = message.get("id"), message.get("params")
        if len(message) != 4 or type(params) is not dict or message.get("jsonrpc") != "2.0":
            return None
        if type(identifier) is int:
            if not -LARGEST_ID <= identifier <= LARGEST_ID:
                return None
        elif type(identifier) is not str:
            return None
        name = params.get("name")
        if type(name) is not str or type(params.get("arguments")) is not dict:
            return None
        is_usual = len(params) == (3 if "_meta" in params else 2) and self.are_usual()
        return self.known(name) if is_usual else None

    def are_usual(self) -> bool:
        """Whether the server has nothing out of the ordinary itself; to be asked before `usuals`."""
        server = self._server
        if server.create_context is not None or not server.tools_enabled:
            return False
        home = server.home
        if self._items is not self._tools.items or (home is not None and home.rules != self._rules):
            self.usuals.clear()
            self._items, self._rules = self._tools.items, 0 if home is None else home.rules
        return True

    def may_begin(self, principal: Principal) -> bool:
        """Whether calls of a caller may go this way, as far as the server is concerned."""
        return (self._server.access is NOTHING_ASKED or self.admits(principal)) and self.are_usual()

    def admits(self, principal: Principal) -> bool:
        """Whether a caller has what the server asks of each."""
        access = self._server.access
        return access is NOTHING_ASKED or access.admits(principal)

    def known(self, name: str) -> Usual | None:
        """The tool of that name, if it has nothing out of the ordinary now."""
        return self.usuals.get(name) or self._look_at(name)

    def suits(self, terms: Terms) -> bool:
        """Whether calls under these terms go this way."""
        if terms.unknown_level is not None:
            return False
        return not terms.revision.is_stateless or not (
            client_features.can_be_asked(terms) or client_features.declares_tasks(terms)
        )

    async def run(self, call: Call, usual: Usual, conversation: Conversation) -> Reply:
        """The reply to a call."""
        call.task = current_task(self._loop or self._look_for_loop())
        call.deadline = monotonic() + call.limit_s  # what ran before it in this turn is not its time
        try:
            if call.stop:
                return ACCEPTED
            tool = usual.tool
            try:
                if tool.plain is not None:
                    output = await tool.plain(**call.params["arguments"])
                else:
                    context = Context(self._server, self._services, call, tool.name)
                    output = await tool.handler(call.params["arguments"], context)
                if call.stop or self._services.deadlines.note_overrun(call):
                    raise asyncio.CancelledError
            except BaseException as error:  # whatever a handler raises, which the long way judges
                result = await self._dispatcher.encoded(call, self._failed(call, usual, error))
            else:
                frame = self._frame(call, usual, output)
                return ACCEPTED if call.stop else (200, frame)
            finally:
                if call.is_settled:
                    self._services.deadlines.forget(call)
            return ACCEPTED if call.stop else (200, codec.result_frame(call.id, result))
        except Exception as error:  # what was returned is hosted code as well, and says how it is spelt
            told = self._dispatcher.refused(call, error)
            return conversation.refused(call.id, told, call.terms.revision.is_stateless)
        except asyncio.CancelledError:
            if not call.stop:
                raise
            return ACCEPTED
        finally:
            conversation.ended(call)

    def _frame(self, call: Call, usual: Usual, output: Any) -> bytes:
        """The whole answer, put together at once: a large text is copied no more often than that."""
        terms = call.terms
        if type(output) is str and usual.check_output is None:
            name = terms.revision.name
            around = self._around.get(name)
            if around is None or self._identities.get(name) is not around[0]:
                around = self._look_around(terms)
            try:
                frame = around[1] % (dumps(call.id), dumps(output))
            except TypeError:  # a lone surrogate, which the long way puts into words
                pass
            else:
                usual.figure.end(Outcome.OK, call.started)
                return frame
        return self._whole(call, usual, output)

    def _whole(self, call: Call, usual: Usual, output: Any) -> bytes:
        """The answer to whatever was returned."""
        tool_calls = self._dispatcher.tool_calls
        ended = Outcome.CRASH
        try:
            body = tool_calls.body(usual.tool, output, usual.check_output)
            ended = Outcome.TOOL_ERROR if body["isError"] else Outcome.OK
        finally:
            usual.figure.end(ended, call.started)
        result = self._dispatcher.encode(call, tool_calls.answer(call, usual.tool, body))
        return codec.result_frame(call.id, result)

    async def _failed(self, call: Call, usual: Usual, error: BaseException) -> JSONObject:
        """What the long way makes of an exception."""
        tool_calls = self._dispatcher.tool_calls
        body = await tool_calls.conclude(call, usual.tool, _raised(error), usual.check_output, call.started)
        return tool_calls.answer(call, usual.tool, body)

    def _look_for_loop(self) -> asyncio.AbstractEventLoop:
        """The core's loop, which is kept: to ask for it costs a call of the system."""
        self._loop = asyncio.get_running_loop()
        return self._loop

    def _look_at(self, name: str) -> Usual | None:
        tool = self._tools.get(name)
        if tool is None or tool.task or tool.requires_jwt or tool.mirrored:
            return None
        home = self._server.home
        if home is not None and not (home.is_free(tool) and home.approvals.allows(name)):
            return None
        checks = self._dispatcher.tool_calls.checks(tool)
        if checks is None:
            return None
        check_input, check_output = checks
        usual = self.usuals[name] = Usual(
            tool, check_input.accepts, check_output, self._server.tool_figures.of(name)
        )
        return usual

    def _look_around(self, terms: Terms) -> tuple[JSONObject, bytes]:
        """What stands around the id and each place of the text in an answer of one text."""
        identity = self._dispatcher.offers.implementation(terms.revision)
        body = self._result_of({"content": [text(_MARK)], "isError": False}, terms)
        whole = dumps(shaping.result(METHOD, body, terms.revision, identity))
        pieces = [piece.replace(b"%", b"%%") for piece in whole.split(dumps(_MARK))]
        form = b'{"jsonrpc":"2.0","id":%%b,"result":%b}' % b"%b".join(pieces)
        around = self._around[terms.revision.name] = (identity, form)
        return around

    def _result_of(self, body: JSONObject, terms: Terms) -> JSONObject:
        return shaping.tool_result(body, terms.revision)


async def _raised(error: BaseException) -> Any:
    raise error
