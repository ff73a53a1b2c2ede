"""What a client speaks through, whatever lies between it and the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, is_id
from mcpdesk.protocol.revisions import BY_NAME, Revision
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.protocol.task_shapes import EXTENSION
from mcpdesk.version import __version__

IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""What servers are told."""
ELICITATION: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""The capability of a client that can put questions to a person."""
Elicit: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Takes the parameters of `elicitation/create` and returns its result: `action`, and `content` of a form."""


def kinds_of(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of results that may answer a request: tasks and questions only where it declares them."""
    meta = params.get("_meta")
    capabilities = meta.get(CAPABILITIES_KEY) if isinstance(meta, dict) else None
    declared = capabilities if isinstance(capabilities, dict) else {}
    tasks = ("task",) if EXTENSION in declared.get("extensions", {}) else ()
    questions = ("input_required",) if "elicitation" in declared else ()
    return ("complete", *tasks, *questions)


class Line(Protocol):
    """An open way to one server."""

    @property
    def target(self) -> str:
        """Where it leads, without secrets."""

    @property
    def revision(self) -> Revision:
        """What is spoken."""

    @property
    def mirrors(self) -> bool:
        """Whether headers repeat arguments that ask for it."""

    @property
    def server(self) -> Mapping[str, Any]:
        """The server's name and version, as it says."""

    @property
    def instructions(self) -> str:
        """What the server says to models; may be empty."""

    async def request(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The result of one request. `headers` go along where `mirrors` says so. Raises: CallError."""

    async def close(self) -> None:
        """Take leave."""


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
