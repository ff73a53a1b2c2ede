"""Conversion of a handler's return value or exception to a result. Source: MCP server/tools."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from mcpdesk.errors import HandlerError, LocalProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec, content
from mcpdesk.protocol.jsonrpc import JSONObject, invalid_params
from mcpdesk.server.calls.call_figures import OutcomeKind
from mcpdesk.server.offer.tool import Tool, ToolResult
from mcpdesk.server.schemas.validation import SchemaFailure, Validator

MAX_NAME_LENGTH = 200
"""Maximum length in characters of a name that an error message repeats."""
_PLAIN_TYPES = (str, int, float, bool, type(None))


class ToolOutcome(Struct, frozen=True):
    """Outcome of one tool call. It does not depend on the revision or the dialect."""

    body: JSONObject
    """A CallToolResult with all fields."""
    kind: OutcomeKind
    failures: tuple[SchemaFailure, ...] = ()
    """Schema violations of the arguments."""


def tool_body(tool: Tool, output: Any, validator: Validator | None) -> JSONObject:
    """Return a CallToolResult for the output of a handler.

    `validator` checks the structured output. It is None if the tool has no output schema.
    """
    if validator is None and type(output) is str:
        # The most common case. It needs no checks.
        return {"content": [{"type": "text", "text": output}], "isError": False}
    try:
        return _body(tool, output, validator)
    except (TypeError, ValueError, RecursionError, LocalProtocolError) as error:
        return failed(f"{tool.name} returned something that is not JSON: {error}")


def _body(tool: Tool, output: Any, validator: Validator | None) -> JSONObject:
    if isinstance(output, ToolResult):
        return _body_of_tool_result(tool, output, validator)
    blocks = [output] if content.is_block(output) else output
    if isinstance(blocks, list) and blocks and all(content.is_block(each) for each in blocks):
        if problem := _block_problem(blocks):
            return failed(f"{tool.name} returned an invalid result: {problem}")
        return _checked_body(tool, {"content": blocks, "isError": False}, validator)
    return _body_of_data(tool, output, validator)


def failed(message: str, structured: JSONObject | None = None) -> JSONObject:
    """Return a CallToolResult that explains an error to a model."""
    body: JSONObject = {"content": [content.text(message)], "isError": True}
    return body if structured is None else body | {"structuredContent": structured}


def exception_result(tool_name: str, error: Exception) -> JSONObject:
    """Return a CallToolResult for an exception. The result has no traceback, because only the log may contain
    tracebacks.
    """
    if isinstance(error, HandlerError):
        return failed(error.message, error.data)
    return failed(f"{tool_name} failed: {described(error)}")


def described(error: BaseException) -> str:
    """Return an exception as one line: its type, and its text if it has one."""
    detail = error_text(error)
    return f"{type(error).__name__}: {detail}" if detail else type(error).__name__


def error_text(error: BaseException) -> str:
    """Return the text of an exception of hosted code. Its `__str__` may fail."""
    try:
        return str(error)
    except Exception as another:  # `__str__` is hosted code as well
        return f"(its text is not available: {type(another).__name__})"


def invalid_arguments_outcome(tool: Tool, failures: Sequence[SchemaFailure]) -> ToolOutcome:
    """Return the outcome of a call with invalid arguments, with the path of each error."""
    lines = [f"- {argument_path(failure.path)}: {failure.message}" for failure in failures]
    body = failed(f"Invalid arguments for {tool.name}:\n" + "\n".join(lines))
    return ToolOutcome(body, OutcomeKind.INVALID_ARGUMENTS, tuple(failures))


def invalid_arguments_error(tool: Tool, outcome: ToolOutcome) -> RemoteProtocolError:
    """Return the error (-32602) that lists all schema violations of the arguments."""
    violations = [{"path": argument_path(each.path), "message": each.message} for each in outcome.failures]
    return invalid_params(outcome.body["content"][0]["text"], {"tool": tool.name, "failures": violations})


def author_location(error: BaseException, folder: Path | None) -> str:
    """Return the innermost line in the author's files, as `file:line`, or "" if no line is in `folder`."""
    if folder is None:
        return ""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    author_lines = [(name, line) for name, line in frames if _is_inside(name, folder)]
    if not author_lines:
        return ""
    name, line = author_lines[-1]
    return f"{Path(name).relative_to(folder)}:{line}"


class LogEntry(NamedTuple):
    """Log line about an exception of hosted code."""

    level: str
    text: str
    where: str
    """Source line as `file:line`, or "" if it is unknown."""


async def log_entry(error: BaseException, folder: Path | None) -> LogEntry:
    """Describe an exception for the log.

    An expected failure, from `fail()`, is only its message at level info. Any other exception is an error
    with the traceback from `read_author_lines`, which is read on a worker thread.
    """
    if isinstance(error, HandlerError) and error.is_expected:
        return LogEntry("info", error.message, author_location(error, folder))
    return LogEntry("error", *await asyncio.to_thread(read_author_lines, error, folder))


