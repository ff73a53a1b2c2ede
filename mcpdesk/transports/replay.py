"""State of a client that its next server needs, and the replay of this state to that server.

The connection of a client lasts longer than the server behind it: a desk may end, or start and take over.
`ClientState` tracks the lines between client and server. `Replay` repeats the client's requests that set up
the session to a new server, hides the answers from the client, and resolves requests that the old server left
unanswered. Neither class does any I/O. Because a client waits for the pump, this module uses only the
standard library, and `json` only when needed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Message = dict[str, Any]

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION_KEY = "io.modelcontextprotocol/subscriptionId"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEYS = tuple(f"io.modelcontextprotocol/{name}" for name in ("clientInfo", "clientCapabilities"))
SESSION_METHODS = frozenset(
    {"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Requests that set state of the session in a server."""
LIST_CHANGES = {
    "tools": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resourcesListChanged", "notifications/resources/list_changed"),
}
"""Key in a listener's filter, and method of the notification for the client, by server capability."""
NOTIFICATION = b'{"jsonrpc":"2.0","method":'
RESPONSE = b'{"jsonrpc":"2.0","id":'
"""Beginnings of the lines that this program's own servers send."""
MAX_ID_BYTES = 1024
INTERNAL_ERROR = -32603
UNCERTAIN = (
    "The process that ran this call ended before it answered, so the call may or may not have taken effect. "
    "Look at what it changed before calling again."
)
CALLER_ENDED = "the process that asked has ended"
MAX_PAGES = 100
"""Maximum number of pages of a tool list that are read."""


class PendingRequest:
    """Request that has no answer yet."""

    __slots__ = ("line", "message", "method", "tool")

    def __init__(self, message: Message, line: bytes) -> None:
        method, params = message["method"], message.get("params")
        self.line = line
        self.method = method if isinstance(method, str) else ""
        self.tool = params.get("name") if self.method == "tools/call" and isinstance(params, dict) else None
        is_kept = self.method in SESSION_METHODS or self.method == LISTEN
        self.message: Message | None = message if is_kept else None

    def params(self) -> Message:
        """Return the parameters of the request, or an empty dict without parameters."""
        params = (self.message or _parse_message(self.line) or {}).get("params")
        return params if isinstance(params, dict) else {}


class ClientState:
    """State of a client that its next server needs. Lines are given without their newline."""

    def __init__(self) -> None:
        self.opening: Message | None = None
        """Parameters of `initialize`, or None until `initialize` was answered."""
        self.revision = ""
        """Protocol revision in the answer to `initialize`."""
        self.is_ready = False
        """True after the client sent `notifications/initialized`."""
        self.level = ""
        """Log level that the client set, or "" if the client set no level."""
        self.subscriptions: dict[str, None] = {}
        self.in_flight: dict[Any, PendingRequest] = {}
        """Requests of the client that a server has received but not answered, by id."""
        self.server_requests: dict[Any, None] = {}
        """Ids of requests of servers that the client has not answered."""
        self.unsent = b""
        """Complete lines that no server has received."""
        self.rest = b""
        """Beginning of an unfinished line."""
        self.unwritten = b""
        """Output for the client that is not written yet."""

    @property
    def is_busy(self) -> bool:
        """True if a request waits for its answer.

        Listeners do not count, because they can wait forever.
        """
        return any(each.method != LISTEN for each in self.in_flight.values())

    def client_sent(self, line: bytes) -> None:
        """Track a line that a server has received from the client."""
        for message, message_line in _messages_in(line):
            if "method" not in message:
                self.server_requests.pop(_id(message), None)
            elif (identifier := _id(message)) is not None:
                self.in_flight[identifier] = PendingRequest(message, message_line)
            elif message["method"] == "notifications/initialized":
                self.is_ready = True
            elif message["method"] == "notifications/cancelled":
                self.in_flight.pop(_hashable(_params(message).get("requestId")), None)

    def server_sent(self, line: bytes) -> None:
        """Track a line that a server has sent to the client."""
        if line.startswith(NOTIFICATION):
            return
        if line.startswith(RESPONSE) and (id_and_key := _id_and_key(line)) is not None:
            identifier, key = id_and_key
            if key == "method":
                self.server_requests[identifier] = None
            else:
                self._handle_answer(identifier, key == "result", line)
            return
        for message, _ in _messages_in(line):
            identifier = _id(message)
            if identifier is None:
                continue
            if "method" in message:
                self.server_requests[identifier] = None
            else:
                self._handle_answer(identifier, "result" in message, line)

    def closes_listener(self, line: bytes) -> bool:
        """Return True if this line of a server ends a listener of the client."""
        message = _parse_message(line) or {}
        listener_id = _params(message).get("requestId") if "method" in message else message.get("id")
        is_end = message.get("method", "notifications/cancelled") == "notifications/cancelled"
        request = self.in_flight.get(_hashable(listener_id)) if is_end else None
        return request is not None and request.method == LISTEN

    def _handle_answer(self, identifier: object, is_success: bool, line: bytes) -> None:
        """Remove an answered request, and store its effect on the session."""
        request = self.in_flight.pop(identifier, None)
        if request is None or request.message is None or not is_success:
            return
        params = request.params()
        if request.method == "initialize":
            self.opening, self.revision = params, _revision(line)
        elif request.method == "logging/setLevel":
            self.level = params.get("level") or ""
        elif request.method == "resources/subscribe":
            self.subscriptions[params.get("uri", "")] = None
        elif request.method == "resources/unsubscribe":
            self.subscriptions.pop(params.get("uri", ""), None)


