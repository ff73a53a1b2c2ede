"""Tools of the desk: its servers, calls through it, and the recorded traffic.

No tool answers a question, holds a message or changes a setting. Secrets are masked as on the desk, and the
size of every result is limited, except that of a called tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic, sleep, time
from typing import Any

import orjson
from msgspec import to_builtins

from mcpdesk.errors import DeskError, HandlerError
from mcpdesk.link.link import Link
from mcpdesk.link.local.definition_costs import DefinitionCosts
from mcpdesk.link.values import CatalogueItem, ItemKind, ServerView
from mcpdesk.protocol import codec
from mcpdesk.protocol.catalogue.result_faults import result_faults
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.statistics import Subject
from mcpdesk.recorder.index.statistics_rows import rows_of
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import http, message, remarks, unmasked
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool, ToolResult
from mcpdesk.version import __version__

MAX_LINES = 200
"""Maximum number of exchanges, rows or tools in one result."""
MAX_TEXT_LENGTH = 60_000
"""Maximum number of characters of one message."""
MAX_TOOL_LENGTH = 20_000
"""Maximum number of characters of a description, and of a schema."""
MAX_NOTIFICATIONS = 50
"""Maximum number of notifications of one exchange."""
CALL = "tools/call"
CALL_S = 60
"""Default time limit of a call, in seconds."""
MAX_CALL_S = 600
"""Maximum time limit of a call, in seconds."""
MAX_PAIRING_S = 2.0
"""Maximum seconds for pairing and filtering recorded messages."""
SLICE_S = 0.004
"""Seconds of pairing, filtering or counting between two checks of the time limit."""
INSTRUCTIONS = (
    "This is mcpdesk, which hosts and connects to MCP servers and records their messages. A person may watch "
    "the same traffic on a screen. Begin with list_servers. call_tool calls a tool through the desk. "
    "search_traffic finds recorded exchanges, for example `status:error` or `tool:greet`, and read_exchange "
    "shows one of them. Questions of tools are answered by the person, not by you."
)
READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
NUMBER = {"type": "integer", "minimum": 0}


def _schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def _text_schema(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def desk_server(link: Link) -> Server:
    """Return the server. `link` is used on worker threads."""
    tools = DeskTools(link)
    server_name = _text_schema("Name of the server, as list_servers returns it.")
    limit = {
        "type": "integer", "minimum": 1, "maximum": MAX_LINES, "default": 50,
        "description": "Maximum number of exchanges.",
    }  # fmt: skip
    server = Server("mcpdesk", __version__, "mcpdesk", "Debug the MCP servers of a desk.", INSTRUCTIONS)
    server.tools.replace(
        [
            Tool(
                "list_servers", _on_thread(tools.list_servers), _schema(), annotations=READ_ONLY,
                description="List the servers of the desk, with their state and problems.",
            ),
            Tool(
                "list_tools", _on_thread(tools.list_tools), _schema(("server",), server=server_name),
                annotations=READ_ONLY,
                description="List the tools of a server, with their input schemas.",
            ),
            Tool(
                "call_tool", tools.call_tool,
                _schema(
                    ("server", "tool"),
                    server=server_name,
                    tool=_text_schema("Name of the tool."),
                    arguments={"type": "object", "description": "Arguments of the tool."},
                    timeout_s={
                        "type": "number", "exclusiveMinimum": 0, "maximum": MAX_CALL_S, "default": CALL_S,
                        "description": "Time limit in seconds.",
                    },
                ),
                annotations={"openWorldHint": True}, timeout_s=MAX_CALL_S + 10.0,
                description="Call a tool of a server through the desk. The call appears in the traffic.",
            ),
            Tool(
                "search_traffic", _on_thread(tools.search_traffic),
                _schema(
                    filter=_text_schema(
                        "Filter of the desk, such as `tool:greet status:error` or `>200ms since:5m`. Parts: "
                        "words, server:NAME, tool:NAME, peer:CLIENT, method:NAME, status:error. Join parts "
                        "with a space, `or` and `not`. Empty for all exchanges.",
                        maxLength=2000,
                    ),
                    limit=limit,
                    before={**NUMBER, "description": "Only exchanges with a smaller number than this."},
                ),
                annotations=READ_ONLY,
                description="Find recorded exchanges (requests with their responses), newest first.",
            ),
            Tool(
                "read_exchange", _on_thread(tools.read_exchange),
                _schema(("number",), number={**NUMBER, "description": "Number of the exchange."}),
                annotations=READ_ONLY,
                description="Read a recorded exchange: messages, HTTP headers and faults.",
            ),
            Tool(
                "statistics", _on_thread(tools.statistics),
                _schema(
                    by={"type": "string", "enum": ["tool", "client", "method"], "default": "tool"},
                ),
                annotations=READ_ONLY,
                description="Numbers of calls and errors, latency and sizes, by tool, client or method.",
            ),
        ]
    )  # fmt: skip
    return server


Read = Callable[[Mapping[str, Any]], Any]
"""Blocking function that returns the result of a tool for its arguments. Raises: DeskError."""


def _on_thread(read: Read) -> Callable[[dict[str, Any], Context], Any]:
    """Return a handler that runs a blocking function on a worker thread."""

    async def handler(arguments: dict[str, Any], context: Context) -> Any:
        try:
            return await asyncio.to_thread(read, arguments)
        except DeskError as error:
            raise HandlerError(str(error)) from None

    return handler


class DeskTools:
    """Functions of the tools. All except `call_tool` block."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._costs = DefinitionCosts(link)

    def list_servers(self, arguments: Mapping[str, Any]) -> Any:
        """Return the servers."""
        return {"servers": [self._server(each) for each in self._link.view().servers]}

    def _server(self, server: ServerView) -> dict[str, Any]:
        items = self._link.catalogue(server.name).items
        upstream = server.upstream
        return {
            "name": server.name,
            "title": server.title,
            "version": server.version,
            "location": server.shown_location,
            "state": "hosted" if upstream is None else upstream.state,
            "revision": "" if upstream is None else upstream.revision,
            "problems": [mask_text(each) for each in server.problems],
            "hint": "" if upstream is None else upstream.hint,
            "counts": {kind.value: sum(item.kind is kind for item in items) for kind in ItemKind},
        }

    def list_tools(self, arguments: Mapping[str, Any]) -> Any:
        """Return the tools of a server."""
        tools = [each for each in self._items(arguments["server"]) if each.kind is ItemKind.TOOL]
        return {"tools": [_tool(each) for each in tools[:MAX_LINES]], "total": len(tools)}

    def _items(self, server: str) -> tuple[CatalogueItem, ...]:
        """Return the items of a server. Raises: HandlerError if it does not exist."""
        names = [each.name for each in self._link.view().servers]
        if server not in names:
            raise HandlerError(
                f"Server {server[:80]!r} does not exist. Servers: {', '.join(names) or 'none'}."
            )
        return self._link.catalogue(server).items

    async def call_tool(self, arguments: dict[str, Any], context: Context) -> Any:
        """Call a tool, and return its result."""
        server, tool = arguments["server"], arguments["tool"]
        await asyncio.to_thread(self._items, server)
        params = {"name": tool, "arguments": arguments.get("arguments") or {}}
        try:
            call = await asyncio.to_thread(self._link.request, server, CALL, params)
        except DeskError as error:
            raise HandlerError(str(error)) from None
        limit_s = arguments.get("timeout_s", CALL_S)
        try:
            async with asyncio.timeout(limit_s):
                outcome = await asyncio.shield(asyncio.wrap_future(call.outcome))
        except TimeoutError:
            call.cancel()
            raise HandlerError(f"{tool} did not end within {limit_s:g} s, and was cancelled.") from None
        except asyncio.CancelledError:
            call.cancel()
            raise
        if (result := outcome.result) is None:
            error_object = outcome.error or {}
            code, text = error_object.get("code"), error_object.get("message", "no answer")
            raise HandlerError(f"{server}: {text}{f' ({code})' if code else ''}", {"error": error_object})
        content = result.get("content")
        structured = result.get("structuredContent")
        blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
        if faults := await asyncio.to_thread(self._result_faults, server, tool, result):
            text = "\n".join(["mcpdesk: this result of the tool violates the protocol:", *faults])
            blocks.append({"type": "text", "text": mask_text(text)})
        return ToolResult(
            tuple(blocks),
            structured if isinstance(structured, dict) else None,
            result.get("isError") is True,
        )

    def search_traffic(self, arguments: Mapping[str, Any]) -> Any:
        """Return the exchanges that match a filter. Raises: QueryError for an invalid filter."""
        index = self._link.traffic
        view = View(index, parse(arguments.get("filter", ""), time()))
        deadline = monotonic() + MAX_PAIRING_S
        is_complete = _pair(index, deadline)
        while not (is_filtered := view.done >= 1) and monotonic() < deadline:
            view.advance(SLICE_S)
        numbers = list(view.lines)
        before = arguments.get("before")
        selected = numbers if before is None else [number for number in numbers if number < before]
        newest = selected[: -arguments.get("limit", 50) - 1 : -1]
        return {
            "exchanges": [_row(index.exchange(number), number) for number in newest],
            "matching": len(numbers),
            "is_complete": is_complete and is_filtered,
        }

    def read_exchange(self, arguments: Mapping[str, Any]) -> Any:
        """Return one exchange. Raises: HandlerError if it does not exist."""
        index, number = self._link.traffic, arguments["number"]
        _pair(index, monotonic() + MAX_PAIRING_S)
        if not index.table.base <= number < len(index.exchanges):
            raise HandlerError(f"Exchange {number} does not exist, or was removed.")
        exchange = index.exchange(number)
        final_round = last_round(index, exchange)
        notification_frames = exchange.notifications[-MAX_NOTIFICATIONS:]
        faults = [each.text for each in remarks(index, exchange)]
        return {
            "exchange": _row(exchange, number),
            "request": _message(
                index, exchange, exchange.request, self._definition(exchange).get("inputSchema")
            ),
            "response": _message(index, final_round, final_round.response),
            "notifications": [_message(index, exchange, frame) for frame in notification_frames],
            "faults": faults + self._recorded_faults(index, final_round),
        }

    def _definition(self, exchange: Exchange) -> Mapping[str, Any]:
        """Return the definition of the called tool, or an empty mapping. Its input schema may mark arguments
        as secret.
        """
        return self._tool_definition(exchange.server, exchange.name) if exchange.method == CALL else {}

    def _tool_definition(self, server: str, tool: str) -> Mapping[str, Any]:
        if server not in {each.name for each in self._link.view().servers}:
            return {}
        items = self._link.catalogue(server).items
        tools = (each for each in items if each.kind is ItemKind.TOOL and each.name == tool)
        return next((each.definition for each in tools if each.definition), {})

    def _result_faults(self, server: str, tool: str, result: Mapping[str, Any]) -> list[str]:
        """Return the faults of the result of a tool, such as a violation of its output schema."""
        from mcpdesk.cli.requests import schema_failures

        return result_faults(result, self._tool_definition(server, tool), schema_failures)

    def _recorded_faults(self, index: Index, exchange: Exchange) -> list[str]:
        """Return the faults of a recorded result of a tool."""
        if exchange.method != CALL or exchange.response is None:
            return []
        try:
            response = unmasked(index, exchange, exchange.response)
        except ValueError:
            return []
        result = response.get("result") if isinstance(response, dict) else None
        if not isinstance(result, dict):
            return []
        return [mask_text(each) for each in self._result_faults(exchange.server, exchange.name, result)]

    def statistics(self, arguments: Mapping[str, Any]) -> Any:
        """Return statistics of all recorded calls."""
        index, deadline = self._link.traffic, monotonic() + MAX_PAIRING_S
        is_complete = _pair(index, deadline)
        while (is_counting := index.statistics.update(SLICE_S)) and monotonic() < deadline:
            sleep(0)  # another thread may be counting
        rows = rows_of(index.statistics, Subject(arguments.get("by", "tool")), self._costs.now())
        return {
            "rows": [to_builtins(each) for each in rows[:MAX_LINES]],
            "total": len(rows),
            "is_complete": is_complete and not is_counting,
        }


