"""The desk as a client: requests over the in-memory channel, as the peer `desk`. Runs on the core's loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

from mcpdesk.errors import HandlerError
from mcpdesk.hosting.channel import Channel
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.link.desk_forms import pages_of, result_of
from mcpdesk.link.values import Outcome, Progress
from mcpdesk.protocol import client_features, codec
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.version import __version__

IDENTITY = {"name": "desk", "version": __version__}
KEPT_LOGS = 500

Run = Callable[[Callable[[], object]], None]
"""Runs a function on the core's loop soon; callable from any thread."""


class DeskCall:
    """One request of the desk's, under way or over. Read from any thread."""

    def __init__(
        self, client: DeskClient, request_id: int, connection: int, method: str, params: dict[str, Any]
    ) -> None:
        self.request_id = request_id
        """That of its latest round."""
        self.method = method
        self.params = params
        self.asking: asyncio.Task[None] | None = None
        """The person being asked what the server wants to know."""
        self.connection = connection
        self.started = time.time()
        self.progress: Progress | None = None
        self.outcome: Future[Outcome] = Future()
        self._logs: list[str] = []
        self._client = client
        self._began = time.perf_counter()

    @property
    def logs(self) -> Sequence[str]:
        """Text of the log messages that came with it so far."""
        return tuple(self._logs)

    def cancel(self) -> None:
        """Tell the server, and end at once."""
        self._client.cancel(self)

    def note(self, text: str) -> None:
        """A log message came."""
        if len(self._logs) < KEPT_LOGS:
            self._logs.append(text)

    def finish(self, message: dict[str, Any] | None, raw: bytes) -> None:
        """The response came, or None: it was cancelled."""
        if self.outcome.done():
            return
        elapsed_s = time.perf_counter() - self._began
        if message is None:
            error: dict[str, Any] = {"code": 0, "message": "cancelled from the desk"}
            self.outcome.set_result(Outcome(None, error, raw, elapsed_s, cancelled=True))
            return
        result, failure = message.get("result"), message.get("error")
        self.outcome.set_result(Outcome(result, failure, raw, elapsed_s))


class DeskClient:
    """The desk's connection to one server. Opened by its first request."""

    def __init__(self, endpoint: HostedEndpoint, run: Run) -> None:
        self._endpoint = endpoint
        self._run = run
        self._channel = Channel(endpoint, "memory", "desk", self._received)
        self._calls: dict[int, DeskCall] = {}
        self._ids = count(1)
        self._inbox = endpoint.dispatcher.services.inbox

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
        call = DeskCall(self, number, self.connection, method, params)
        self._calls[number] = call
        self._run(lambda: self._channel.take(frame))
        return call

    def cancel(self, call: DeskCall) -> None:
        """Withdraw a request; from any thread."""
        if self._calls.pop(call.request_id, None) is None:
            return
        params = {"requestId": call.request_id, "reason": "cancelled on the desk"}
        frame = codec.notification("notifications/cancelled", params)
        self._run(lambda: self._channel.take(frame))
        self._run(lambda: self._stop_asking(call))
        call.finish(None, b"")

    def close(self) -> None:
        """End the connection and what it runs; on the core's loop."""
        self._channel.close("the desk closes")
        for call in list(self._calls.values()):
            self._stop_asking(call)
            call.finish(None, b"")

    def _frame(self, number: int, method: str, params: dict[str, Any]) -> bytes:
        meta = request_meta(LATEST, IDENTITY, "debug") | {"progressToken": number}
        if self._inbox.audience:
            # Only with a screen: from the command line there is nobody to fill a form.
            meta[CAPABILITIES_KEY] = client_features.FORM
        return codec.request(number, method, {**params, "_meta": meta})

    def _received(self, frame: bytes) -> None:
        message = codec.decode(frame)
        if "method" in message:
            self._notified(message["method"], message.get("params") or {})
            return
        call = self._calls.get(message.get("id"))
        if call is None:
            return
        result = message.get("result") or {}
        if result.get("resultType") == "input_required":
            call.asking = asyncio.get_running_loop().create_task(self._next_round(call, result))
            return
        del self._calls[call.request_id]
        call.finish(message, frame)

    async def _next_round(self, call: DeskCall, asked: dict[str, Any]) -> None:
        """Ask the person what the server wants to know, and send the call again with the answers."""
        requests: dict[str, Any] = asked.get("inputRequests", {})
        answers = {key: await self._filled(call, request["params"]) for key, request in requests.items()}
        if self._calls.pop(call.request_id, None) is None:
            return
        call.request_id = next(self._ids)
        self._calls[call.request_id] = call
        more = {"inputResponses": answers, "requestState": asked["requestState"]}
        self._channel.take(self._frame(call.request_id, call.method, call.params | more))

    async def _filled(self, call: DeskCall, form: dict[str, Any]) -> dict[str, Any]:
        server = self._endpoint.server
        name = str(call.params.get("name") or call.params.get("uri"))
        try:
            number, future = self._inbox.ask(
                server=server.name,
                peer="desk",
                tool=name,
                pages=pages_of(form),
                timeout_s=server.limits.question_timeout_s,
            )
        except HandlerError:
            return {"action": "cancel"}
        try:
            return result_of(form, await future)
        finally:
            self._inbox.withdraw(number, "the call was cancelled")

    def _stop_asking(self, call: DeskCall) -> None:
        if call.asking is not None:
            call.asking.cancel()

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            call = self._calls.get(params["progressToken"])
            if call is not None:
                call.progress = Progress(params["progress"], params.get("total"), params.get("message", ""))
        elif method == "notifications/message":
            # The wire does not say which request a message belongs to: all running ones get it.
            data = params["data"]
            text = data if isinstance(data, str) else codec.encode(data).decode()
            for call in list(self._calls.values()):
                call.note(f"{params['level']}: {text}")
