"""The desk as a client: requests over the in-memory transport, as the peer `desk`, from any thread."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.flows import CallObserver
from mcpdesk.client.hints import desk_token_hint, missing_token
from mcpdesk.client.in_memory import InMemory, Write
from mcpdesk.client.person_answers import PersonAnswers, Roots
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.errors import CallError, HttpError, ProtocolError
from mcpdesk.hosting.channel import FrameChannel
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.hosting.held_token import HeldToken
from mcpdesk.link.values import CallOutcome, Progress
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import LATEST, Revision
from mcpdesk.version import __version__

IDENTITY = {"name": "desk", "version": __version__}
LEVEL = "debug"
"""Log level that the desk requests: all messages."""
KEPT_LOGS = 500
_LOG = logging.getLogger(__name__)

Run = Callable[[Callable[[], object]], object]
"""Schedules a function on the core's loop; callable from any thread."""


class DeskCall(CallObserver):
    """A request of the desk, running or ended. Attributes may be read from any thread."""

    def __init__(
        self, connection: int, method: str, params: JSONObject, withdraw: Callable[[DeskCall], None]
    ) -> None:
        """`connection` is the recorder's connection number; `withdraw` cancels the request."""
        self.request_id = 0
        """Id of the latest round; 0 until the request was sent."""
        self.connection = connection
        self.method = method
        self.params = params
        self.started = time.time()
        self.progress: Progress | None = None
        self.outcome: Future[CallOutcome] = Future()
        self.task: asyncio.Task[None] | None = None
        """Task on the core's loop that waits for the response."""
        self._logs: list[str] = []
        self._withdraw = withdraw
        self._began = time.perf_counter()

    @property
    def logs(self) -> Sequence[str]:
        """Texts of the log messages received for this request so far."""
        return tuple(self._logs)

    def cancel(self) -> None:
        """Cancel the request at the server, and end the call at once."""
        self._withdraw(self)

    def sent(self, request_id: int) -> None:
        """Record that the request was sent, or sent again with answers."""
        self.request_id = request_id

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """Record progress reported by the server."""
        self.progress = Progress(progress, total, message)

    def noted(self, text: str) -> None:
        """Record a log message."""
        if len(self._logs) < KEPT_LOGS:
            self._logs.append(text)

    def finish(self, message: JSONObject | None, frame: bytes = b"") -> None:
        """End the call with a response, or with None if it was cancelled. Only the first call counts."""
        elapsed_s = time.perf_counter() - self._began
        if message is None:
            error = {"code": 0, "message": "the desk stopped waiting"}
            outcome = CallOutcome(None, error, frame, elapsed_s, cancelled=True)
        else:
            outcome = CallOutcome(message.get("result"), message.get("error"), frame, elapsed_s)
        with suppress(InvalidStateError):  # a cancellation and a response come on two threads
            self.outcome.set_result(outcome)


class DeskClient:
    """Calls of the desk on a connection to one server."""

    def __init__(self, server: ServerConnection, connection: int, run: Run) -> None:
        """`connection` is the recorder's connection number."""
        self.server = server
        self.connection = connection
        self.watch = ResourceWatch(server)
        self._run = run
        self._calls: set[DeskCall] = set()

    @property
    def running(self) -> int:
        """Number of running calls."""
        return len(self._calls)

    def request(self, method: str, params: dict[str, Any]) -> DeskCall:
        """Send a request from any thread.

        Raises: LocalProtocolError for params that JSON cannot represent.
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
        except ProtocolError as refused:
            # In a stateless revision a refusal cannot be sent to the server, so the call ends here.
            message = {"error": codec.error_object(refused)}
        except CallError as error:
            message = {"error": {"code": 0, "message": f"{error.message}{_token_advice(error)}"}}
        except Exception as error:  # the outcome must be set in any case
            _LOG.exception("a call of the desk failed")
            message = {"error": {"code": 0, "message": f"mcpdesk failed: {error!r}"}}
        self._calls.discard(call)
        call.finish(message, frame)

    def _cancel(self, call: DeskCall) -> None:
        if call in self._calls:
            self._calls.discard(call)
            self._run(lambda: self._end(call))
            call.finish(None)

    def _end(self, call: DeskCall) -> None:
        self._calls.discard(call)
        if call.task is not None:
            call.task.cancel()
        call.finish(None)


class HostedDesk(DeskClient):
    """In-memory connection of the desk to a server of this process."""

    def __init__(
        self, endpoint: HostedEndpoint, run: Run, roots: Roots = tuple, revision: Revision = LATEST
    ) -> None:
        self.endpoint = endpoint
        self._channel: FrameChannel
        transport = InMemory(self._connect, endpoint.name, before_send=self._check_token)
        self.token = HeldToken(lambda: endpoint.access, self._channel.dialogue.identify, run)
        server = endpoint.server
        answers = PersonAnswers(
            server.name,
            endpoint.dispatcher.services.inbox,
            lambda: server.limits.question_timeout_s,
            roots,
        )
        connection = ServerConnection(
            transport,
            IDENTITY,
            questions=answers.offered,
            revision=revision,
            log_level=LEVEL,
            is_required_task=self._is_required_task,
        )
        super().__init__(connection, self._channel.connection, run)
        self._closing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close the connection and cancel its calls. Call it on the core's loop."""
        self.token.close()
        super().close()
        self._closing = asyncio.get_running_loop().create_task(self.server.close())

    def _connect(self, write: Write) -> FrameChannel:
        self._channel = self.endpoint.channel("memory", "desk", write)
        return self._channel

    def _check_token(self) -> None:
        self.token.apply()

    def _is_required_task(self, name: str) -> bool:
        """Return True only for tools that require a task; plain calls show progress and logs."""
        tool = self.endpoint.server.tools.get(name)
        return tool is not None and tool.task == "required"


def _token_advice(error: CallError) -> str:
    """Return `.

    It needs a token with the scope ...` for an error that requires a token, otherwise an empty string.
    """
    missing = missing_token(error) if isinstance(error, HttpError) else None
    return "" if missing is None else f". {desk_token_hint(missing)}"
