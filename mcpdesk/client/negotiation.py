"""Negotiation of the era and revision between a client and a server. Source: MCP basic/versioning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from mcpdesk.client.transport import ServerReply, excerpt, value_excerpt
from mcpdesk.errors import InvalidAnswer
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.revisions import BY_NAME, LATEST, LATEST_HANDSHAKE, Revision
from mcpdesk.protocol.stateless import SERVER_KEY

STATELESS_ERROR_CODES = frozenset(
    {ErrorCode.HEADER_MISMATCH, ErrorCode.MISSING_CAPABILITY, ErrorCode.UNSUPPORTED_VERSION}
)
"""Error codes that only servers of the stateless era use."""
_REVISION_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_HANDSHAKE_REVISIONS = sorted(
    (each for each in BY_NAME.values() if not each.is_stateless), key=lambda each: each.name
)
_CAPABILITIES: dict[str, JSONObject] = {
    "elicitation/create": {"elicitation": {"form": {}, "url": {}}},
    "sampling/createMessage": {"sampling": {}},
    "roots/list": {"roots": {}},
}
"""Capability that a client declares to answer a question, by method."""


def declared_capabilities(
    questions: Iterable[str], extensions: Mapping[str, JSONObject], *, announces_changes: bool = False
) -> JSONObject:
    """Return the capabilities of a client with these extensions that answers questions of these methods.

    With `announces_changes`, the client announces changes of its roots.
    """
    declared: JSONObject = {"extensions": dict(extensions)} if extensions else {}
    for method in questions:
        declared |= _CAPABILITIES[method]
    if announces_changes and "roots" in declared:
        declared["roots"] = {"listChanged": True}
    return declared


def with_capabilities(declared: JSONObject, added: JSONObject) -> JSONObject:
    """Return both capabilities together, with the extensions of both."""
    merged = declared | added
    declared_extensions, added_extensions = declared.get("extensions"), added.get("extensions")
    if isinstance(declared_extensions, dict) and isinstance(added_extensions, dict):
        merged["extensions"] = declared_extensions | added_extensions
    return merged


class Agreement(Struct, frozen=True):
    """Result of the negotiation before the first request."""

    revision: Revision
    server: Mapping[str, Any] = {}
    """Name and version that the server reports."""
    instructions: str = ""
    """Server's instructions for models."""
    capabilities: Mapping[str, Any] = {}
    """Server's capabilities."""

    @property
    def sends_logs(self) -> bool:
        """True if the server may send log messages, or is stateless and its capabilities are unknown."""
        return "logging" in self.capabilities or (self.revision.is_stateless and not self.capabilities)


def is_contradiction(reply: ServerReply) -> bool:
    """Return True if a server rejects the latest revision but lists it as supported.

    The request is then repeated once.
    """
    return reply.code == ErrorCode.UNSUPPORTED_VERSION and LATEST.name in _versions(reply, {})


def agreement_from_discovery(reply: ServerReply) -> Agreement | None:
    """Return the agreement from a reply to `server/discover`, or None if the server needs a handshake.

    A server may still accept a handshake if its code fails on the unknown method, or if a filter in front of
    it forbids the method.

    Raises: HttpError if a token is missing, or the reply redirects; InvalidAnswer if no revision is supported
    by both sides.
    """
    needs_token = reply.status == 401 or (reply.status == 403 and "www-authenticate" in reply.headers)
    if needs_token or reply.status // 100 == 3:
        raise reply.failure()
    result = _result(reply)
    if "supportedVersions" not in result and reply.code not in STATELESS_ERROR_CODES:
        return None
    versions = _versions(reply, result)
    if result and not versions:
        return None
    if LATEST.name in versions and result:
        meta = result.get("_meta")
        return _agreement(LATEST, meta.get(SERVER_KEY) if isinstance(meta, dict) else None, result)
    if any(name in BY_NAME and not BY_NAME[name].is_stateless for name in versions):
        return None
    versions_text = excerpt(", ".join(versions)) or "none"
    raise InvalidAnswer(f"it supports the revisions {versions_text}, this client {', '.join(BY_NAME)}")


def agreement_from(result: JSONObject) -> tuple[Agreement, list[Remark]]:
    """Return the agreement from the result of `initialize`, and remarks on the result.

    Instead of an unknown revision, the newest known one before it is used, because both may be compatible.
    """
    version = result.get("protocolVersion")
    remarks: list[Remark] = []
    revision = BY_NAME.get(version) if isinstance(version, str) else None
    if revision is None or revision.is_stateless:
        revision_text = "no revision" if version is None else f"the revision {excerpt(str(version))[:40]!r}"
        revision = LATEST_HANDSHAKE
        if isinstance(version, str) and _REVISION_DATE.fullmatch(version):
            older_revisions = [each for each in _HANDSHAKE_REVISIONS if each.name < version]
            revision = older_revisions[-1] if older_revisions else LATEST_HANDSHAKE
        fault = f"it answers the handshake with {revision_text}; {revision.name} is used"
        remarks.append(Remark(RemarkKind.REVISION, fault))
    if not isinstance(result.get("capabilities", {}), dict):
        fault = f"capabilities is {value_excerpt(result['capabilities'])}; it must be an object"
        remarks.append(Remark(RemarkKind.RESULT, fault))
    return _agreement(revision, result.get("serverInfo"), result), remarks


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
    """Return the revisions that the server lists as supported."""
    versions = result.get("supportedVersions")
    if not result:
        data = reply.message["error"].get("data")
        versions = data.get("supported") if isinstance(data, dict) else None
    return [each[:40] for each in versions if isinstance(each, str)] if isinstance(versions, list) else []
