"""Shared helpers of tool tests: built-in tools called without a server around them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mcpdesk.hosting.hosted_folder import built_in
from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Page, Question
from mcpdesk.jobs.feed import CallFeed
from mcpdesk.protocol.trace import NONE, Trace
from mcpdesk.server.asks.person_questions import ask_in_order
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState, ToolOptions


class ToolContext:
    """The part of `Context` built-in tools use, over a real inbox."""

    def __init__(
        self, inbox: Inbox | None = None, wants_progress: bool = False, home: ServerState | None = None
    ) -> None:
        self._home = home
        self.inbox = inbox or Inbox()
        self.wants_progress = wants_progress
        self.folder: Path | None = Path("/srv/shop")
        self.trace: Trace = NONE
        self.environment = dict(os.environ)
        self.peer = "client"
        self.caller = "client"
        self.session = "session:client"
        self.is_desk = False
        self.feed: CallFeed | None = None
        self.reports: list[tuple[float, str]] = []
        self.reported = asyncio.Event()

    @property
    def hosted(self) -> ServerState:
        assert self._home is not None, "this test gave the tool no home"
        return self._home

    @property
    def options(self) -> ToolOptions:
        return ToolOptions() if self._home is None else self._home.options

    @property
    def audience(self) -> int:
        return self.inbox.audience

    def offers(self, needed: dict[str, Any]) -> bool:
        return False

    async def ask(self, pages: Sequence[Page]) -> Question:
        return await ask_in_order(pages, self)  # type: ignore[arg-type]

    async def ask_desk(self, pages: Sequence[Page]) -> Question:
        _, future = self.inbox.ask(
            server="shop", peer="client", tool="AskUserQuestion", pages=pages, timeout_s=60
        )
        return await future

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        self.reports.append((progress, message))
        self.reported.set()


async def use(name: str, context: ToolContext, **arguments: Any) -> ToolResult[Any]:
    """Call a built-in tool as a server would; its schema must accept the arguments.

    Its structured content is returned as JSON values, and must match its output schema.
    """
    tool = built_in(name)
    assert fits(tool.input_schema, arguments)
    result = await tool.handler(arguments, context)
    assert isinstance(result, ToolResult)
    plain = msgspec.json.decode(msgspec.json.encode(result.structured))
    if not result.is_error:
        assert tool.output_schema is not None and fits(tool.output_schema, plain)
    return ToolResult(result.content, plain, result.is_error)


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is valid, by an independent validator."""
    import jsonschema

    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def fields(result: ToolResult[Any]) -> dict[str, Any]:
    """The structured content of a result that has some."""
    assert isinstance(result.structured, dict)
    return result.structured


def pdf_file(*pages: str) -> bytes:
    """A PDF file with a text on each page."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    bodies = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    for at, text in enumerate(pages):
        font = "<< /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        drawn = f"BT /F 24 Tf 20 100 Td ({text}) Tj ET"
        box = f"/MediaBox [0 0 300 200] /Resources {font} /Contents {4 + 2 * at} 0 R"
        bodies.append(f"<< /Type /Page /Parent 2 0 R {box} >>")
        bodies.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    whole, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(bodies, 1):
        places.append(len(whole))
        whole += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}"
    end += f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(whole)}\n%%EOF\n"
    return whole + end.encode()
