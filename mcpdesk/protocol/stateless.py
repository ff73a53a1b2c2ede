"""The stateless era: checks of the metadata in each request, in their required order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.client_questions import ASKABLE, Terms, display_name
from mcpdesk.protocol.handshake import log_level
from mcpdesk.protocol.jsonrpc import ErrorCode, JSONObject, invalid_params
from mcpdesk.protocol.methods import CALLS, LOG_LEVELS
from mcpdesk.protocol.revisions import BY_NAME, SERVED_NAMES, Revision

PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = PREFIX + "protocolVersion"
CAPABILITIES_KEY = PREFIX + "clientCapabilities"
CLIENT_KEY = PREFIX + "clientInfo"
LOG_LEVEL_KEY = PREFIX + "logLevel"
SERVER_KEY = PREFIX + "serverInfo"
SUBSCRIPTION_KEY = PREFIX + "subscriptionId"


def is_stateless(message: object, version: str = "") -> bool:
    """Return True if a message is stateless by its metadata or by its `MCP-Protocol-Version` header.

    The metadata of an `initialize` request is ignored. Source: MCP basic/versioning.
    """
    header_revision = BY_NAME.get(version)
    if header_revision is not None and header_revision.is_stateless:
        return True
    if not isinstance(message, dict) or not isinstance(params := message.get("params"), dict):
        return False
    if not isinstance(meta := params.get("_meta"), dict) or VERSION_KEY not in meta:
        return False
    return message.get("method") != "initialize" or not isinstance(params.get("protocolVersion"), str)


class Admission:
    """Checks the metadata of one peer's requests.

    A peer repeats its metadata in each request, so the latest terms are cached. Transports pass the same
    object for equal headers, so the same headers are compared only once.
    """

    __slots__ = ("_headers", "_meta", "_terms", "_tool")

    def __init__(self) -> None:
        self._meta: Mapping[str, Any] = {}
        self._terms: Terms | None = None
        self._headers: Mapping[str, str] | None = None
        self._tool = ""
        """Tool of the call for which `_headers` were checked."""

    def admit(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None) -> Terms:
        """Return the terms for a request. The arguments and errors are those of the function `admit`."""
        meta = params.get("_meta")
        if self._terms is not None and meta == self._meta:
            is_checked = (
                headers is self._headers and method == "tools/call" and params.get("name") == self._tool
            )
            if headers is not None and not is_checked:
                self._check_routing(headers, self._terms.revision.name, method, params)
            return self._terms
        terms = admit(method, params, headers)
        if "progressToken" not in params["_meta"]:
            self._meta, self._terms, self._headers = params["_meta"], terms, None
        return terms

    def _check_routing(
        self, headers: Mapping[str, str], version: str, method: str, params: Mapping[str, Any]
    ) -> None:
        from mcpdesk.protocol.headers import check_routing

        check_routing(headers, version, method, params)
        if method == "tools/call":
            self._headers, self._tool = headers, params["name"]


def admit(method: str, params: Mapping[str, Any], headers: Mapping[str, str] | None) -> Terms:
    """Check the metadata of a request and return its terms.

    On HTTP, `headers` with lower-case names are compared with the body. On pipes, `headers` is None. Raises:
    RemoteProtocolError with the code of the first violated rule.
    """
    meta = params.get("_meta")
    if not isinstance(meta, dict):
        raise missing_metadata()
    version, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise missing_metadata()
    if headers is not None:
        from mcpdesk.protocol.headers import check_routing  # pipes do not need it

        check_routing(headers, version, method, params)
    revision = BY_NAME.get(version)
    if revision is None or not revision.is_stateless:
        raise unsupported(version[:80])
    client, level = display_name(meta.get(CLIENT_KEY)), meta.get(LOG_LEVEL_KEY)
    if level is None:
        return Terms(revision, capabilities, client)
    if level not in LOG_LEVELS:
        return Terms(revision, capabilities, client, unknown_level=level)
    return Terms(revision, capabilities, client, log_level(level))


def unsupported(requested: str) -> RemoteProtocolError:
    """Return the error for a revision that we do not serve."""
    data = {"supported": list(SERVED_NAMES), "requested": requested}
    return RemoteProtocolError(ErrorCode.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def missing_metadata() -> RemoteProtocolError:
    """Return the error for a stateless request without the required metadata."""
    return invalid_params(
        f"params._meta needs {VERSION_KEY!r} (a string) and {CAPABILITIES_KEY!r} (an object), or send "
        f"`initialize` first; versions served: {', '.join(SERVED_NAMES)}"
    )


def request_meta(revision: Revision, client: Mapping[str, Any], level: str | None = None) -> dict[str, Any]:
    """Return the `_meta` that our own client sends with every request."""
    meta: dict[str, Any] = {
        VERSION_KEY: revision.name,
        CLIENT_KEY: dict(client),
        CAPABILITIES_KEY: {},
    }
    if level is not None:
        meta[LOG_LEVEL_KEY] = level
    return meta


def allowed_result_types(request: JSONObject) -> tuple[str, ...]:
    """Return the result types that the response to a request may have.

    `task` and `input_required` are allowed only if the request declares the capability.
    """
    from mcpdesk.protocol.task_shapes import EXTENSION  # not needed by servers

    meta = request["params"].get("_meta") or {}
    declared = meta.get(CAPABILITIES_KEY) or {}
    tasks = ("task",) if EXTENSION in (declared.get("extensions") or {}) else ()
    may_ask = request["method"] in CALLS and not ASKABLE.isdisjoint(declared)
    return ("complete", *tasks, *(("input_required",) if may_ask else ()))
