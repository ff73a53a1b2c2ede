"""The gateway dialect beside the standard: a dispatcher and a conversation that know both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcpdesk.auth.principal import Principal
from mcpdesk.jobs.job import Job
from mcpdesk.protocol import codec, gateway_dialect
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.terms import Terms
from mcpdesk.server.call import Call, Outlet
from mcpdesk.server.conversation import Conversation
from mcpdesk.server.dispatch import Dispatcher
from mcpdesk.server.gateway_calls import GatewayCalls, GatewayDirect
from mcpdesk.server.job_reader import JobReader
from mcpdesk.server.part import part
from mcpdesk.server.reply import ACCEPTED, Answer, Reply

if TYPE_CHECKING:
    from mcpdesk.server.dispatch import Runs
    from mcpdesk.server.tasks import Tasks

INITIALIZED = codec.encode({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
PACE_S = 0.05
"""Between two looks at a job whose client listens: what comes meanwhile is told together."""


class GatewayDispatcher(Dispatcher):
    """Answers as `base` does, but for the tools. Changes of lists are told by `base` alone."""

    def __init__(self, base: Dispatcher) -> None:
        self.server, self.services = base.server, base.services
        self.offers = base.offers
        self._base = base
        self.direct = GatewayDirect(self)

    @part
    def tasks(self) -> Tasks:
        """Calls that became tasks, whichever way they came."""
        return self._base.tasks

    @part
    def tool_calls(self) -> GatewayCalls:
        """Runs the tools."""
        return GatewayCalls(self._base)

    @part
    def runs(self) -> Runs:
        """What answers each method that is not answered at once."""
        return self._base.runs | {"tools/call": self.tool_calls.run}

    async def _run(self, call: Call) -> JSONObject:
        if call.method == "tools/call" and call.params.get("mode") == gateway_dialect.ASYNC:
            # Answered in one round, whatever its client could be asked.
            return await self.tool_calls.run(call)
        return await super()._run(call)


class GatewayConversation(Conversation):
    """One peer that speaks the dialect, or the standard, or both. A handshake is not asked for."""

    needs_handshake = False

    def __init__(
        self,
        dispatcher: Dispatcher,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        on_terms: Callable[[Terms], None] | None = None,
    ) -> None:
        super().__init__(dispatcher, transport, peer, push, on_terms)
        self.session.adopt(gateway_dialect.REVISION)
        self.terms = self.session.terms
        self._telling: set[asyncio.Task[None]] = set()

    def close(self, reason: str = "connection closed") -> None:
        """The channel is gone: nobody is told of jobs any more, which go on."""
        super().close(reason)
        for task in self._telling:
            task.cancel()

    def _serve(
        self,
        message: JSONObject,
        identifier: Id,
        is_stateless: bool,
        outlet: Outlet,
        headers: Mapping[str, str] | None,
        principal: Principal,
    ) -> Answer:
        if is_stateless:
            return super()._serve(message, identifier, is_stateless, outlet, headers, principal)
        method = message["method"]
        if method in gateway_dialect.STATUS_METHODS:
            server = self.dispatcher.server
            body = {"status": "ok", "name": server.name, "version": server.version}
            return (200, codec.response(identifier, body))
        message = gateway_dialect.translated(message)
        answer = super()._serve(message, identifier, is_stateless, outlet, headers, principal)
        if method == "initialize" and isinstance(answer, tuple) and self._hears_of_jobs:
            return self._opened(answer)
        return answer

    @property
    def _hears_of_jobs(self) -> bool:
        """Whether messages of ours reach the peer at any time, and it expects them."""
        return self.transport == "websocket" and self._push is not None

    def _opened(self, answer: Reply) -> Reply:
        """The handshake's result, and right behind it that we are ready."""
        _, body = answer
        assert self._push is not None and body is not None
        self._push(body)
        self._push(INITIALIZED)
        return ACCEPTED

    async def _run(self, call: Call) -> Reply:
        reply = await super()._run(call)
        if call.job is not None and self._hears_of_jobs:
            # The answer leaves in this turn of the loop: what is told of the job comes after it.
            asyncio.get_running_loop().call_soon(self._begin_telling, call.job, call)
        return reply

    def _begin_telling(self, job: Job, call: Call) -> None:
        if self._is_closed:
            return
        task = asyncio.get_running_loop().create_task(self._tell(job, call))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, job: Job, call: Call) -> None:
        """Report on a job until it is over. A peer that does not keep up misses what lies in between."""
        token: dict[str, Any] = {}
        if call.progress_token is not None:
            token["progressToken"] = call.progress_token
        with JobReader(job) as reader:
            while True:
                for news in reader.news():
                    call.outlet.send(codec.notification(gateway_dialect.PROGRESS, token | news))
                await call.outlet.drain()
                if reader.has_told_all:
                    return
                await reader.changed()
                await asyncio.sleep(PACE_S)
