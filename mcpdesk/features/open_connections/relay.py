"""Relay of commands onto the one connection to a server.

All commands share the session of the server. Each command speaks MCP with the relay, which sends the requests
on the connection of the core, with ids of that connection. Questions of the server go to the command whose
request caused them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from mcpdesk.client.flows import CallObserver
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.client.targets import CommandTarget
from mcpdesk.errors import CallError, DeskUserError, HttpError, ProtocolError, RpcError, Unreachable
from mcpdesk.features.open_connections.relay_messages import FAILURE, NOTICE, REVISION, failure_of
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import LineFramer
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, is_id
from mcpdesk.upstream.upstream import UpstreamState

if TYPE_CHECKING:
    from mcpdesk.client.connection import Questions, ServerConnection
    from mcpdesk.features.open_connections.activity import Activity
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.upstream.upstream import Upstream

READ_BYTES = 64 << 10
MAX_LINE_BYTES = 256 << 20
MAX_UNREAD_BYTES = 64 << 20
"""Maximum size of the messages that a command has not read. A command that reads too slowly is
disconnected.
"""
MAX_REQUESTS = 1024
"""Maximum number of running requests and notifications of one command."""
MAX_WATCHED_RESOURCES = 1024
"""Maximum number of resources that one command watches."""
TOO_MANY_REQUESTS = f"More than {MAX_REQUESTS} requests are running"
CANNOT_CONNECT = 3
"""Exit code of a command whose server is not connected."""
TOOL_CALL = "tools/call"
SUBSCRIBE = "resources/subscribe"
UNSUBSCRIBE = "resources/unsubscribe"
UPDATED = "notifications/resources/updated"
PRIVATE = frozenset(
    {"notifications/progress", "notifications/cancelled", "notifications/subscriptions/acknowledged"}
)
"""Notifications about one request, which other commands must not receive."""
QUESTIONS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}
"""Capability that a command needs to answer a question, by method."""
NO_PERSON = "No person can answer: the command runs without a terminal, and no desk is attached"
_log = logging.getLogger(__name__)


class RelayedCall:
    """Request of a command that runs on the connection."""

    def __init__(self, caller: RelayCaller, subject: str, is_stateless: bool) -> None:
        self.caller = caller
        self.subject = subject
        self.is_stateless = is_stateless


RELAYED_CALL: ContextVar[RelayedCall | None] = ContextVar("relayed_call", default=None)
"""Request of the running task. None in other tasks, such as those that read a shared channel."""


class Relay:
    """Serves commands with the connection of one upstream server. Use it on the core's loop."""

    def __init__(self, name: str, inbox: Inbox, activity: Activity) -> None:
        """`name` is the name of the open connection. Call `attach` when the server was loaded."""
        self.name = name
        self.activity = activity
        self.upstream: Upstream
        self._inbox = inbox
        self._callers: set[RelayCaller] = set()
        self.failure = ""
        """Error of the latest request, if the server could not be reached. Empty after an answer."""
        self.askers: list[RelayedCall] = []
        """Running requests, oldest first."""
        self._renewal: asyncio.Task[None] | None = None
        self.watch: ResourceWatch | None = None
        """Watched resources of a server of the stateless era, or None."""

    def attach(self, upstream: Upstream) -> None:
        """Use this server. Its notifications are passed on to all commands."""
        self.upstream = upstream
        upstream.listeners.append(self._notified)
        upstream.status_listeners.append(self._status_changed)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one command until it disconnects."""
        caller = RelayCaller(self, writer)
        self._callers.add(caller)
        self.activity.join()
        framer = LineFramer(MAX_LINE_BYTES)
        try:
            while data := await reader.read(READ_BYTES):
                for line in framer.feed(data):
                    if not line:
                        return
                    caller.receive(line)
        except (OSError, ProtocolError):
            pass
        finally:
            self._callers.discard(caller)
            self.activity.leave()
            await caller.close()

    def close(self) -> None:
        """Disconnect all commands."""
        for caller in list(self._callers):
            caller.disconnect()

    def wrap_questions(self, name: str, inbox_questions: Callable[[], Questions]) -> Callable[[], Questions]:
        """Return a function for the handlers of the server's questions. `inbox_questions` returns those of
        the inbox.
        """

        def offered() -> Questions:
            asker = RELAYED_CALL.get()
            questions = {method: partial(self._ask, method, inbox_questions) for method in QUESTIONS}
            if asker is not None and asker.is_stateless and not self._inbox.people:
                # In the stateless era, each request declares who can answer its questions.
                questions = {key: each for key, each in questions.items() if asker.caller.can_answer(key)}
            return {**inbox_questions(), **questions}

        return offered

    async def _ask(
        self, method: str, inbox_questions: Callable[[], Questions], params: JSONObject, subject: str
    ) -> JSONObject:
        """Ask the person at the command that caused the question, or else a person at a desk.

        Raises: ProtocolError if no person can be asked.
        """
        askers = [asker] if (asker := RELAYED_CALL.get()) is not None else self._possible_askers(subject)
        callers = [each.caller for each in askers] or list(self._callers)
        for caller in reversed(callers):
            if caller.can_answer(method):
                return await caller.ask(method, params)
        handler = inbox_questions().get(method)
        what = f"{self.name}: {subject or 'the server'} asks a person"
        text = (
            f"{what}; answer the question at the desk that is attached"
            if handler
            else f"{what}. {NO_PERSON}."
        )
        for caller in callers:
            caller.notice(text)
        if handler is None:
            raise ProtocolError(ErrorCode.METHOD_NOT_FOUND, NO_PERSON)
        return await handler(params, subject)

    def _possible_askers(self, subject: str) -> list[RelayedCall]:
        """Return the requests that may have caused a question about `subject`."""
        return [each for each in self.askers if each.subject == subject] or self.askers

    def _notified(self, method: str, params: JSONObject) -> None:
        if method in PRIVATE:
            return
        uri = params.get("uri")
        if method == UPDATED and not isinstance(uri, str):
            return
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        for caller in list(self._callers):
            if method != UPDATED or uri in caller.uris:
                caller.send(message)

    def _status_changed(self) -> None:
        """Disconnect the commands when the server has ended or is restarted, because its state is lost."""
        is_restarting = self.upstream.status.state is UpstreamState.CONNECTING
        if not (reason := "it is started again" if is_restarting else self.reason):
            return
        for caller in list(self._callers):
            caller.leave_when_idle(f"{self.name}: {reason}")
            caller.uris.clear()
        if self.watch is not None:
            self.watch.close()
            self.watch = None

    def watched(self) -> set[str]:
        """Return the URIs of the resources that any command watches."""
        return {uri for caller in self._callers for uri in caller.uris}

    @property
    def reason(self) -> str:
        """Reason why the server is not connected, or "" while it is connected or connecting."""
        status = self.upstream.status
        if status.state in (UpstreamState.READY, UpstreamState.CONNECTING):
            return ""
        return "; ".join(status.problems) or str(status.state)

    async def connection(self) -> ServerConnection:
        """Return the open connection to the server.

        Raises: DeskUserError if the server has ended. A program is not started again, because commands rely
        on its state. CallError if the server cannot be reached.
        """
        if self.reason and isinstance(self.upstream.plan.target, CommandTarget):
            hint = "`mcpdesk up` with the same target starts it again, without its earlier state."
            raise DeskUserError(f"{self.name}: {self.reason}.", hint, CANNOT_CONNECT)
        connection = self.upstream.connection
        if self._session_lost not in connection.new_session_listeners:
            connection.new_session_listeners.append(self._session_lost)
        await connection.discover_server()
        return connection

    def _session_lost(self) -> None:
        """Report that a new session replaced a forgotten one, and watch the resources again."""
        for caller in list(self._callers):
            caller.notice(f"{self.name}: the server has forgotten the session, so its state may be lost")
        if self.watch is None:
            self._renewal = asyncio.get_running_loop().create_task(self._watch_again())

    async def _watch_again(self) -> None:
        for uri in self.watched():
            with suppress(CallError):
                await self.upstream.connection.result(SUBSCRIBE, {"uri": uri})


class _Progress(CallObserver):
    """Passes the progress of a request on to its command."""

    def __init__(self, caller: RelayCaller, token: Id) -> None:
        self._caller, self._token = caller, token

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """Send a progress notification."""
        params: JSONObject = {"progressToken": self._token, "progress": progress}
        params |= {} if total is None else {"total": total}
        params |= {"message": message} if message else {}
        self._caller.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


class RelayCaller:
    """One command that is connected to the relay."""

    def __init__(self, relay: Relay, writer: asyncio.StreamWriter) -> None:
        self.uris = set[str]()
        """Resources that the command watches."""
        self._relay = relay
        self._writer = writer
        self._capabilities: JSONObject = {}
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[JSONObject]] = {}
        self._last_question = 0
        self._notifications = count(1)
        self._is_leaving = self._is_closed = False

    # messages to the command

    def send(self, message: JSONObject) -> None:
        """Send a message. A command that reads too slowly is disconnected."""
        transport = self._writer.transport
        if transport.is_closing():
            return
        self._writer.write(codec.encode(message) + b"\n")
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            _log.warning("a command was disconnected, because it does not read its messages")
            transport.abort()

    def notice(self, text: str) -> None:
        """Show a text to the person at the command."""
        self.send({"jsonrpc": "2.0", "method": NOTICE, "params": {"text": text}})

    def can_answer(self, method: str) -> bool:
        """True if the person at the command can answer this kind of question."""
        return not self._is_closed and QUESTIONS[method] in self._capabilities

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the person at the command. Raises: ProtocolError if they refuse, or the command ends."""
        self._last_question = number = self._last_question + 1
        self._asked[number] = future = asyncio.get_running_loop().create_future()
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            answer = await future
        except asyncio.CancelledError:
            self.send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            )
            raise
        finally:
            del self._asked[number]
        error = answer.get("error")
        if isinstance(error, dict):
            raise ProtocolError(error.get("code", -1), str(error.get("message", "")), error.get("data"))
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def disconnect(self) -> None:
        """End the connection after the messages so far."""
        self._writer.close()

    def leave_when_idle(self, reason: str) -> None:
        """End the connection when no request of the command runs. Without a request, give the reason."""
        self._is_leaving = True
        if not self._running:
            self.notice(reason)
            self.disconnect()

    async def close(self) -> None:
        """End everything that the command has started. It receives no more questions."""
        self._is_closed = True
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        for future in self._asked.values():
            if not future.done():
                future.set_result(
                    {"error": {"code": ErrorCode.INTERNAL_ERROR, "message": "The command ended"}}
                )
        await asyncio.gather(*tasks, return_exceptions=True)
        for uri in list(self.uris):
            with suppress(CallError, DeskUserError, ProtocolError):
                await self._unwatch(uri)
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    # messages of the command

    def receive(self, line: bytes) -> None:
        """Handle a message of the command. Raises: ProtocolError if it is not JSON."""
        message = codec.decode(line)
        if not isinstance(message, dict):
            return
        identifier, method, params = message.get("id"), message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            future = self._asked.get(identifier) if isinstance(identifier, int) else None
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" not in message:
            self._notified(method, params)
        elif is_id(identifier):
            self._request(identifier, method, params)

    def _notified(self, method: str, params: JSONObject) -> None:
        if method == "notifications/cancelled":
            identifier = params.get("requestId")
            if is_id(identifier) and identifier in self._running:
                self._running[identifier].cancel()
        elif method in ("notifications/initialized", "notifications/roots/list_changed"):
            return
        elif len(self._running) >= MAX_REQUESTS:
            self.notice(f"{method} was not sent: {TOO_MANY_REQUESTS.lower()}")
        else:
            self._begin(f"notification {next(self._notifications)}", self._notify(method, params))

    async def _notify(self, method: str, params: JSONObject) -> None:
        with suppress(CallError, DeskUserError):
            await (await self._relay.connection()).notify(method, params)

    def _request(self, identifier: Id, method: str, params: JSONObject) -> None:
        if len(self._running) >= MAX_REQUESTS:
            refusal = ProtocolError(ErrorCode.INTERNAL_ERROR, TOO_MANY_REQUESTS)
            return self.send({"jsonrpc": "2.0", "id": identifier, "error": codec.error_object(refusal)})
        self._begin(identifier, self._answer(identifier, method, params))

    def _begin(self, key: Id, work: Coroutine[Any, Any, None]) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            del self._running[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a request of a command failed", exc_info=error)
            if self._is_leaving and not self._running:
                self.disconnect()

        if key in self._running:
            work.close()
            return
        self._running[key] = task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(ended)

    async def _answer(self, identifier: Id, method: str, params: JSONObject) -> None:
        answer: JSONObject
        self._relay.activity.note()
        failure = ""
        try:
            answer = await self._result(method, params)
        except RpcError as error:
            refusal = ProtocolError(error.code, error.message, error.data)
            answer = {"error": codec.error_object(refusal)}
        except ProtocolError as refusal:
            answer = {"error": codec.error_object(refusal)}
        except (CallError, DeskUserError) as error:
            failure = str(error) if isinstance(error, HttpError | Unreachable) else ""
            unanswered = ProtocolError(ErrorCode.INTERNAL_ERROR, str(error))
            answer = {"error": codec.error_object(unanswered), FAILURE: failure_of(error)}
        self._relay.failure = failure
        self.send({"jsonrpc": "2.0", "id": identifier, **answer})

    async def _result(self, method: str, params: JSONObject) -> JSONObject:
        """Return the result or error of a request, as members of the response."""
        if method == "ping":
            return {"result": {}}
        connection = await self._relay.connection()
        if method == "initialize":
            capabilities = params.get("capabilities")
            self._capabilities = capabilities if isinstance(capabilities, dict) else {}
            return {"result": await _handshake(connection)}
        if method == "logging/setLevel":
            await self._relay.upstream.set_log_level(str(params.get("level")))
            return {"result": {}}
        uri = params.get("uri")
        if method == SUBSCRIBE and isinstance(uri, str):
            await self._watch(connection, uri)
            return {"result": {}}
        if method == UNSUBSCRIBE and isinstance(uri, str) and uri in self.uris:
            await self._unwatch(uri)
            return {"result": {}}
        return await self._pass_on(connection, method, params)

    async def _pass_on(self, connection: ServerConnection, method: str, params: JSONObject) -> JSONObject:
        relay = self._relay
        if method == TOOL_CALL:
            relay.activity.calls += 1
        params, observer = self._own_progress(params)
        is_stateless = (await connection.open()).revision.is_stateless
        asker = RelayedCall(self, str(params.get("name") or params.get("uri") or method), is_stateless)
        relay.askers.append(asker)
        RELAYED_CALL.set(asker)
        try:
            response = await connection.request(method, params, observer=observer)
        finally:
            relay.askers.remove(asker)
            relay.activity.note()
        return {"result": response.result} if response.error is None else {"error": response.error}

    def _own_progress(self, params: JSONObject) -> tuple[JSONObject, CallObserver | None]:
        """Return the parameters without the progress token, and the observer that uses the token."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or "progressToken" not in meta:
            return params, None
        token, rest = meta["progressToken"], {k: v for k, v in meta.items() if k != "progressToken"}
        params = {key: value for key, value in params.items() if key != "_meta"}
        observer = _Progress(self, token) if is_id(token) else None
        return (params | {"_meta": rest} if rest else params), observer

    async def _watch(self, connection: ServerConnection, uri: str) -> None:
        """Watch a resource for the command.

        Raises: CallError if the server refuses, ProtocolError if the command watches too many resources.
        """
        relay = self._relay
        if uri in self.uris:
            return
        if len(self.uris) >= MAX_WATCHED_RESOURCES:
            message = f"A command can watch at most {MAX_WATCHED_RESOURCES} resources"
            raise ProtocolError(ErrorCode.INTERNAL_ERROR, message)
        if (await connection.open()).revision.is_stateless:
            relay.watch = relay.watch or ResourceWatch(connection)
            relay.watch.add(uri)
        elif uri not in relay.watched():
            await connection.result(SUBSCRIBE, {"uri": uri})
        self.uris.add(uri)

    async def _unwatch(self, uri: str) -> None:
        """Stop to watch a resource for the command. Raises: CallError, DeskUserError."""
        relay = self._relay
        self.uris.discard(uri)
        if uri in relay.watched():
            return
        if relay.watch is not None:
            relay.watch.remove(uri)
        elif not relay.reason:
            await (await relay.connection()).result(UNSUBSCRIBE, {"uri": uri})


async def _handshake(connection: ServerConnection) -> JSONObject:
    """Return the result of `initialize` for a command."""
    agreement = await connection.discover_server()
    return {
        "protocolVersion": REVISION,
        "capabilities": dict(agreement.capabilities),
        "serverInfo": {"name": "", "version": "", **agreement.server},
        **({"instructions": agreement.instructions} if agreement.instructions else {}),
    }
