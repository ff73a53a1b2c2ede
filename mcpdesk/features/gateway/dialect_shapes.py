"""JSON of the gateway dialect, an older protocol: method names, tool results and descriptions.

Results of the dialect are MCP results with additional members, so clients of MCP and clients of the dialect
can both read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mcpdesk.protocol.job_shapes import job_urls, outputs
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.protocol.revisions import BY_NAME, V2025_06_18

REVISION = V2025_06_18
"""Revision that `initialize` reports if the client requests no revision.

Clients that send no `initialize` use this revision as well.
"""
DISCOVERY_VERSION = "0.1"
SYNC, ASYNC = "sync", "async"
STATUS_METHODS = frozenset({"statusReport", "status/report", "status.report"})
PROGRESS = "notifications/progress"

_ALIASES = {"listTools": "tools/list", "callTool": "tools/call"}


def discovery(name: str, description: str, version: str, tools: Iterable[JSONObject]) -> JSONObject:
    """Return the response to GET and OPTIONS. `tools` are in the form of `tools/list`."""
    commands = [
        {
            "name": tool["name"],
            "description": tool.get("description", ""),
            "parameters": tool["inputSchema"],
        }
        for tool in tools
    ]
    return {
        "mcp_version": DISCOVERY_VERSION,
        "name": name,
        "description": description,
        "version": version,
        "capabilities": {"commands": commands},
    }


def translated(message: JSONObject) -> JSONObject:
    """Return a request with the method name and parameters of the specification.

    Raises: RemoteProtocolError (-32602) for a `callTool` without a tool name.
    """
    method = message["method"]
    if method == "initialize":
        return message | {"params": _initialize_params(message.get("params") or {})}
    name = _ALIASES.get(method)
    if name is None:
        return message
    renamed = message | {"method": name}
    if method == "callTool":
        return renamed | {"params": _call_params(message.get("params") or {})}
    return renamed


def mode(params: JSONObject) -> str:
    """Return the mode of a tool call, `sync` or `async`. Raises: RemoteProtocolError (-32602)."""
    value = params.get("mode")
    if value is None:
        return SYNC
    if value not in (SYNC, ASYNC):
        raise invalid_params(f'mode must be "{SYNC}" or "{ASYNC}", not {str(value)[:80]!r}')
    return str(value)


def dialect_result(body: JSONObject, structured: Any) -> JSONObject:
    """Return the CallToolResult of a successful call, with the additional members of the dialect.

    `structured` is the tool's structured content, even if the revision cannot represent it.
    """
    stdout, stderr, exit_code = outputs(body, structured)
    return {"status": "ok", "stdout": stdout, "stderr": stderr, "exit_code": exit_code} | body


def stored_output(identifier: str) -> JSONObject:
    """Return the additional members of a result or an error whose output is truncated."""
    return {"truncated": True, "download": job_urls(identifier)["download"]}


def accepted(identifier: str) -> JSONObject:
    """Return the result of a call that continues as a job."""
    text = f"Accepted: the call runs as job {identifier}; GET /jobs/{identifier} returns its state."
    body = {"content": [{"type": "text", "text": text}], "isError": False}
    return {"status": "accepted"} | job_urls(identifier) | body


def _initialize_params(params: JSONObject) -> JSONObject:
    offered = params.get("protocolVersion")
    revision = BY_NAME.get(offered) if isinstance(offered, str) else None
    if revision is not None and not revision.is_stateless:
        return params
    return params | {"protocolVersion": REVISION.name}


def _call_params(params: JSONObject) -> JSONObject:
    if "stage" not in params and "command" not in params and "name" in params:
        return params
    names = [params.get(key) for key in ("stage", "command")]
    for key, value in zip(("stage", "command"), names, strict=True):
        if not isinstance(value, str) or not value:
            raise invalid_params(f"callTool needs params.{key} (a text): the tool is called STAGE-COMMAND")
    other_params = {key: params[key] for key in ("mode", "_meta") if key in params}
    arguments = params.get("args", params.get("arguments"))
    if arguments is not None and not isinstance(arguments, dict):
        raise invalid_params("callTool: params.args must be an object")
    return {"name": "-".join(map(str, names)), "arguments": arguments or {}} | other_params
