"""Gateway dialect: method names, tool results and jobs of an older protocol.

Results of the dialect are MCP results with additional members, so clients of MCP and clients of the dialect
can both read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.protocol.revisions import BY_NAME, V2025_06_18
from mcpdesk.protocol.task_shapes import TaskStatus

REVISION = V2025_06_18
"""Revision that `initialize` reports if the client requests none. It is also used for clients that send no
`initialize`.
"""
DISCOVERY_VERSION = "0.1"
EXECUTION_FAILED = -32000
MESSAGE_LENGTH = 500
"""Maximum characters of an error message. The error's data has the full text."""
SYNC, ASYNC = "sync", "async"
STATUS_METHODS = frozenset({"statusReport", "status/report", "status.report"})
PROGRESS = "notifications/progress"

_ALIASES = {"listTools": "tools/list", "callTool": "tools/call"}
_STATES = {
    TaskStatus.WORKING: "running",
    TaskStatus.INPUT_REQUIRED: "running",
    TaskStatus.COMPLETED: "succeeded",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "canceled",
}


def state(status: TaskStatus, has_begun: bool) -> str:
    """Return `queued`, `running`, `succeeded`, `failed` or `canceled`."""
    return "queued" if status is TaskStatus.WORKING and not has_begun else _STATES[status]


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
        return message | {"params": _initialize(message.get("params") or {})}
    name = _ALIASES.get(method)
    if name is None:
        return message
    renamed = message | {"method": name}
    return renamed | {"params": _call(message.get("params") or {})} if method == "callTool" else renamed


def mode(params: JSONObject) -> str:
    """Return the mode of a tool call, `sync` or `async`. Raises: RemoteProtocolError (-32602)."""
    given = params.get("mode")
    if given is None:
        return SYNC
    if given not in (SYNC, ASYNC):
        raise invalid_params(f'mode must be "{SYNC}" or "{ASYNC}", not {str(given)[:80]!r}')
    return str(given)


def superset(body: JSONObject, structured: Any) -> JSONObject:
    """Return the CallToolResult of a successful call, with the additional members of the dialect.

    `structured` is the tool's structured content, even if the revision cannot represent it.
    """
    stdout, stderr, exit_code = outputs(body, structured)
    return {"status": "ok", "stdout": stdout, "stderr": stderr, "exit_code": exit_code} | body


def outputs(body: JSONObject, structured: Any) -> tuple[str, str, int | None]:
    """Return standard output, standard error and exit code of a result.

    If the tool is not a program, its text is returned as standard output with the exit code 0. If such a tool
    failed, its text is returned as standard error with the exit code None.
    """
    if is_program(structured):
        return _text(structured.get("stdout")), _text(structured.get("stderr")), structured["exit_code"]
    output = "\n".join(each["text"] for each in body["content"] if each.get("type") == "text")
    return ("", output, None) if body.get("isError") else (output, "", 0)


def is_program(structured: Any) -> bool:
    """Return True if a structured result is that of a program."""
    return isinstance(structured, dict) and type(structured.get("exit_code")) is int


def execution_error(tool: str, body: JSONObject, structured: Any) -> RemoteProtocolError | None:
    """Return the error (-32000) of a failed call, or None if the call succeeded.

    The data of the error has `exit_code` and `stderr`. For a tool that is not a program, `exit_code` is null,
    and `stderr` has the tool's message.
    """
    if not body.get("isError"):
        return None
    stdout, stderr, exit_code = outputs(body, structured)
    is_from_program = is_program(structured)
    stage, _, command = tool.partition("-")
    names_itself = is_from_program and "stage" in structured
    data: JSONObject = {
        "exit_code": exit_code,
        "stage": (_text(structured.get("stage")) if names_itself else "") or stage,
        "command": _text(structured.get("command")) if names_itself else command,
    }
    data |= {"stderr": stderr} if stderr else {}
    data |= {"stdout": stdout} if stdout else {}
    if not is_from_program:
        data |= {} if structured is None else {"structuredContent": structured}
        if any(each.get("type") != "text" for each in body["content"]):
            data["content"] = body["content"]
        first = stderr.strip().partition("\n")[0][:MESSAGE_LENGTH]
        return RemoteProtocolError(EXECUTION_FAILED, first or f"{tool} failed", data)
    how = "timed out and ended with" if structured.get("timed_out") is True else "failed with"
    return RemoteProtocolError(EXECUTION_FAILED, f"{tool} {how} exit code {exit_code}", data)


def places(identifier: str) -> JSONObject:
    """Return the URLs of a job."""
    path = f"/jobs/{identifier}"
    return {
        "job_id": identifier,
        "poll": path,
        "ws": f"/ws/jobs/{identifier}",
        "download": f"{path}/download",
        "manifest": f"{path}/manifest",
    }


def stored_output(identifier: str) -> JSONObject:
    """Return the members that a result or error with truncated output has in addition."""
    return {"truncated": True, "download": places(identifier)["download"]}


def output_file(identifier: str) -> str:
    """Return the URL of a job's output in the form that the job's events use."""
    return f"/v1/jobs/{identifier}/download"


def accepted(identifier: str) -> JSONObject:
    """Return the result of a call that continues as a job."""
    text = f"Accepted: the call runs as job {identifier}; GET /jobs/{identifier} returns its state."
    body = {"content": [{"type": "text", "text": text}], "isError": False}
    return {"status": "accepted"} | places(identifier) | body


def timestamp(seconds: float | None) -> str | None:
    """Return Unix seconds as ISO 8601 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _initialize(params: JSONObject) -> JSONObject:
    offered = params.get("protocolVersion")
    known = BY_NAME.get(offered) if isinstance(offered, str) else None
    if known is not None and not known.is_stateless:
        return params
    return params | {"protocolVersion": REVISION.name}


def _call(params: JSONObject) -> JSONObject:
    if "stage" not in params and "command" not in params and "name" in params:
        return params
    names = [params.get(key) for key in ("stage", "command")]
    for key, value in zip(("stage", "command"), names, strict=True):
        if not isinstance(value, str) or not value:
            raise invalid_params(f"callTool needs params.{key} (a text): the tool is called STAGE-COMMAND")
    rest = {key: params[key] for key in ("mode", "_meta") if key in params}
    arguments = params.get("args", params.get("arguments"))
    if arguments is not None and not isinstance(arguments, dict):
        raise invalid_params("callTool: params.args must be an object")
    return {"name": "-".join(map(str, names)), "arguments": arguments or {}} | rest


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
