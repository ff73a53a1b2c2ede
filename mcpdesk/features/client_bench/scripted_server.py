"""Minimal MCP server that serves only some revisions, and observes what its client sends.

It has one tool. Source: MCP basic/versioning, basic/transports; 2025-11-25 basic/lifecycle.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id
from mcpdesk.protocol.revisions import BY_NAME, Revision
from mcpdesk.protocol.stateless import CLIENT_KEY, SERVER_KEY, VERSION_KEY
from mcpdesk.version import __version__

IDENTITY = {"name": "mcpdesk-bench", "version": __version__}
TOOL = {
    "name": "bench",
    "description": "Returns `ok`. Call it again and again until the bench prints its verdict.",
    "inputSchema": {"type": "object", "properties": {}},
}
LISTS: dict[str, JSONObject] = {
    "tools/list": {"tools": [TOOL]},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "prompts/list": {"prompts": []},
}
TOOL_RESULT: JSONObject = {"content": [{"type": "text", "text": "ok"}]}
MAX_SESSIONS = 100
"""Maximum number of sessions that are kept. The oldest are deleted."""
NO_SESSION = "Bad Request: no session. Send `initialize` first."


class ScriptedReply(Struct, frozen=True):
    """Answer to one message."""

    status: int
    """HTTP status. Ignored over stdio."""
    message: JSONObject | None = None
    session: str = ""
    """Session id that the answer announces, or "" for none."""

    @property
    def text(self) -> str:
        """Short description for a person."""
        error = (self.message or {}).get("error")
        if error is not None:
            return f"error {error['code']}"
        result = (self.message or {}).get("result")
        if isinstance(result, dict) and "protocolVersion" in result:
            return f"result, revision {result['protocolVersion']}"
        return "accepted" if result is None else "result"


class ScriptedServer:
    """Server of one client process, or of one HTTP endpoint.

    It serves the given revisions, and answers everything else as a server of only these revisions would.
    """

    def __init__(self, served: Sequence[Revision], *, is_http: bool) -> None:
        self._names = sorted((each.name for each in served), reverse=True)
        """Names of the served revisions, newest first."""
        self._is_http = is_http
        self._sessions: dict[str, str] = {}
        """Agreed revision by session id. Over stdio, the id is empty."""

    def reply(self, message: Any, headers: Mapping[str, str]) -> ScriptedReply:
        """Return the answer to a message. `headers` are those of the HTTP request, with lower-case names."""
        if not isinstance(message, dict):
            return _invalid()
        if "method" not in message:
            return ScriptedReply(202)
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if not isinstance(method, str):
            return _invalid()
        if "id" not in message:
            return ScriptedReply(202)
        if not is_id(message["id"]):
            return _invalid()
        if method == "initialize" and isinstance(offered := params.get("protocolVersion"), str):
            return self._initialize(message, offered)
        meta = params.get("_meta")
        if isinstance(meta, dict) and VERSION_KEY in meta:
            version = meta[VERSION_KEY]
            if not isinstance(version, str):
                return _error(message, ErrorCode.INVALID_PARAMS, f"{VERSION_KEY} is not a text", status=400)
            return self._handle_stateless(message, method, version)
        session = headers.get("mcp-session-id", "")
        if session not in self._sessions:
            if method == "ping":
                return _result(message, {})
            if self._handshake_names:
                return _error(message, ErrorCode.INVALID_REQUEST, NO_SESSION, status=400)
            return _error(message, ErrorCode.INVALID_PARAMS, "_meta is missing", status=400)
        return self._handle(message, method, is_stateless=False)

    @property
    def _handshake_names(self) -> list[str]:
        """Names of the served revisions of the handshake era, newest first."""
        return [name for name in self._names if not BY_NAME[name].is_stateless]

    @property
    def _stateless_names(self) -> list[str]:
        return [name for name in self._names if BY_NAME[name].is_stateless]

    def _initialize(self, message: JSONObject, offered: str) -> ScriptedReply:
        """Return the answer to `initialize`, and open a session. `offered` is the client's revision."""
        if not self._handshake_names:
            return self._unsupported_revision(message, offered)
        agreed = offered if offered in self._handshake_names else self._handshake_names[0]
        session = secrets.token_urlsafe(12) if self._is_http else ""
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = agreed
        result = {
            "protocolVersion": agreed,
            "capabilities": {"tools": {}},
            "serverInfo": IDENTITY,
        }
        return ScriptedReply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, session)

    def _handle_stateless(self, message: JSONObject, method: str, version: str) -> ScriptedReply:
        """Return the answer to a request with `_meta`, which names a revision."""
        if not self._stateless_names:
            # Servers that do not know the stateless era answer in this way.
            if self._is_http:
                return _error(message, ErrorCode.INVALID_REQUEST, NO_SESSION, status=400)
            return _error(message, ErrorCode.METHOD_NOT_FOUND, f"Method not found: {method}")
        if version not in self._stateless_names:
            return self._unsupported_revision(message, version)
        if method == "server/discover":
            result = {"supportedVersions": self._names, "capabilities": {"tools": {}}}
            return _result(message, _complete(result | {"ttlMs": 0, "cacheScope": "private"}))
        return self._handle(message, method, is_stateless=True)

    def _handle(self, message: JSONObject, method: str, *, is_stateless: bool) -> ScriptedReply:
        """Return the answer to a request of a served revision."""
        result = LISTS.get(method, TOOL_RESULT if method == "tools/call" else None)
        if method == "ping" and not is_stateless:
            result = {}
        if result is None:
            text = f"Method not found: {method}"
            status = 404 if is_stateless else 200
            return _error(message, ErrorCode.METHOD_NOT_FOUND, text, status=status)
        if is_stateless:
            caching = {"ttlMs": 0, "cacheScope": "private"} if method in LISTS else {}
            result = _complete(result | caching)
        return _result(message, result)

    def _unsupported_revision(self, message: JSONObject, requested: str) -> ScriptedReply:
        data = {"supported": self._names, "requested": requested}
        text = f"Unsupported protocol version; supported: {', '.join(self._names)}"
        return _error(message, ErrorCode.UNSUPPORTED_VERSION, text, status=400, data=data)


