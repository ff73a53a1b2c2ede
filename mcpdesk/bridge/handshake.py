"""What a client says and hears in a handshake, what it answers, and how it takes a request back. Sans-IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.bridge.line import ELICITATION, IDENTITY
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id
from mcpdesk.protocol.revisions import BY_NAME, Revision


def opening(revision: Revision, can_elicit: bool = False) -> JSONObject:
    """The parameters of `initialize`. `can_elicit`: whether somebody answers questions."""
    capabilities = ELICITATION if can_elicit else {}
    return {"protocolVersion": revision.name, "capabilities": capabilities, "clientInfo": IDENTITY}


def opened(result: Mapping[str, Any], target: str) -> tuple[Revision, Mapping[str, Any], str]:
    """What its result settles: the revision, who the server is, and its instructions.

    Raises: InvalidAnswer for a revision of no handshake.
    """
    version = result.get("protocolVersion")
    revision = BY_NAME.get(version) if isinstance(version, str) else None
    if revision is None or revision.is_stateless:
        raise InvalidAnswer(f"it answers the handshake with the revision {version!r}", target)
    server, told = result.get("serverInfo"), result.get("instructions")
    return revision, server if isinstance(server, dict) else {}, told if isinstance(told, str) else ""


def answer_to(message: Any) -> JSONObject | None:
    """The response to a request of the server's: that we live, and that we offer nothing else."""
    if not isinstance(message, dict) or "method" not in message or not is_id(message.get("id")):
        return None
    answer: JSONObject = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "ping":
        return answer | {"result": {}}
    error = {"code": int(ErrorCode.METHOD_NOT_FOUND), "message": "this client offers nothing"}
    return answer | {"error": error}


def withdrawal(identifier: int) -> JSONObject:
    """What tells a server that a request needs no answer any more."""
    params = {"requestId": identifier, "reason": "nobody waits any more"}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
