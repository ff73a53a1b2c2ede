"""What tool tests share: a context without a server around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcpdesk.inbox.inbox import Inbox
from mcpdesk.inbox.question import Page, Question
from mcpdesk.protocol.trace import NONE, Trace


class ToolContext:
    """The part of `Context` built-in tools use, over a real inbox."""

    def __init__(self, inbox: Inbox | None = None, wants_progress: bool = False) -> None:
        self.inbox = inbox or Inbox()
        self.wants_progress = wants_progress
        self.folder: Path | None = Path("/srv/shop")
        self.trace: Trace = NONE
        self.reports: list[tuple[float, str]] = []
        self.reported = asyncio.Event()

    @property
    def audience(self) -> int:
        return self.inbox.audience

    def offers(self, needed: dict[str, Any]) -> bool:
        return False

    async def ask(self, pages: Sequence[Page]) -> Question:
        _, future = self.inbox.ask(
            server="shop", peer="client", tool="AskUserQuestion", pages=pages, timeout_s=60
        )
        return await future

    async def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        self.reports.append((progress, message))
        self.reported.set()


def fits(schema: dict[str, Any], value: Any) -> bool:
    """Whether a value is valid, by an independent validator."""
    import jsonschema

    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))