def read_author_lines(error: BaseException, folder: Path | None) -> tuple[str, str]:
    """Return the traceback of the author's own files, and the innermost line in them as `file:line`.

    If no line is in `folder`, the traceback is complete and `file:line` is empty. For a syntax error, the
    traceback also shows the invalid line. For a HandlerError that was raised outside the folder,
    the text is only its message, because the error is intended. Reads source files.
    """
    frames = traceback.extract_tb(error.__traceback__)
    author_frames = [frame for frame in frames if folder is not None and _is_inside(frame.filename, folder)]
    if not author_frames and isinstance(error, HandlerError):
        return error.message, ""
    printed_frames = author_frames if author_frames or isinstance(error, SyntaxError) else list(frames)
    text = "".join(traceback.format_list(printed_frames) + traceback.format_exception_only(error)).rstrip()
    if not author_frames:
        return text, ""
    text = text.replace(f'File "{folder}{os.sep}', 'File "')  # short lines do not wrap
    return text, author_location(error, folder)


def _body_of_tool_result(tool: Tool, output: ToolResult[Any], validator: Validator | None) -> JSONObject:
    """Return the CallToolResult for a `ToolResult`."""
    blocks = list(output.content)
    if problem := _block_problem(blocks):
        return failed(f"{tool.name} returned an invalid result: {problem}")
    body: JSONObject = {"content": blocks, "isError": bool(output.is_error)}
    if output.meta:
        if not isinstance(output.meta, dict):
            return failed(f"{tool.name} returned an invalid result: meta is not an object")
        body["_meta"] = output.meta
    if output.structured is not None:
        json_value = plain_value(output.structured)
        body["structuredContent"] = json_value
        if not body["content"]:
            body["content"] = [content.text(_as_text(json_value))]
    return body if output.is_error else _checked_body(tool, body, validator)


def _block_problem(blocks: list[Any]) -> str:
    """Return the reason why clients would reject a content block, or "" if all blocks are valid."""
    for index, block in enumerate(blocks):
        if not content.is_block(block):
            return f"content[{index}] is not a content block"
        try:
            content.check_block(block)
        except ValueError as error:
            return f"content[{index}]: {error}"
    return ""


def _body_of_data(tool: Tool, output: Any, validator: Validator | None) -> JSONObject:
    """Return the CallToolResult for output that is neither a `ToolResult` nor content blocks."""
    is_declared = tool.output_schema is not None
    if output is None and is_declared and not (validator is not None and validator.accepts(None)):
        return failed(f"{tool.name} returned nothing, but declares an output schema")
    json_value = plain_value(output)
    text = _as_text(json_value)
    if validator is not None and "null" in text and not isinstance(json_value, str):
        # JSON has neither NaN nor infinity. The values that replace them are validated.
        json_value = codec.decode(text.encode())
    body: JSONObject = {
        "content": [] if json_value is None and not is_declared else [content.text(text)],
        "isError": False,
    }
    if isinstance(json_value, dict) or is_declared:
        body["structuredContent"] = json_value
    return _checked_body(tool, body, validator)


def _checked_body(tool: Tool, body: JSONObject, validator: Validator | None) -> JSONObject:
    """Return the body, or an error if its structured content violates the output schema."""
    if validator is None:
        return body
    if "structuredContent" not in body:
        return failed(f"{tool.name} returned no structured content, but declares an output schema")
    if validator.accepts(body["structuredContent"]):
        return body
    failures = validator.failures(body["structuredContent"])
    lines = [f"- {argument_path(each.path)}: {each.message}" for each in failures]
    return failed(f"{tool.name} returned output that violates its schema:\n" + "\n".join(lines))


def plain_value(value: Any) -> Any:
    """Convert a handler's value, such as a dataclass, to the types of JSON.

    Raises: TypeError, ValueError or RecursionError for a value that JSON cannot represent.
    """
    if isinstance(value, _PLAIN_TYPES):
        return value
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_as_plain)


def _as_text(json_value: Any) -> str:
    return json_value if isinstance(json_value, str) else codec.encode(json_value).decode()


def argument_path(path: tuple[str | int, ...]) -> str:
    """Return the path of a value in the arguments: `user.tags[2]`."""
    if not path:
        return "arguments"
    steps = (f"[{part}]" if isinstance(part, int) else f".{_shortened(part)}" for part in path)
    return "".join(steps).lstrip(".")


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else f"{name[:MAX_NAME_LENGTH]}…"


def _is_inside(filename: str, folder: Path) -> bool:
    return Path(filename).is_relative_to(folder)


def _as_plain(value: Any) -> Any:
    """Convert paths to text, and models with the method `model_dump` to plain values."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")
