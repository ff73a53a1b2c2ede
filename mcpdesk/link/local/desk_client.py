"""Requests of the desk to the servers of its own core, as the client `desk` or for another client."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from itertools import count
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.flows import CallObserver
from mcpdesk.client.in_memory import InMemory, Write
from mcpdesk.client.person_answers import PersonAnswers, Roots
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.errors import CallError, HttpError, ProtocolError
from mcpdesk.hosting.channel import FrameChannel
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.held_token import DialogueToken
from mcpdesk.hosting.host import Host
from mcpdesk.link.values import CallOutcome, Progress
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.methods import ALL_LOGS
from mcpdesk.protocol.revisions import LATEST, Revision
from mcpdesk.recorder.record import ConnectionInfo, Direction, Recorder
from mcpdesk.version import __version__

IDENTITY = {"name": "desk", "version": __version__}
"""Name and version with which the desk initializes a connection."""
MAX_LOGS = 500
"""Maximum number of log messages of one call that are kept. Later ones are dropped."""
_LOG = logging.getLogger(__name__)

Run = Callable[[Callable[[], object]], object]
"""Function that schedules another function on the core's loop. It may be called on any thread."""


class DeskCall(CallObserver):
    """Running or ended request of the desk. Its attributes may be read on any thread."""

    def __init__(
        self, connection: int, method: str, params: JSONObject, cancel_request: Callable[[DeskCall], None]
    ) -> None:
        """`connection` is the recorder's connection number. `cancel_request` cancels the request."""
        self.request_id = 0
        """Id of the request that was sent last, or 0. It changes when the request is sent again with
        answers.
        """
        self.connection = connection
        self.method = method
        self.params = params
        self.started = time.time()
        self.progress: Progress | None = None
        self.outcome: Future[CallOutcome] = Future()
        self.task: asyncio.Task[None] | None = None
        """Task on the core's loop that waits for the response."""
        self._logs: list[str] = []
        self._cancel_request = cancel_request
        self._start_time = time.perf_counter()

    @property
    def logs(self) -> Sequence[str]:
        """Texts of the log messages received for this request so far."""
        return tuple(self._logs)

    def cancel(self) -> None:
        """Cancel the request at the server. The call ends at once."""
        self._cancel_request(self)

    def sent(self, request_id: int) -> None:
        """Record that the request was sent, or sent again with answers."""
        self.request_id = request_id

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """Record progress reported by the server."""
        self.progress = Progress(progress, total, message)

    def on_log(self, text: str) -> None:
        """Record a log message."""
        if len(self._logs) < MAX_LOGS:
            self._logs.append(text)

    def finish(self, message: JSONObject | None, frame: bytes = b"") -> None:
        """End the call with a response, or with None if the call was cancelled.

        After the end, this has no effect.
        """
        elapsed_s = time.perf_counter() - self._start_time
        if message is None:
            error = {"code": 0, "message": "the desk stopped waiting"}
            outcome = CallOutcome(None, error, frame, elapsed_s, cancelled=True)
        else:
            outcome = CallOutcome(message.get("result"), message.get("error"), frame, elapsed_s)
        with suppress(InvalidStateError):  # the call was cancelled and answered at the same time
            self.outcome.set_result(outcome)


class DeskClient:
    """Requests of the desk on a connection to one server."""

    def __init__(self, server: ServerConnection, connection: int, run: Run) -> None:
        """`connection` is the recorder's connection number."""
        self.server = server
        self.connection = connection
        self.watch = ResourceWatch(server)
        self._run = run
        self._calls: set[DeskCall] = set()
        """Running calls."""

    @property
    def running(self) -> int:
        """Number of running calls."""
        return len(self._calls)

    def request(self, method: str, params: dict[str, Any]) -> DeskCall:
        """Send a request. May be called on any thread.

        Raises: LocalProtocolError if JSON cannot represent the parameters.
        """
        codec.encode_part(params)
        call = DeskCall(self.connection, method, params, self._cancel)
        self._calls.add(call)
        self._run(lambda: self._start(call))
        return call

    def close(self) -> None:
        """Cancel all running calls. Call it on the core's loop."""
        self.watch.close()
        for call in list(self._calls):
            self._end(call)

    def _start(self, call: DeskCall) -> None:
        call.task = asyncio.get_running_loop().create_task(self._follow(call))

    async def _follow(self, call: DeskCall) -> None:
        """Wait for the response of a call."""
        message: JSONObject
        frame = b""
        try:
            response = await self.server.request(call.method, call.params, observer=call)
            message, frame = response.message, response.frame
        except ProtocolError as refusal:
            # In a stateless revision, the refusal cannot be sent to the server. The call ends here.
            message = {"error": codec.error_object(refusal)}
        except CallError as error:
            message = {"error": {"code": 0, "message": f"{error.message}{_token_advice(error)}"}}
        except Exception as error:  # the outcome must always be set
            _LOG.exception("a call of the desk failed")
            message = {"error": {"code": 0, "message": f"mcpdesk failed: {error!r}"}}
        self._calls.discard(call)
        call.finish(message, frame)

    def _cancel(self, call: DeskCall) -> None:
        """Cancel a call that has not ended. May be called on any thread."""
        if call in self._calls:
            self._calls.discard(call)
            self._run(lambda: self._end(call))
            call.finish(None)

    def _end(self, call: DeskCall) -> None:
        """End a call without a response. Runs on the core's loop."""
        self._calls.discard(call)
        if call.task is not None:
            call.task.cancel()
        call.finish(None)


