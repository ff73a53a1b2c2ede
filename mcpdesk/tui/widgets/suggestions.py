"""What the server suggests while somebody types: asked for in the pauses, shown behind the cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from textual.suggester import Suggester

from mcpdesk.plain_text import from_field, to_field
from mcpdesk.tui.requests import Ask

PAUSE_S = 0.15
"""How long nobody types before the server is asked."""


class Suggestions(Suggester):
    """Those for one field. `found` hears of what the server said to the latest text."""

    def __init__(self, name: str, ask: Ask, found: Callable[[Sequence[str]], None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._name = name
        self._ask = ask
        self._found = found
        self._asked = 0

    async def get_suggestion(self, value: str) -> str | None:
        """The first suggestion that goes on from what stands in the field, as the field shows it; None while
        somebody types on."""
        values = await self.values(from_field(value), PAUSE_S)
        typed = value.casefold()
        shown = (to_field(one) for one in values)
        return next((one for one in shown if one.casefold().startswith(typed) and one != value), None)

    async def values(self, value: str, pause_s: float = 0.0) -> Sequence[str]:
        """All suggestions; none when another text was asked about meanwhile."""
        self._asked += 1
        mine = self._asked
        await asyncio.sleep(pause_s)
        if mine != self._asked:
            return ()
        values = await self._ask(self._name, value)
        if mine != self._asked:
            return ()
        self._found(values)
        return values
