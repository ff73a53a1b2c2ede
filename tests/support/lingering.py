"""A widget whose removal takes time, as on a busy machine."""

from __future__ import annotations

import asyncio

from textual.widgets import Static


class Lingering(Static):
    """Reports when its removal begins, and completes it when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves, self.may_go = asyncio.Event(), asyncio.Event()

    async def on_unmount(self) -> None:
        """Wait."""
        self.leaves.set()
        await self.may_go.wait()
