"""A person at a desk who answers real clients, and the clients' side of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import mcp_types as types

from mcpdesk.inbox.question import Question, QuestionState
from tests.support.desk import RunningDesk
from tests.support.official import Place, stdio
from tests.support.patience import within


class Person:
    """Receives every question when it arrives and when it ends."""

    def __init__(self, desk: RunningDesk) -> None:
        loop, self._told = asyncio.get_running_loop(), asyncio.Queue[Question]()

        def tell(question: Question) -> None:
            loop.call_soon_threadsafe(self._told.put_nowait, question)

        desk.host.inbox.subscribe(tell)

    async def sees(self, state: QuestionState = QuestionState.WAITING) -> Question:
        async with within():
            while (question := await self._told.get()).state is not state:
                pass
        return question


def place(desk: RunningDesk, folder: Path, way: str) -> Place:
    """Place a client connects to: the desk's URL, or the command that the client starts."""
    return desk.view().servers[0].url if way == "http" else stdio(folder)


def said(result: types.CallToolResult) -> str:
    """The first text of a result."""
    assert isinstance(result.content[0], types.TextContent)
    return result.content[0].text