def _pair(index: Index, deadline: float) -> bool:
    """Pair the messages that are recorded now. Return False if some are not paired at the deadline.

    Another thread, such as that of a screen, may be pairing the same messages.
    """
    count = index.frame_count
    index.catch_up(SLICE_S)
    while index.paired < count and monotonic() < deadline:
        if not index.catch_up(SLICE_S):
            sleep(SLICE_S)
    return index.paired >= count


def _tool(item: CatalogueItem) -> dict[str, Any]:
    """Return the facts about a tool. A long schema is replaced by its beginning as text."""
    facts: dict[str, Any] = {"name": item.name, "description": _cut(item.description)}
    for name, member in (("input_schema", "inputSchema"), ("output_schema", "outputSchema")):
        schema = item.definition.get(member) if item.definition else None
        if schema is not None:
            text = codec.encode(schema).decode()
            facts[name] = schema if len(text) <= MAX_TOOL_LENGTH else _cut(text)
    return facts | ({"problem": item.problem} if item.problem else {})


def _cut(text: str) -> str:
    missing = len(text) - MAX_TOOL_LENGTH
    return text if missing <= 0 else f"{text[:MAX_TOOL_LENGTH]}… ({missing:,} more characters are not shown)"


def _row(exchange: Exchange, number: int) -> dict[str, Any]:
    return {
        "number": number,
        "time": exchange.started,
        "kind": str(exchange.kind.value),
        "server": exchange.server,
        "peer": exchange.peer,
        "method": exchange.method,
        "name": mask_text(exchange.name[:500]),
        "status": str(exchange.status.value),
        "took_s": None if exchange.ended is None else exchange.elapsed(0),
        "bytes": exchange.size,
    }


def _message(
    index: Index, exchange: Exchange, frame: int | None, schema: Any = None
) -> dict[str, Any] | None:
    """Return the message in a frame, with its problem and HTTP head if it has any. None without a frame."""
    if frame is None:
        return None
    value, problem = message(index, exchange, frame, schema)
    text = value if isinstance(value, str) else codec.dumps(value, orjson.OPT_NON_STR_KEYS, str).decode()
    document: dict[str, Any] = {
        "message": value if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
    }
    if len(text) > MAX_TEXT_LENGTH:
        document["cut"] = f"{len(text) - MAX_TEXT_LENGTH:,} more characters are not shown"
    if problem:
        document["problem"] = problem
    if (note := http(index, exchange, frame)) is not None:
        document["http"] = {"line": note[0], "headers": [list(each) for each in note[1]]}
    return document
