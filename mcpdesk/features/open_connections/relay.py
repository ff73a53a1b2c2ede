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
"""Maximum size in bytes of the messages that a command has not read. A command that reads too slowly is
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
REQUEST_NOTIFICATIONS = frozenset(
    {"notifications/progress", "notifications/cancelled", "notifications/subscriptions/acknowledged"}
)
"""Notifications about one request, which only its command may receive."""
QUESTIONS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling"}
"""Capability that a command needs to answer a question, by method."""
NO_PERSON = "No person can answer: the command runs without a terminal, and no desk is attached"
_log = logging.getLogger(__name__)


class RelayedCall:
    """Running request of a command."""

    def __init__(self, caller: RelayCaller, subject: str, is_stateless: bool) -> None:
        """`subject` is the tool, prompt or resource, or else the method, which questions name."""
        self.caller = caller
        self.subject = subject
        self.is_stateless = is_stateless


RELAYED_CALL: ContextVar[RelayedCall | None] = ContextVar("relayed_call", default=None)
"""Request that the current task runs, or None in other tasks, such as those that read a shared channel."""


class Relay:
    """Serves commands with the connection of one upstream server. Use it on the core's loop."""

    def __init__(self, name: str, inbox: Inbox, activity: Activity) -> None:
        """`name` is the name of the open connection. Call `attach` before the first command is served."""
        self.name = name
        self.activity = activity
        self.upstream: Upstream
        self._inbox = inbox
        self._callers: set[RelayCaller] = set()
        self.failure = ""
        """Error of the latest request if the server could not be reached, or "" after an answer."""
        self.running_calls: list[RelayedCall] = []
        """Running requests, oldest first."""
        self._renew_task: asyncio.Task[None] | None = None
        self.resource_watch: ResourceWatch | None = None
        """Watched resources of a server of the stateless era, or None."""

    def attach(self, upstream: Upstream) -> None:
        """Use this server. Its notifications are passed on to all commands."""
        self.upstream = upstream
        upstream.listeners.append(self._pass_on_notification)
        upstream.status_listeners.append(self._on_status_change)

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
        """Return a function that returns the handlers of the server's questions.

        `inbox_questions` returns the handlers of the inbox.
        """

        def relayed_questions() -> Questions:
            call = RELAYED_CALL.get()
            questions = {method: partial(self._ask, method, inbox_questions) for method in QUESTIONS}
            if call is not None and call.is_stateless and not self._inbox.people:
                # In the stateless era, each request declares which questions its client can answer.
                questions = {
                    method: handler for method, handler in questions.items() if call.caller.can_answer(method)
                }
            return {**inbox_questions(), **questions}

        return relayed_questions

    async def _ask(
        self, method: str, inbox_questions: Callable[[], Questions], params: JSONObject, subject: str
    ) -> JSONObject:
        """Ask the person at the command that caused the question, or else a person at a desk.

        Raises: ProtocolError if no person can be asked.
        """
        calls = [call] if (call := RELAYED_CALL.get()) is not None else self._possible_calls(subject)
        callers = [each.caller for each in calls] or list(self._callers)
        for caller in reversed(callers):
            if caller.can_answer(method):
                return await caller.ask(method, params)
        handler = inbox_questions().get(method)
        notice = f"{self.name}: {subject or 'the server'} asks a person"
        notice += "; answer the question at the desk that is attached" if handler else f". {NO_PERSON}."
        for caller in callers:
            caller.send_notice(notice)
        if handler is None:
            raise ProtocolError(ErrorCode.METHOD_NOT_FOUND, NO_PERSON)
        return await handler(params, subject)

    def _possible_calls(self, subject: str) -> list[RelayedCall]:
        """Return the requests that may have caused a question about `subject`."""
        return [each for each in self.running_calls if each.subject == subject] or self.running_calls

    def _pass_on_notification(self, method: str, params: JSONObject) -> None:
        """Send a notification of the server to the commands that it concerns."""
        if method in REQUEST_NOTIFICATIONS:
            return
        uri = params.get("uri")
        if method == UPDATED and not isinstance(uri, str):
            return
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        for caller in list(self._callers):
            if method != UPDATED or uri in caller.uris:
                caller.send(message)

    def _on_status_change(self) -> None:
        """Disconnect the commands when the server has ended or is restarted, because its state is lost."""
        is_restarting = self.upstream.status.state is UpstreamState.CONNECTING
        reason = "it is started again" if is_restarting else self.down_reason
        if not reason:
            return
        for caller in list(self._callers):
            caller.leave_when_idle(f"{self.name}: {reason}")
            caller.uris.clear()
        if self.resource_watch is not None:
            self.resource_watch.close()
            self.resource_watch = None

    def watched_uris(self) -> set[str]:
        """Return the URIs of the resources that any command watches."""
        return {uri for caller in self._callers for uri in caller.uris}

    @property
    def down_reason(self) -> str:
        """Reason why the server is not connected, or "" while it is connected or connecting."""
        status = self.upstream.status
        if status.state in (UpstreamState.READY, UpstreamState.CONNECTING):
            return ""
        return "; ".join(status.problems) or str(status.state)

    async def connection(self) -> ServerConnection:
        """Return the open connection to the server.

        A program that has ended is not started again, because commands rely on its state. Raises:
        DeskUserError if the program has ended; CallError if the server cannot be reached.
        """
        if self.down_reason and isinstance(self.upstream.plan.target, CommandTarget):
            hint = "`mcpdesk up` with the same target starts it again, without its earlier state."
            raise DeskUserError(f"{self.name}: {self.down_reason}.", hint, CANNOT_CONNECT)
        connection = self.upstream.connection
        if self._on_new_session not in connection.new_session_listeners:
            connection.new_session_listeners.append(self._on_new_session)
        await connection.discover_server()
        return connection

    def _on_new_session(self) -> None:
        """Report that the server has forgotten the previous session, and watch the resources again."""
        for caller in list(self._callers):
            caller.send_notice(f"{self.name}: the server has forgotten the session, so its state may be lost")
        if self.resource_watch is None:
            self._renew_task = asyncio.get_running_loop().create_task(self._watch_again())

    async def _watch_again(self) -> None:
        for uri in self.watched_uris():
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
        """Running requests by id, and running notifications by a text."""
        self._questions: dict[int, asyncio.Future[JSONObject]] = {}
        """Replies to the questions that the command has not answered yet, by number."""
        self._last_question_number = 0
        self._notification_numbers = count(1)
        self._must_leave = self._is_closed = False

    # Messages to the command

    def send(self, message: JSONObject) -> None:
        """Send a message. A command that reads too slowly is disconnected."""
        transport = self._writer.transport
        if transport.is_closing():
            return
        self._writer.write(codec.encode(message) + b"\n")
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            _log.warning("a command was disconnected, because it does not read its messages")
            transport.abort()

    def send_notice(self, text: str) -> None:
        """Send a text that the command shows to the person."""
        self.send({"jsonrpc": "2.0", "method": NOTICE, "params": {"text": text}})

    def can_answer(self, method: str) -> bool:
        """Return True if the person at the command can answer questions of this method."""
        return not self._is_closed and QUESTIONS[method] in self._capabilities

    async def ask(self, method: str, params: JSONObject) -> JSONObject:
        """Ask the person at the command. Raises: ProtocolError if they refuse, or the command ends."""
        self._last_question_number = number = self._last_question_number + 1
        self._questions[number] = future = asyncio.get_running_loop().create_future()
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            answer = await future
        except asyncio.CancelledError:
            self.send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
            )
            raise
        finally:
            del self._questions[number]
        error = answer.get("error")
        if isinstance(error, dict):
            raise ProtocolError(error.get("code", -1), str(error.get("message", "")), error.get("data"))
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def disconnect(self) -> None:
        """End the connection after the messages so far."""
        self._writer.close()

    def leave_when_idle(self, reason: str) -> None:
        """Disconnect the command when no request of it runs. If none runs now, send it the reason."""
        self._must_leave = True
        if not self._running:
            self.send_notice(reason)
            self.disconnect()

    async def close(self) -> None:
        """Cancel everything that the command has started. It receives no more questions."""
        self._is_closed = True
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        for future in self._questions.values():
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

    # Messages of the command

    def receive(self, line: bytes) -> None:
        """Handle a message of the command. Raises: ProtocolError if it is not JSON."""
        message = codec.decode(line)
        if not isinstance(message, dict):
            return
        identifier, method, params = message.get("id"), message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            future = self._questions.get(identifier) if isinstance(identifier, int) else None
            if future is not None and not future.done():
                future.set_result(message)
        elif "id" not in message:
            self._handle_notification(method, params)
        elif is_id(identifier):
            self._handle_request(identifier, method, params)

    def _handle_notification(self, method: str, params: JSONObject) -> None:
        if method == "notifications/cancelled":
            identifier = params.get("requestId")
            if is_id(identifier) and identifier in self._running:
                self._running[identifier].cancel()
        elif method in ("notifications/initialized", "notifications/roots/list_changed"):
            return
        elif len(self._running) >= MAX_REQUESTS:
            self.send_notice(f"{method} was not sent: {TOO_MANY_REQUESTS.lower()}")
        else:
            key = f"notification {next(self._notification_numbers)}"
            self._start(key, self._notify(method, params))

    async def _notify(self, method: str, params: JSONObject) -> None:
        with suppress(CallError, DeskUserError):
            await (await self._relay.connection()).notify(method, params)

    def _handle_request(self, identifier: Id, method: str, params: JSONObject) -> None:
        if len(self._running) >= MAX_REQUESTS:
            refusal = ProtocolError(ErrorCode.INTERNAL_ERROR, TOO_MANY_REQUESTS)
            return self.send({"jsonrpc": "2.0", "id": identifier, "error": codec.error_object(refusal)})
        self._start(identifier, self._answer(identifier, method, params))

    def _start(self, key: Id, work: Coroutine[Any, Any, None]) -> None:
        """Start a task for a request or notification, unless one with this key is running."""

        def on_end(task: asyncio.Task[None]) -> None:
            del self._running[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.error("a request of a command failed", exc_info=error)
            if self._must_leave and not self._running:
                self.disconnect()

        if key in self._running:
            work.close()
            return
        self._running[key] = task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(on_end)

    async def _answer(self, identifier: Id, method: str, params: JSONObject) -> None:
        """Handle a request, and send its response."""
        answer: JSONObject
        self._relay.activity.record_use()
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
            return {"result": await _initialize_result(connection)}
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
        """Send a request to the server. Return its result or error, as a member of the response."""
        relay = self._relay
        if method == TOOL_CALL:
            relay.activity.calls += 1
        params, observer = self._without_progress_token(params)
        is_stateless = (await connection.open()).revision.is_stateless
        call = RelayedCall(self, str(params.get("name") or params.get("uri") or method), is_stateless)
        relay.running_calls.append(call)
        RELAYED_CALL.set(call)
        try:
            response = await connection.request(method, params, observer=observer)
        finally:
            relay.running_calls.remove(call)
            relay.activity.record_use()
        return {"result": response.result} if response.error is None else {"error": response.error}

    def _without_progress_token(self, params: JSONObject) -> tuple[JSONObject, CallObserver | None]:
        """Return the parameters without the progress token, and an observer that uses the token, or None."""
        meta = params.get("_meta")
        if not isinstance(meta, dict) or "progressToken" not in meta:
            return params, None
        token = meta["progressToken"]
        remaining_meta = {key: value for key, value in meta.items() if key != "progressToken"}
        params = {key: value for key, value in params.items() if key != "_meta"}
        if remaining_meta:
            params["_meta"] = remaining_meta
        return params, _Progress(self, token) if is_id(token) else None

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
            relay.resource_watch = relay.resource_watch or ResourceWatch(connection)
            relay.resource_watch.add(uri)
        elif uri not in relay.watched_uris():
            await connection.result(SUBSCRIBE, {"uri": uri})
        self.uris.add(uri)

    async def _unwatch(self, uri: str) -> None:
        """Stop watching a resource for the command. Raises: CallError, DeskUserError."""
        relay = self._relay
        self.uris.discard(uri)
        if uri in relay.watched_uris():
            return
        if relay.resource_watch is not None:
            relay.resource_watch.remove(uri)
        elif not relay.down_reason:
            await (await relay.connection()).result(UNSUBSCRIBE, {"uri": uri})


async def _initialize_result(connection: ServerConnection) -> JSONObject:
    """Return the result of `initialize` for a command."""
    agreement = await connection.discover_server()
    return {
        "protocolVersion": REVISION,
        "capabilities": dict(agreement.capabilities),
        "serverInfo": {"name": "", "version": "", **agreement.server},
        **({"instructions": agreement.instructions} if agreement.instructions else {}),
    }
