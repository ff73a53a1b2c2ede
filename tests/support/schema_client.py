"""A client that keeps every message of a server, and validates each with the schema of its revision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from mcpdesk.hosting.host import Host
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.protocol.task_shapes import EXTENSION
from mcpdesk.transports.pipe import PipeRequest
from tests.support.message_log import MessageLog
from tests.support.official_schema import SCHEMAS, knows, problems

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tasks/get": "GetTaskResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/result": "CallToolResult",
    "tasks/list": "ListTasksResult",
    "tasks/update": "EmptyResult",
}
"""Name of each method's result type. Of the extension's methods only the envelope is published."""
REQUESTS = {
    "elicitation/create": "ElicitRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "roots/list": "ListRootsRequest",
}
NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/cancelled": "CancelledNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/tasks/status": "TaskStatusNotification",
    "notifications/tasks": "Notification",
}
ERRORS = {
    -32700: "ParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
"""Error codes of the newest revision that have a definition; a server must not send any other."""
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "ok"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///home/ada"}]},
}
CAPABLE: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
EXTENDED = CAPABLE | {"extensions": {EXTENSION: {}}}


class Client(MessageLog):
    """Speaks one revision through a pipe of a host, and keeps every received message."""

    def __init__(self, host: Host, revision: str) -> None:
        super().__init__()
        self.revision = revision
        self.asked: dict[Any, str] = {}
        self._meta = request_meta(BY_NAME[revision], {"name": "tester", "version": "1"}, "debug")
        self._meta[CAPABILITIES_KEY] = EXTENDED
        self._pipe = host.open_pipe(PipeRequest("gallery", "stdio"), self._take)

    @property
    def is_stateless(self) -> bool:
        return BY_NAME[self.revision].is_stateless

    async def ask(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and wait for its response."""
        identifier = self.begin(method, params, **meta)
        return await self.response(identifier)

    def begin(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        """Send a request and return its id."""
        identifier = len(self.asked) + 1
        self.asked[identifier] = method
        meta = (self._meta if self.is_stateless else {}) | meta
        sent = (params or {}) | ({"_meta": meta} if meta else {})
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": sent})
        return identifier

    def send(self, message: Any) -> None:
        self.send_bytes(orjson.dumps(message))

    def send_bytes(self, line: bytes) -> None:
        self._pipe.feed(line + b"\n")

    def complaints(self) -> Iterator[str]:
        """Schema violations of all received messages."""
        for message in self.received:
            for problem in self._check(message):
                yield f"{problem}\n  in {str(message)[:400]}"

    @property
    def answered(self) -> set[str]:
        """Methods that returned a result."""
        return {self.asked[message["id"]] for message in self.received if "result" in message}

    def _check(self, message: dict[str, Any]) -> list[str]:
        if "method" in message:
            names = REQUESTS if "id" in message else NOTIFICATIONS
            return problems(self.revision, names[message["method"]], message)
        if "error" in message:
            return check_error(self.revision, message)
        new = knows(self.revision, "JSONRPCResultResponse")
        envelope = problems(self.revision, "JSONRPCResultResponse" if new else "JSONRPCResponse", message)
        return envelope + self._check_result(self.asked[message["id"]], message["result"])

    def _check_result(self, method: str, result: dict[str, Any]) -> list[str]:
        kind = result.get("resultType")
        if self.is_stateless and (method.startswith("tasks/") or kind == "task"):
            return problems(self.revision, "Result", result)
        if kind == "input_required":
            return problems(self.revision, "InputRequiredResult", result)
        is_created = method == "tools/call" and "task" in result
        return problems(self.revision, "CreateTaskResult" if is_created else RESULTS[method], result)

    def _take(self, data: bytes) -> None:
        for message in map(orjson.loads, data.splitlines()):
            self.receive([message])
            if "method" in message and "id" in message:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": ANSWERS[message["method"]]})


def check_error(revision: str, message: dict[str, Any]) -> list[str]:
    """Schema violations of an error response; the newest revision has a definition for each code."""
    new = knows(revision, "JSONRPCErrorResponse")
    # Early schemas require an id, and have no error response for a request whose id was unreadable.
    answer = message if new else {"id": 0} | message
    faults = problems(revision, "JSONRPCErrorResponse" if new else "JSONRPCError", answer)
    if not BY_NAME[revision].is_stateless or not SCHEMAS.is_dir():
        return faults
    code = message["error"]["code"]
    if code not in ERRORS:
        return [*faults, f"{revision} does not define the code {code}"]
    is_whole = code in range(-32099, -32019)
    return faults + problems(revision, ERRORS[code], message if is_whole else message["error"])
