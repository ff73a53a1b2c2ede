"""A widget that takes its time to go, as all do on a busy machine."""

from __future__ import annotations

import asyncio

from textual.widgets import Static


class Lingering(Static):
    """Tells when it begins to go, and goes once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves, self.may_go = asyncio.Event(), asyncio.Event()

    async def on_unmount(self) -> None:
        """Wait."""
        self.leaves.set()
        await self.may_go.wait()
