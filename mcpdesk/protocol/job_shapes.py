"""JSON of jobs, which are tool calls that continue after their response: state, output, error and URLs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.task_shapes import TaskStatus

EXECUTION_FAILED = -32000
"""Error code of a failed call."""
MAX_MESSAGE_LENGTH = 500
"""Maximum number of characters of an error message. The error's data has the full text."""

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


def outputs(body: JSONObject, structured: Any) -> tuple[str, str, int | None]:
    """Return standard output, standard error and exit code of a result.

    If the tool is not a program, return its text as standard output with the exit code 0. If such a tool
    failed, return its text as standard error with the exit code None.
    """
    if is_program(structured):
        return _text(structured.get("stdout")), _text(structured.get("stderr")), structured["exit_code"]
    output = "\n".join(each["text"] for each in body["content"] if each.get("type") == "text")
    return ("", output, None) if body.get("isError") else (output, "", 0)


def is_program(structured: Any) -> bool:
    """Return True if a structured result comes from a program."""
    return isinstance(structured, dict) and type(structured.get("exit_code")) is int


def execution_error(tool: str, body: JSONObject, structured: Any) -> RemoteProtocolError | None:
    """Return the error (-32000) of a failed call, or None if the call succeeded.

    The data of the error has `exit_code` and `stderr`. For a tool that is not a program, `exit_code` is null,
    and `stderr` has the tool's message. The data also has the stage and command: those of a program's result,
    or the parts of a tool name such as `stage-command`.
    """
    if not body.get("isError"):
        return None
    stdout, stderr, exit_code = outputs(body, structured)
    is_from_program = is_program(structured)
    stage, _, command = tool.partition("-")
    has_stage = is_from_program and "stage" in structured
    data: JSONObject = {
        "exit_code": exit_code,
        "stage": (_text(structured.get("stage")) if has_stage else "") or stage,
        "command": _text(structured.get("command")) if has_stage else command,
    }
    data |= {"stderr": stderr} if stderr else {}
    data |= {"stdout": stdout} if stdout else {}
    if not is_from_program:
        data |= {} if structured is None else {"structuredContent": structured}
        if any(each.get("type") != "text" for each in body["content"]):
            data["content"] = body["content"]
        first_line = stderr.strip().partition("\n")[0][:MAX_MESSAGE_LENGTH]
        return RemoteProtocolError(EXECUTION_FAILED, first_line or f"{tool} failed", data)
    ending = "timed out and ended with" if structured.get("timed_out") is True else "failed with"
    return RemoteProtocolError(EXECUTION_FAILED, f"{tool} {ending} exit code {exit_code}", data)


def job_urls(identifier: str) -> JSONObject:
    """Return the URLs of a job."""
    path = f"/jobs/{identifier}"
    return {
        "job_id": identifier,
        "poll": path,
        "ws": f"/ws/jobs/{identifier}",
        "download": f"{path}/download",
        "manifest": f"{path}/manifest",
    }


def output_file(identifier: str) -> str:
    """Return the URL of a job's output in the form that the job's events use."""
    return f"/v1/jobs/{identifier}/download"


def timestamp(seconds: float | None) -> str | None:
    """Return Unix seconds as ISO 8601 in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
