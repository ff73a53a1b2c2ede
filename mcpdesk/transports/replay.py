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
CHANGES = {
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
        params = (self.message or _read(self.line) or {}).get("params")
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
        self.asked_of_client: dict[Any, None] = {}
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
        for message, own in _members(line):
            if "method" not in message:
                self.asked_of_client.pop(_id(message), None)
            elif (identifier := _id(message)) is not None:
                self.in_flight[identifier] = PendingRequest(message, own)
            elif message["method"] == "notifications/initialized":
                self.is_ready = True
            elif message["method"] == "notifications/cancelled":
                self.in_flight.pop(_hashable(_params(message).get("requestId")), None)

    def server_sent(self, line: bytes) -> None:
        """Track a line that a server has sent to the client."""
        if line.startswith(NOTIFICATION):
            return
        if line.startswith(RESPONSE) and (short := _beginning(line)) is not None:
            identifier, kind = short
            if kind == "method":
                self.asked_of_client[identifier] = None
            else:
                self._answered(identifier, kind == "result", line)
            return
        for message, _ in _members(line):
            identifier = _id(message)
            if identifier is None:
                continue
            if "method" in message:
                self.asked_of_client[identifier] = None
            else:
                self._answered(identifier, "result" in message, line)

    def closes_listener(self, line: bytes) -> bool:
        """Return True if a server that is ending closes a listener of the client with this line."""
        message = _read(line) or {}
        ended = _params(message).get("requestId") if "method" in message else message.get("id")
        is_end = message.get("method", "notifications/cancelled") == "notifications/cancelled"
        sent = self.in_flight.get(_hashable(ended)) if is_end else None
        return sent is not None and sent.method == LISTEN

    def _answered(self, identifier: object, is_success: bool, line: bytes) -> None:
        sent = self.in_flight.pop(identifier, None)
        if sent is None or sent.message is None or not is_success:
            return
        params = sent.params()
        if sent.method == "initialize":
            self.opening, self.revision = params, _revision(line)
        elif sent.method == "logging/setLevel":
            self.level = params.get("level") or ""
        elif sent.method == "resources/subscribe":
            self.subscriptions[params.get("uri", "")] = None
        elif sent.method == "resources/unsubscribe":
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
        self._listening: dict[Any, None] = {}
        """Listeners that the new server has not acknowledged yet."""
        self._number = 0
        self._capabilities: Message = {}
        self._repeatable: set[str] = set()
        """Tools that may be called twice, according to their annotations."""
        if client_state.opening is not None:
            self._ask("initialize", client_state.opening)
        else:
            self._report_unanswered()

    def receive(self, line: bytes) -> None:
        """Handle a line of the new server."""
        message = _read(line)
        if message is None:
            self.failure = line.decode("utf-8", "replace")
        elif "method" not in message and (why := self._awaited.pop(_id(message), None)):
            self._answered(why, message)
        elif message.get("method") == ACKNOWLEDGED and _listener(message) in self._listening:
            self._listening.pop(_listener(message))
            self._acknowledged(_listener(message), _params(message).get("notifications"))
        else:
            self._listening.pop(_id(message), None)  # the server rejected a listener
            self._client_state.server_sent(line)
            self.to_client.append(line)
        self._finish_if_answered()

    def _answered(self, why: str, message: Message) -> None:
        result = message.get("result")
        if why == "initialize":
            if not isinstance(result, dict) or result.get("protocolVersion") != self._client_state.revision:
                self.failure = f"it does not use {self._client_state.revision} with this client"
                return
            capabilities = result.get("capabilities")
            self._capabilities = capabilities if isinstance(capabilities, dict) else {}
            self._report_unanswered()
        elif why == "tools/list" and isinstance(result, dict):
            self._learn(result)

    def _report_unanswered(self) -> None:
        client_state = self._client_state
        if client_state.opening is not None:
            if client_state.is_ready:
                self._send({"method": "notifications/initialized"})
            if client_state.level:
                self._ask("logging/setLevel", {"level": client_state.level})
            for uri in client_state.subscriptions:
                self._ask("resources/subscribe", {"uri": uri})
        for identifier, sent in client_state.in_flight.items():
            if sent.method == LISTEN:
                self._listening[identifier] = None
                self.to_server.append(sent.line)
        if any(sent.tool for sent in client_state.in_flight.values()):
            self._ask("tools/list", self._metadata())
        self._finish_if_answered()

    def _learn(self, result: Message) -> None:
        """Read from a page of the tool list which tools may be called twice."""
        for tool in result.get("tools") or ():
            hints = tool.get("annotations") or {}
            if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
                self._repeatable.add(tool.get("name"))
        if (cursor := result.get("nextCursor")) and self._number < MAX_PAGES + len(
            self._client_state.subscriptions
        ):
            self._ask("tools/list", {"cursor": cursor, **self._metadata()})

    def _metadata(self) -> Message:
        """Return the `_meta` for requests in a stateless revision, copied from requests of the client."""
        for sent in self._client_state.in_flight.values():
            meta = sent.params().get("_meta") if sent.tool else None
            if isinstance(meta, dict) and VERSION_KEY in meta:
                return {"_meta": {key: meta[key] for key in (VERSION_KEY, *CLIENT_KEYS) if key in meta}}
        return {}

    def _acknowledged(self, listener: object, wanted: object) -> None:
        """Notify the client of lists that may have changed while it had no server."""
        about = {"_meta": {SUBSCRIPTION_KEY: listener}}
        for key, method in CHANGES.values():
            if isinstance(wanted, dict) and wanted.get(key):
                self.to_client.append(_line({"method": method, "params": about}))

    def _finish_if_answered(self) -> None:
        """When all replayed requests are answered, resolve the requests that the last server left
        unanswered.
        """
        if self.is_done or self.failure or self._awaited or self._listening:
            return
        self.is_done = True
        client_state = self._client_state
        for identifier in client_state.asked_of_client:
            params = {"requestId": identifier, "reason": CALLER_ENDED}
            self.to_client.append(_line({"method": "notifications/cancelled", "params": params}))
        client_state.asked_of_client.clear()
        for identifier, sent in list(client_state.in_flight.items()):
            if sent.tool is not None and sent.tool not in self._repeatable:
                del client_state.in_flight[identifier]
                error = {"code": INTERNAL_ERROR, "message": UNCERTAIN}
                self.to_client.append(_line({"id": identifier, "error": error}))
            elif sent.method != LISTEN:
                self.to_server.append(sent.line)
        for capability, (_, method) in CHANGES.items():
            offered = self._capabilities.get(capability)
            if client_state.is_ready and isinstance(offered, dict) and offered.get("listChanged"):
                self.to_client.append(_line({"method": method}))

    def _ask(self, method: str, params: Message) -> None:
        self._number += 1
        identifier = f"mcpdesk-{self._number}"
        while identifier in self._client_state.in_flight:
            identifier += "-"
        self._awaited[identifier] = method
        self._send({"id": identifier, "method": method, "params": params})

    def _send(self, message: Message) -> None:
        self.to_server.append(_line(message))


def is_request(line: bytes) -> bool:
    """Return True if a line is a request, or contains one."""
    return any("method" in message and _id(message) is not None for message, _ in _members(line))


def pending_listener(identifier: object, params: Message) -> PendingRequest:
    """Return a listener as a pending request of the client."""
    message = {"id": identifier, "method": LISTEN, "params": params}
    return PendingRequest(message, _line(message))


def _line(message: Message) -> bytes:
    import json

    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode("ascii")


def _read(line: bytes) -> Message | None:
    """Parse a line with one message. None for any other line."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _members(line: bytes) -> Iterable[tuple[Message, bytes]]:
    """Return the messages in a line, each as a line of its own. The line may be a batch."""
    import json

    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    if isinstance(message, list):
        return [(each, json.dumps(each).encode("ascii")) for each in message if isinstance(each, dict)]
    return [(message, line)] if isinstance(message, dict) else ()


def _beginning(line: bytes) -> tuple[object, str] | None:
    """Return the id in a line of our own servers, and the key after it, or None if the line must be
    parsed.
    """
    import json

    text = line[len(RESPONSE) : len(RESPONSE) + MAX_ID_BYTES].decode("utf-8", "ignore")
    try:
        identifier, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    kind = text[end : end + 9].strip(',":')
    known = next((each for each in ("result", "error", "method") if kind.startswith(each)), None)
    return None if known is None or identifier is None else (_hashable(identifier), known)


def _revision(line: bytes) -> str:
    result = (_read(line) or {}).get("result")
    revision = result.get("protocolVersion") if isinstance(result, dict) else None
    return revision if isinstance(revision, str) else ""


def _params(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _listener(message: Message) -> object:
    meta = _params(message).get("_meta")
    return _hashable(meta.get(SUBSCRIPTION_KEY)) if isinstance(meta, dict) else None


def _id(message: Message) -> object:
    return _hashable(message.get("id"))


def _hashable(identifier: object) -> object:
    """Return an id that is a string or number. None for any other value."""
    return identifier if isinstance(identifier, (str, int, float)) else None
