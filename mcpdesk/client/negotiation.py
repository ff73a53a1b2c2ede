"""How a client and a server agree on an era and a revision. Source: MCP basic/versioning."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.client.transport import REDIRECTS, REFUSED, ServerReply, excerpt
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.revisions import BY_NAME, LATEST, LATEST_HANDSHAKE, Revision
from mcpdesk.protocol.stateless import SERVER_KEY

MODERN = frozenset({ErrorCode.HEADER_MISMATCH, ErrorCode.MISSING_CAPABILITY, ErrorCode.UNSUPPORTED_VERSION})
"""Errors that only servers of the stateless era answer with."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WITH_HANDSHAKE = sorted(
    (each for each in BY_NAME.values() if not each.is_stateless), key=lambda each: each.name
)


class Agreement(Struct, frozen=True):
    """What a client and a server agreed on before the first request."""

    revision: Revision
    server: Mapping[str, Any] = {}
    """The server's name and version, as it says."""
    instructions: str = ""
    """What the server says to models."""
    capabilities: Mapping[str, Any] = {}
    """What the server can do, as it says."""

    @property
    def sends_logs(self) -> bool:
        """Whether it may send log messages: also one of the stateless era that was not asked what it can."""
        return "logging" in self.capabilities or (self.revision.is_stateless and not self.capabilities)


def is_contradiction(reply: ServerReply) -> bool:
    """Whether a server refuses the latest revision and names it as one it serves: it is asked once more."""
    return reply.code == ErrorCode.UNSUPPORTED_VERSION and LATEST.name in _versions(reply, {})


def discovered(reply: ServerReply) -> Agreement | None:
    """The agreement a reply to `server/discover` makes; None: the server wants a handshake.

    Raises: HttpError when the reply says nothing of the era; InvalidAnswer when no revision is common.
    """
    if reply.status >= 500 or reply.status in REFUSED | REDIRECTS or reply.status // 100 == 3:
        raise reply.failure()
    result = _result(reply)
    if "supportedVersions" not in result and reply.code not in MODERN:
        return None
    versions = _versions(reply, result)
    if LATEST.name in versions and result:
        meta = result.get("_meta")
        return _agreement(LATEST, meta.get(SERVER_KEY) if isinstance(meta, dict) else None, result)
    if any(name in BY_NAME and not BY_NAME[name].is_stateless for name in versions):
        return None
    served = excerpt(", ".join(versions)) or "none"
    raise InvalidAnswer(f"it serves the revisions {served}, this client {', '.join(BY_NAME)}")


def shaken(result: JSONObject) -> tuple[Agreement, str]:
    """The agreement the result of `initialize` makes, and what is wrong with it; empty if nothing is.

    For a revision that is not known the newest one that is not newer is taken: its messages may fit.
    """
    version, fault = result.get("protocolVersion"), ""
    revision = BY_NAME.get(version) if isinstance(version, str) else None
    if revision is None or revision.is_stateless:
        named = "no revision" if version is None else f"the revision {excerpt(str(version))[:40]!r}"
        older = [each for each in _WITH_HANDSHAKE if isinstance(version, str) and each.name < version]
        revision = older[-1] if older and _DATE.fullmatch(str(version)) else LATEST_HANDSHAKE
        fault = f"it answers the handshake with {named}; {revision.name} is spoken"
    return _agreement(revision, result.get("serverInfo"), result), fault


def _agreement(revision: Revision, server: Any, result: JSONObject) -> Agreement:
    instructions, capabilities = result.get("instructions"), result.get("capabilities")
    return Agreement(
        revision,
        server if isinstance(server, dict) else {},
        instructions if isinstance(instructions, str) else "",
        capabilities if isinstance(capabilities, dict) else {},
    )


def _result(reply: ServerReply) -> JSONObject:
    result = reply.message.get("result") if isinstance(reply.message, dict) else None
    return result if isinstance(result, dict) else {}


def _versions(reply: ServerReply, result: JSONObject) -> list[str]:
    """The revisions a server says it serves."""
    named = result.get("supportedVersions")
    if not result:
        data = reply.message["error"].get("data")
        named = data.get("supported") if isinstance(data, dict) else None
    return [each[:40] for each in named if isinstance(each, str)] if isinstance(named, list) else []