class Replay:
    """Replay of a client's state to a new server.

    Send the lines in `to_server`, and pass each received line to `receive`, until `is_done` is True or
    `failure` has the reason why the server cannot continue. Then `to_client` has the lines for the client.
    """

    def __init__(self, client_state: ClientState) -> None:
        self.to_server: list[bytes] = []
        self.to_client: list[bytes] = []
        self.is_done = False
        self.failure = ""
        self._client_state = client_state
        self._awaited: dict[Any, str] = {}
        """Methods of the replayed requests, by id."""
        self._unacknowledged_listeners: dict[Any, None] = {}
        """Listeners that the new server has not acknowledged yet."""
        self._request_count = 0
        """Number of requests that were sent for the replay."""
        self._capabilities: Message = {}
        self._repeatable_tools: set[str] = set()
        """Tools that may be called twice, according to their annotations."""
        if client_state.opening is not None:
            self._ask("initialize", client_state.opening)
        else:
            self._replay_session()

    def receive(self, line: bytes) -> None:
        """Handle a line of the new server."""
        message = _parse_message(line)
        if message is None:
            self.failure = line.decode("utf-8", "replace")
        elif "method" not in message and (method := self._awaited.pop(_id(message), None)):
            self._handle_answer(method, message)
        elif (
            message.get("method") == ACKNOWLEDGED
            and (listener := _listener_id(message)) in self._unacknowledged_listeners
        ):
            self._unacknowledged_listeners.pop(listener)
            self._handle_acknowledgement(listener, _params(message).get("notifications"))
        else:
            self._unacknowledged_listeners.pop(_id(message), None)  # the server rejected a listener
            self._client_state.server_sent(line)
            self.to_client.append(line)
        self._finish_if_answered()

    def _handle_answer(self, method: str, message: Message) -> None:
        """Handle the answer to a replayed request."""
        result = message.get("result")
        if method == "initialize":
            if not isinstance(result, dict) or result.get("protocolVersion") != self._client_state.revision:
                self.failure = f"it does not use {self._client_state.revision} with this client"
                return
            capabilities = result.get("capabilities")
            self._capabilities = capabilities if isinstance(capabilities, dict) else {}
            self._replay_session()
        elif method == "tools/list" and isinstance(result, dict):
            self._add_repeatable_tools(result)

    def _replay_session(self) -> None:
        """Repeat the requests that set up the session, and the listeners."""
        client_state = self._client_state
        if client_state.opening is not None:
            if client_state.is_ready:
                self._send({"method": "notifications/initialized"})
            if client_state.level:
                self._ask("logging/setLevel", {"level": client_state.level})
            for uri in client_state.subscriptions:
                self._ask("resources/subscribe", {"uri": uri})
        for identifier, request in client_state.in_flight.items():
            if request.method == LISTEN:
                self._unacknowledged_listeners[identifier] = None
                self.to_server.append(request.line)
        if any(request.tool for request in client_state.in_flight.values()):
            self._ask("tools/list", self._stateless_metadata())
        self._finish_if_answered()

    def _add_repeatable_tools(self, result: Message) -> None:
        """Read from a page of the tool list which tools may be called twice."""
        for tool in result.get("tools") or ():
            hints = tool.get("annotations") or {}
            if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
                self._repeatable_tools.add(tool.get("name"))
        max_requests = MAX_PAGES + len(self._client_state.subscriptions)
        if (cursor := result.get("nextCursor")) and self._request_count < max_requests:
            self._ask("tools/list", {"cursor": cursor, **self._stateless_metadata()})

    def _stateless_metadata(self) -> Message:
        """Return the `_meta` for requests in a stateless revision, copied from requests of the client."""
        for request in self._client_state.in_flight.values():
            meta = request.params().get("_meta") if request.tool else None
            if isinstance(meta, dict) and VERSION_KEY in meta:
                return {"_meta": {key: meta[key] for key in (VERSION_KEY, *CLIENT_KEYS) if key in meta}}
        return {}

    def _handle_acknowledgement(self, listener: object, filters: object) -> None:
        """Notify the client of lists that may have changed while it had no server."""
        params = {"_meta": {SUBSCRIPTION_KEY: listener}}
        for key, method in LIST_CHANGES.values():
            if isinstance(filters, dict) and filters.get(key):
                self.to_client.append(_line({"method": method, "params": params}))

    def _finish_if_answered(self) -> None:
        """Once all replayed requests are answered, resolve the requests that the last server left open."""
        if self.is_done or self.failure or self._awaited or self._unacknowledged_listeners:
            return
        self.is_done = True
        client_state = self._client_state
        for identifier in client_state.server_requests:
            params = {"requestId": identifier, "reason": CALLER_ENDED}
            self.to_client.append(_line({"method": "notifications/cancelled", "params": params}))
        client_state.server_requests.clear()
        for identifier, request in list(client_state.in_flight.items()):
            if request.tool is not None and request.tool not in self._repeatable_tools:
                del client_state.in_flight[identifier]
                error = {"code": INTERNAL_ERROR, "message": UNCERTAIN}
                self.to_client.append(_line({"id": identifier, "error": error}))
            elif request.method != LISTEN:
                self.to_server.append(request.line)
        for capability, (_, method) in LIST_CHANGES.items():
            settings = self._capabilities.get(capability)
            announces_changes = isinstance(settings, dict) and settings.get("listChanged")
            if client_state.is_ready and announces_changes:
                self.to_client.append(_line({"method": method}))

    def _ask(self, method: str, params: Message) -> None:
        """Send a request whose answer is not for the client."""
        self._request_count += 1
        identifier = f"mcpdesk-{self._request_count}"
        while identifier in self._client_state.in_flight:
            identifier += "-"
        self._awaited[identifier] = method
        self._send({"id": identifier, "method": method, "params": params})

    def _send(self, message: Message) -> None:
        self.to_server.append(_line(message))