def offered_revision(message: Any) -> str:
    """Return the revision that a request names in its body, or ""."""
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return ""
    meta = params.get("_meta")
    revision = params.get("protocolVersion") if message.get("method") == "initialize" else None
    revision = revision or (meta.get(VERSION_KEY) if isinstance(meta, dict) else None)
    return revision if isinstance(revision, str) else ""


def client_info(message: Any) -> JSONObject:
    """Return the client's description of itself in a request, or an empty dict."""
    params = message.get("params") if isinstance(message, dict) else None
    if not isinstance(params, dict):
        return {}
    meta = params.get("_meta")
    info = params.get("clientInfo") or (meta.get(CLIENT_KEY) if isinstance(meta, dict) else None)
    return info if isinstance(info, dict) else {}


def _complete(result: JSONObject) -> JSONObject:
    """Return a result with the members that the stateless era requires."""
    return {"resultType": "complete", **result, "_meta": {SERVER_KEY: IDENTITY}}


def _result(message: JSONObject, result: JSONObject) -> ScriptedReply:
    return ScriptedReply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


def _error(
    message: JSONObject, code: int, text: str, *, status: int = 200, data: JSONObject | None = None
) -> ScriptedReply:
    error: JSONObject = {"code": int(code), "message": text}
    if data is not None:
        error["data"] = data
    return ScriptedReply(status, {"jsonrpc": "2.0", "id": message["id"], "error": error})


def _invalid() -> ScriptedReply:
    error = {"code": int(ErrorCode.INVALID_REQUEST), "message": "The body must be one JSON-RPC message"}
    return ScriptedReply(400, {"jsonrpc": "2.0", "id": None, "error": error})