class RecordedDesk(DeskClient):
    """Requests for a client of the desk, on the connection of the desk to an upstream server.

    Requests on this connection are recorded as requests of the client `desk`. They are therefore also
    recorded on a connection of their own, with the name of the client.
    """

    def __init__(
        self, server: ServerConnection, connection: int, run: Run, recorder: Recorder, info: ConnectionInfo
    ) -> None:
        """`info` describes the additional connection."""
        super().__init__(server, connection, run)
        self._recorder = recorder
        self._info = info
        self._ids = count(1)
        recorder.connect(info)

    def close(self) -> None:
        """Cancel all running calls, and record the end of the additional connection."""
        super().close()
        self._recorder.connect(replace(self._info, closed=time.time()))

    async def _follow(self, call: DeskCall) -> None:
        """Wait for the response of a call, and record request and response on the additional connection."""
        identifier = next(self._ids)
        self._record(Direction.IN, codec.request(identifier, call.method, call.params))
        try:
            await super()._follow(call)
        finally:
            outcome = call.outcome.result() if call.outcome.done() else None
            if outcome is None or outcome.cancelled:
                params = {"requestId": identifier}
                self._record(Direction.IN, codec.notification("notifications/cancelled", params))
            else:
                response: JSONObject = {"jsonrpc": "2.0", "id": identifier}
                if outcome.result is None:
                    response["error"] = outcome.error
                else:
                    response["result"] = outcome.result
                self._record(Direction.OUT, codec.encode(response))

    def _record(self, direction: Direction, data: bytes) -> None:
        self._recorder.frame(self._info.number, direction, data, is_json=True)


class HostedDesk(DeskClient):
    """In-memory connection of the desk to a server of this process."""

    def __init__(
        self,
        endpoint: HostedEndpoint,
        run: Run,
        roots: Roots = tuple,
        revision: Revision = LATEST,
        *,
        peer: str = "desk",
        extensions: Mapping[str, JSONObject] = MappingProxyType({}),
    ) -> None:
        """Open a connection.

        `run` schedules functions on the core's loop. `extensions` has the settings of the MCP extensions to
        declare, by id of the extension. Policies of the server apply to the calls of a `peer` that is not the
        desk itself.
        """
        self.endpoint = endpoint
        self._peer = peer
        self._channel: FrameChannel
        transport = InMemory(self._connect, endpoint.name, before_send=self._check_token)
        self.token = DialogueToken(lambda: endpoint.access, self._channel.dialogue.identify, run)
        server = endpoint.server
        answers = PersonAnswers(
            server.name,
            endpoint.dispatcher.services.inbox,
            lambda: server.limits.question_timeout_s,
            roots,
        )
        connection = ServerConnection(
            transport,
            IDENTITY | {"name": peer},
            questions=answers.offered,
            revision=revision,
            log_level=ALL_LOGS,
            requires_task=self._is_required_task,
            extensions=extensions,
        )
        super().__init__(connection, self._channel.connection, run)
        self._closing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close the connection and cancel its calls. Call it on the core's loop."""
        self.token.close()
        super().close()
        self._closing = asyncio.get_running_loop().create_task(self.server.close())

    def _connect(self, write: Write) -> FrameChannel:
        self._channel = self.endpoint.channel("memory", self._peer, write)
        return self._channel

    def _check_token(self) -> None:
        self.token.apply()

    def _is_required_task(self, name: str) -> bool:
        """True for tools that can only be called as a task.

        Other tools are called without a task, which shows progress and logs.
        """
        tool = self.endpoint.server.tools.get(name)
        return tool is not None and tool.task == "required"


@asynccontextmanager
async def hosted_desk(host: Host, roots: Roots, revision: Revision) -> AsyncIterator[HostedDesk]:
    """Run a host of one folder while the block runs, with a connection to it. Raises: DeskError."""
    try:
        await host.start()
        yield HostedDesk(host.endpoints()[0], host.call_soon, roots, revision)
    finally:
        await host.stop()


def _token_advice(error: CallError) -> str:
    """Return a sentence about the token that a call needs, to append to the error text, or "" if the error
    has another cause.
    """
    from mcpdesk.client.hints import desk_token_hint, missing_token

    missing = missing_token(error) if isinstance(error, HttpError) else None
    return "" if missing is None else f". {desk_token_hint(missing)}"