def is_request(line: bytes) -> bool:
    """Return True if a line is a request, or contains one."""
    return any("method" in message and _id(message) is not None for message, _ in _messages_in(line))


def pending_listener(identifier: object, params: Message) -> PendingRequest:
    """Return a listener as a pending request of the client."""
    message = {"id": identifier, "method": LISTEN, "params": params}
    return PendingRequest(message, _line(message))


def _line(message: Message) -> bytes:
    import json

    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode("ascii")


def _parse_message(line: bytes) -> Message | None:
    """Parse a line with one message. Return None for any other line."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _messages_in(line: bytes) -> Iterable[tuple[Message, bytes]]:
    """Return the messages in a line, each as a line of its own. The line may be a batch."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    if isinstance(message, list):
        return [(each, json.dumps(each).encode("ascii")) for each in message if isinstance(each, dict)]
    return [(message, line)] if isinstance(message, dict) else ()


def _id_and_key(line: bytes) -> tuple[object, str] | None:
    """Return the id in a line of our own servers, and the key after it. None if the line must be parsed."""
    import json

    text = line[len(RESPONSE) : len(RESPONSE) + MAX_ID_BYTES].decode("utf-8", "ignore")
    try:
        identifier, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    key_text = text[end : end + 9].strip(',":')
    key = next((each for each in ("result", "error", "method") if key_text.startswith(each)), None)
    return None if key is None or identifier is None else (_hashable(identifier), key)


def _revision(line: bytes) -> str:
    result = (_parse_message(line) or {}).get("result")
    revision = result.get("protocolVersion") if isinstance(result, dict) else None
    return revision if isinstance(revision, str) else ""


def _params(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _listener_id(message: Message) -> object:
    meta = _params(message).get("_meta")
    return _hashable(meta.get(SUBSCRIPTION_KEY)) if isinstance(meta, dict) else None


def _id(message: Message) -> object:
    return _hashable(message.get("id"))


def _hashable(identifier: object) -> object:
    """Return an id that is a string or number, or None for any other value."""
    return identifier if isinstance(identifier, (str, int, float)) else None
