"""The desk as a client: requests over the in-memory channel, as the peer `desk`. Runs on the core's loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import count
from typing import Any

from mcpdesk.hosting.channel import Channel
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.link.values import Outcome, Progress
from mcpdesk.protocol import codec
from mcpdesk.protocol.revisions import LATEST
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.version import __version__

IDENTITY = {"name": "desk", "version": __version__}
KEPT_LOGS = 500

Run = Callable[[Callable[[], object]], None]
"""Runs a function on the core's loop soon; callable from any thread."""


class DeskCall:
    """One request of the desk's, under way or over. Read from any thread."""

    def __init__(self, client: DeskClient, request_id: int, connection: int) -> None:
        self.request_id = request_id
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
        meta = request_meta(LATEST, IDENTITY, "debug") | {"progressToken": number}
        frame = codec.request(number, method, {**params, "_meta": meta})
        call = DeskCall(self, number, self.connection)
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
        call.finish(None, b"")

    def close(self) -> None:
        """End the connection and what it runs; on the core's loop."""
        self._channel.close("the desk closes")
        for call in list(self._calls.values()):
            call.finish(None, b"")

    def _received(self, frame: bytes) -> None:
        message = codec.decode(frame)
        if "method" in message:
            self._notified(message["method"], message.get("params") or {})
            return
        call = self._calls.pop(message.get("id"), None)
        if call is not None:
            call.finish(message, frame)

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
