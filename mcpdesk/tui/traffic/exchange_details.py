"""Contents of the details of an exchange: messages in order, steps, HTTP headers, failure.

An operation is an exchange together with its parts: the other exchanges that belong to it. Each of these
exchanges is a step. This module depends on no widget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

from textual.content import Content

from mcpdesk.byte_size import size_text
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.index.traffic_index import Index, is_round
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import (
    CheckedHeader,
    HeaderVerdict,
    checked_request_headers,
    held_messages,
    http,
    message,
)
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.safe_text import clean, one_line

_MESSAGE_KEYS = ("params", "result", "error", "arguments", "content", "structuredContent", "isError")
"""Most informative members of a message. They are shown before the other members of the same object."""
_ENVELOPE_KEYS = ("jsonrpc", "id", "method")
"""Least informative members of a message. They are shown last."""
ENVELOPE = "envelope"
"""Name of the shown member that contains `jsonrpc`, `id` and `method`."""
FOLDED_MEMBERS = ("_meta", ENVELOPE)
"""Members that are folded when a message is shown first."""


def with_important_first(value: Any) -> Any:
    """Return a message with its members reordered: parameters, result or error are first.

    The members `jsonrpc`, `id` and `method` are last, inside an additional member `envelope`. Within
    parameters and result, arguments and content are first.
    """
    if not isinstance(value, dict):
        return value
    envelope = {key: value[key] for key in _ENVELOPE_KEYS if key in value}
    members = {key: _with_keys_first(member) for key, member in value.items() if key not in envelope}
    reordered_members: dict[str, Any] = _with_keys_first(members)
    return {**reordered_members, ENVELOPE: envelope} if envelope else reordered_members


def _with_keys_first(value: Any) -> Any:
    """Return an object with the members in `_MESSAGE_KEYS` first. Return any other value unchanged."""
    if not isinstance(value, dict):
        return value
    informative = {key: value[key] for key in _MESSAGE_KEYS if key in value}
    return informative | {key: member for key, member in value.items() if key not in informative}


def failure_text(response: Any) -> str:
    """Return the error message of a response, or "" if the request did not fail."""
    if not isinstance(response, dict):
        return ""
    error, result = response.get("error"), response.get("result")
    if isinstance(error, dict):
        return str(error.get("message", ""))
    if not isinstance(result, dict) or result.get("isError") is not True:
        return ""
    content = result.get("content")
    blocks = content if isinstance(content, list) else ()
    return " ".join(str(block["text"]) for block in blocks if isinstance(block, dict) and "text" in block)


MAX_SHOWN_BYTES = 256 << 10
"""Maximum number of bytes of a frame shown in the details, because masking secrets takes half a second per
megabyte."""


def frame_text(index: Index, number: int, max_bytes: int | None = None) -> str:
    """Return a frame, or its first `max_bytes`, with secrets masked. Return "" if the frame is missing."""
    if index.frame(number) is None:
        return ""
    text = index.frame_bytes(number)[:max_bytes].decode("utf-8", "replace")
    return text if index.reveals_secrets else mask_text(text)


def frame_heading(index: Index, number: int) -> str:
    """Return a heading for the shown part of a frame."""
    frame = index.frame(number)
    if frame is None:
        return "this frame is no longer in memory, nor in a file"
    heading = f"frame {number} as it passed, {size_text(frame.size)}"
    available_size = len(index.frame_bytes(number))
    if available_size < frame.size and not index.is_available(number):
        return f"{heading}: loading the rest from its core"
    if available_size < frame.size:
        heading += f", of which {size_text(available_size)} were kept"
    if available_size > MAX_SHOWN_BYTES:
        heading += ": its beginning · o shows all, y copies it"
    return heading


def held_tree(index: Index, exchange: Exchange) -> dict[str, Any]:
    """Return the messages of an exchange that were held at the desk, as title -> details.

    The title names the outcome. For a changed message, the details are the old and the new text. For others,
    they are None.
    """
    tree = dict[str, Any]()
    for held_message in held_messages(index, exchange):
        texts = {"was": held_message.was, "became": held_message.now}
        title = f"{held_message.side} {held_message.how} after {duration(held_message.held_s)}"
        tree[title] = {name: value for name, value in texts.items() if value is not None} or None
    return tree


MAX_PARTS = 50
"""Maximum number of parts of an operation that are shown. These are the newest parts."""
_VERDICT_STYLES = {
    HeaderVerdict.GOOD: "$text-success",
    HeaderVerdict.BAD: "$text-error",
    HeaderVerdict.OPEN: "$text-muted",
}


def http_text(index: Index, operation: Exchange, schema: Any = None) -> Content:
    """Return the HTTP requests and responses of an exchange and its parts.

    If they did not use HTTP, return a note about this. `schema` is the input schema of the called tool, if
    known. The headers of a request are compared with it.
    """
    exchanges = [operation, *(index.exchange(row) for row in operation.parts[-MAX_PARTS:])]
    blocks: list[Content] = []
    for exchange in exchanges:
        exchange_schema = schema if exchange.method == operation.method else None
        exchange_blocks = list(_http_blocks(index, exchange, exchange_schema))
        if exchange_blocks and len(exchanges) > 1:
            title = one_line(f"{exchange.method} #{exchange.id}")
            blocks.append(Content.styled(title, "bold $text-primary"))
        blocks += exchange_blocks
    return Content("\n\n").join(blocks) if blocks else Content("This exchange did not use HTTP.")


def _http_blocks(index: Index, exchange: Exchange, schema: Any) -> Iterator[Content]:
    """Yield request and response, if available. The headers of a POST are compared with its body."""
    request = None
    if exchange.request is not None:
        request = checked_request_headers(index, exchange, exchange.request, schema)
    if request is not None and request[0].startswith("POST "):
        line, headers = request
        yield _http_block(line, sorted(headers, key=_header_order))
    elif request is not None:
        yield from _unchecked_block(index, exchange, exchange.request)
    yield from _unchecked_block(index, exchange, exchange.response)


def _unchecked_block(index: Index, exchange: Exchange, frame: int | None) -> Iterator[Content]:
    if frame is not None and (http_part := http(index, exchange, frame)) is not None:
        line, headers = http_part
        yield _http_block(line, [CheckedHeader(name, value) for name, value in headers])


def _http_block(line: str, headers: list[CheckedHeader]) -> Content:
    return Content("\n").join([Content.styled(clean(line), "bold"), *map(_header_line, headers)])


def _header_line(header: CheckedHeader) -> Content:
    """Return a header with the glyph and explanation of its check. A missing header has no value.

    MCP headers are highlighted.
    """
    style = _VERDICT_STYLES[header.verdict]
    glyph = header.verdict.value if header.words else " "
    is_mcp_header = header.name.lower().startswith("mcp-")
    return Content.assemble(
        (f"{glyph} ", style),
        (f"{one_line(header.name)}:", "$text-primary" if is_mcp_header else "$text-muted"),
        f" {one_line(header.value)}" if header.value else "",
        (f"  {header.words}" if header.words else "", style),
    )


def _header_order(header: CheckedHeader) -> int:
    """Return the sort key of a header: first invalid headers, then other checked headers, then the others."""
    if header.verdict is HeaderVerdict.BAD:
        return 0
    return 1 if header.words else 2


MESSAGES = "messages"
"""Member of a step that contains its request and response."""
MAX_STEPS = 100
"""Maximum number of steps that are shown. These are the newest steps."""


def steps(index: Index, operation: Exchange, schema: Any = None) -> dict[str, Any]:
    """Return the steps of an operation, as title -> contents.

    `schema` is the input schema of the called tool, if known.
    """
    return {
        title: _step(index, exchange, operation, schema)
        for exchange, title in _titled_exchanges(index, operation)
    }


def step_title(index: Index, operation: Exchange, number: int) -> str | None:
    """Return the title of an exchange in `steps`, or None if it is not shown."""
    for exchange, title in _titled_exchanges(index, operation):
        if exchange.number == number:
            return title
    return None


def _titled_exchanges(index: Index, operation: Exchange) -> list[tuple[Exchange, str]]:
    """Return the exchanges of an operation, sorted by their ends, each with its title."""
    round_count = 0
    steps: list[tuple[float, Exchange, str]] = []
    for row in (operation.number, *operation.parts):
        exchange = operation if row == operation.number else index.exchange(row)
        is_call_round = is_round(exchange, operation)
        round_count += is_call_round
        step_name = f"round {round_count}" if is_call_round and operation.rounds > 1 else exchange.method
        start_text = ""
        if exchange is not operation:
            start_text = f"at +{duration(max(0.0, exchange.started - operation.started))}, "
        end_time = _end_time(index, exchange)
        title = f"{step_name} #{exchange.id} · {start_text}{_outcome(exchange, end_time)}"
        steps.append((end_time, exchange, title))
    steps.sort(key=lambda step: step[0])
    return [(exchange, title) for _, exchange, title in steps[-MAX_STEPS:]]


def _end_time(index: Index, exchange: Exchange) -> float:
    """Return the Unix time when a step ended, or infinity while it runs.

    The exchange of an operation with several rounds ends with its last round, but as a step, it is only the
    first round. The step therefore ends with the first response.
    """
    stored_frame = None if exchange.response is None else index.frame(exchange.response)
    end_time = stored_frame.time if stored_frame else exchange.ended
    return inf if end_time is None else end_time


def _outcome(exchange: Exchange, end_time: float) -> str:
    if end_time == inf:
        return Status.PENDING.value
    status = Status.ASKS if exchange.rounds > 1 else exchange.status  # the first of several rounds asks
    return f"{status.value} after {duration(max(0.0, end_time - exchange.started))}"


def _step(index: Index, exchange: Exchange, operation: Exchange, schema: Any) -> dict[str, Any]:
    """Return a step: first its most important members, then its full messages."""
    is_call_round = is_round(exchange, operation)
    request = _message(index, exchange, exchange.request, schema if is_call_round else None)
    response = _message(index, exchange, exchange.response)
    if is_call_round:
        parts = _answers(request) | _input_requests(response)
    elif exchange.direction is not operation.direction:
        parts = {"question": _member(request, "params"), "answer": _member(response, "result", "error")}
    else:
        parts = {"result": _member(response, "result", "error")}
    return {**parts, MESSAGES: {"request": request, "response": response}}


def _answers(request: Any) -> dict[str, Any]:
    params = _member(request, "params")
    answers = params.get("inputResponses") if isinstance(params, Mapping) else None
    return {} if answers is None else {"answers": answers}


def _input_requests(response: Any) -> dict[str, Any]:
    result = _member(response, "result", "error")
    questions = result.get("inputRequests") if isinstance(result, Mapping) else None
    if not isinstance(questions, Mapping):
        return {"result": result}
    titled_questions = {
        _question_title(key, question): _member(question, "params") for key, question in questions.items()
    }
    return {"questions": titled_questions}


def _question_title(key: str, question: Any) -> str:
    method = question.get("method") if isinstance(question, Mapping) else None
    return f"{key} ({method})" if method else key


def _member(value: Any, *names: str) -> Any:
    """Return the first member that a message has, or None. Return a value that is not a mapping unchanged."""
    if not isinstance(value, Mapping):
        return value
    return next((value[name] for name in names if name in value), None)


def _message(index: Index, exchange: Exchange, frame: int | None, schema: Any = None) -> Any:
    return None if frame is None else message(index, exchange, frame, schema).value
