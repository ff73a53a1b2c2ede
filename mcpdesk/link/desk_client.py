"""The desk as a client: requests over the in-memory channel, as the peer `desk`. Runs on the core's loop.

It speaks either era. Where the server asks back, in a request of its own or in a result that wants more, the
answers come from `DeskAnswers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from mcpdesk.errors import ProtocolError
from mcpdesk.hosting.channel import Channel
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.held_token import HeldToken
from mcpdesk.link.desk_answers import DeskAnswers, Roots
from mcpdesk.link.desk_call import DeskCall
from mcpdesk.link.desk_task import DeskTask
from mcpdesk.link.desk_watch import DeskWatch
from mcpdesk.link.values import Progress
from mcpdesk.protocol import codec, task_shapes
from mcpdesk.protocol.revisions import LATEST, Revision
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.version import __version__

IDENTITY = {"name": "desk", "version": __version__}
LEVEL = "debug"
"""The desk wants to hear everything."""

Run = Callable[[Callable[[], object]], None]
"""Runs a function on the core's loop soon; callable from any thread."""


class DeskClient:
    """The desk's connection to one server. Opened by its first request."""

    def __init__(
        self, endpoint: HostedEndpoint, run: Run, roots: Roots = tuple, revision: Revision = LATEST
    ) -> None:
        self._run = run
        self._tools = endpoint.server.tools
        self._revision = revision
        self._has_begun = revision.is_stateless
        self._channel = Channel(endpoint, "memory", "desk", self._received)
        self.token = HeldToken(endpoint, self._channel.dialogue, run)
        self._calls: dict[int, DeskCall] = {}
        self._answering: dict[Any, asyncio.Task[None]] = {}
        self._waiting: dict[int, asyncio.Future[tuple[dict[str, Any], bytes]]] = {}
        """Requests about a call that is a task."""
        self._ids = count(1)
        self._answers = DeskAnswers(endpoint.server, endpoint.dispatcher.services.inbox, roots)
        self.watch = DeskWatch(revision, self._send, self._withdraw)

    @property
    def connection(self) -> int:
        """The recorder's number of this connection."""
        return self._channel.connection

    @property
    def running(self) -> int:
        """How many calls are under way."""
        return len(self._calls)

    def request(self, method: str, params: dict[str, Any]) -> DeskCall:
        """Send a request; from any thread. Raises: LocalProtocolError for params JSON cannot carry."""
        number = next(self._ids)
        frame = self._frame(number, method, params)
        call = DeskCall(number, self.connection, method, params, self._cancel)
        self._calls[number] = call
        self._run(lambda: self._take(frame))
        return call

    def close(self) -> None:
        """End the connection and what it runs; on the core's loop."""
        self.token.close()
        self._channel.close("the desk closes")
        for task in self._answering.values():
            task.cancel()
        for call in list(self._calls.values()):
            call.stop_asking()
            call.finish(None, b"")

    def _cancel(self, call: DeskCall) -> None:
        if self._calls.pop(call.request_id, None) is None:
            return
        self._run(lambda: self._take_back(call))
        call.finish(None, b"")

    def _take_back(self, call: DeskCall) -> None:
        """End what is under way: the questions or the task it was answered with, else the request."""
        if not call.stop_asking():
            self._withdraw(call.request_id)

    def _withdraw(self, request_id: int) -> None:
        params = {"requestId": request_id, "reason": "cancelled on the desk"}
        self._take(codec.notification("notifications/cancelled", params))

    def _send(self, method: str, params: dict[str, Any]) -> int:
        number = next(self._ids)
        self._take(self._frame(number, method, params))
        return number

    def _take(self, frame: bytes) -> None:
        self.token.settle()
        if not self._has_begun:
            self._has_begun = True
            self._begin()
        self._channel.take(frame)

    def _begin(self) -> None:
        """Shake hands. The server answers at once, so nobody waits for it."""
        params = {
            "protocolVersion": self._revision.name,
            "capabilities": self._answers.capabilities,
            "clientInfo": IDENTITY,
        }
        self._channel.take(codec.request(0, "initialize", params))
        self._channel.take(codec.notification("notifications/initialized"))
        self._channel.take(codec.request(next(self._ids), "logging/setLevel", {"level": LEVEL}))

    def _frame(self, number: int, method: str, params: dict[str, Any]) -> bytes:
        meta: dict[str, Any] = {"progressToken": number}
        if self._revision.is_stateless:
            meta |= request_meta(self._revision, IDENTITY, LEVEL)
            meta[CAPABILITIES_KEY] = self._answers.capabilities | self._extensions(method, params)
        return codec.request(number, method, {**params, "_meta": meta})

    def _extensions(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Tasks, where a tool cannot be called otherwise: a plain call shows progress and logs, too."""
        tool = self._tools.get(str(params.get("name"))) if method == "tools/call" else None
        is_due = method.startswith("tasks/") or (tool is not None and tool.task == "required")
        return {"extensions": task_shapes.EXTENSION_CAPABILITY} if is_due else {}

    def _received(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            self._heard(frame)

    def _heard(self, frame: bytes) -> None:
        message = codec.decode(frame)
        if "method" not in message:
            self._answered(message, frame)
        elif "id" in message:
            task = asyncio.get_running_loop().create_task(self._respond(message))
            self._answering[message["id"]] = task
        else:
            self._notified(message["method"], message.get("params") or {})

    def _answered(self, message: dict[str, Any], frame: bytes) -> None:
        identifier = message.get("id")
        if not isinstance(identifier, int):
            return
        waiting = self._waiting.pop(identifier, None)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result((message, frame))
            return
        call = self._calls.get(identifier)
        if call is None:
            self.watch.answered(identifier, "error" in message)
            return
        result = message.get("result") or {}
        if result.get("resultType") == "input_required":
            call.asking = asyncio.get_running_loop().create_task(self._next_round(call, result))
            return
        if result.get("resultType") == "task":
            call.asking = asyncio.get_running_loop().create_task(self._follow(call, result))
            return
        del self._calls[call.request_id]
        call.finish(message, frame)

    async def _next_round(self, call: DeskCall, asked: dict[str, Any]) -> None:
        """Answer what the server wants to know, and send the call again with the answers."""
        try:
            answers = await self._answer_all(asked.get("inputRequests", {}), call)
        except ProtocolError as refused:
            # A refusal cannot be told to the server in this era: the call ends here.
            if self._calls.pop(call.request_id, None) is not None:
                call.finish({"error": codec.error_object(refused)}, b"")
            return
        if self._calls.pop(call.request_id, None) is None:
            return
        call.request_id = next(self._ids)
        self._calls[call.request_id] = call
        more: dict[str, Any] = {"inputResponses": answers}
        if "requestState" in asked:
            more["requestState"] = asked["requestState"]
        self._take(self._frame(call.request_id, call.method, call.params | more))

    async def _answer_all(self, requests: dict[str, Any], call: DeskCall) -> dict[str, Any]:
        work = [
            self._answers.answer(each["method"], each.get("params", {}), call.subject)
            for each in requests.values()
        ]
        return dict(zip(requests, await _all(work), strict=True))

    async def _follow(self, call: DeskCall, created: dict[str, Any]) -> None:
        """The call became a task: look after it until it is over."""
        try:
            message, frame = await DeskTask(call, self._exchange, self._answer_all).outcome(created)
        except asyncio.CancelledError:
            self._send("tasks/cancel", {"taskId": created["taskId"]})
            raise
        if self._calls.pop(call.request_id, None) is not None:
            call.finish(message, frame)

    async def _exchange(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        number = next(self._ids)
        waiting: asyncio.Future[tuple[dict[str, Any], bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._take(self._frame(number, method, params))
            return await waiting
        finally:
            self._waiting.pop(number, None)

    async def _respond(self, request: dict[str, Any]) -> None:
        """Answer a request of the server's."""
        identifier, calls = request["id"], list(self._calls.values())
        asker = calls[0].subject if len(calls) == 1 else ""
        try:
            result = await self._answers.answer(request["method"], request.get("params") or {}, asker)
            frame = codec.response(identifier, result)
        except ProtocolError as error:
            frame = codec.error_response(identifier, error)
        finally:
            self._answering.pop(identifier, None)
        self._take(frame)

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        handler = _NOTIFIED.get(method)
        if handler is not None:
            handler(self, params)

    def _progressed(self, params: dict[str, Any]) -> None:
        call = self._calls.get(params["progressToken"])
        if call is not None:
            call.progress = Progress(params["progress"], params.get("total"), params.get("message", ""))

    def _logged(self, params: dict[str, Any]) -> None:
        # The wire does not say which request a message belongs to: all running ones get it.
        data = params["data"]
        text = data if isinstance(data, str) else codec.encode(data).decode()
        self._note(f"{params['level']}: {text}")

    def _completed(self, params: dict[str, Any]) -> None:
        self._note("what the link was for is done")

    def _updated(self, params: dict[str, Any]) -> None:
        self.watch.updated(params["uri"])

    def _taken_back(self, params: dict[str, Any]) -> None:
        task = self._answering.pop(params.get("requestId"), None)
        if task is not None:
            task.cancel()

    def _note(self, text: str) -> None:
        for call in list(self._calls.values()):
            call.note(text)


_NOTIFIED: dict[str, Callable[[DeskClient, dict[str, Any]], None]] = {
    "notifications/progress": DeskClient._progressed,
    "notifications/message": DeskClient._logged,
    "notifications/elicitation/complete": DeskClient._completed,
    "notifications/resources/updated": DeskClient._updated,
    "notifications/cancelled": DeskClient._taken_back,
}


async def _all(work: list[Coroutine[Any, Any, dict[str, Any]]]) -> list[dict[str, Any]]:
    """What all of it comes to. When one fails the others are taken back. Raises: what it raised."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
