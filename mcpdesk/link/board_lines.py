"""The newest lines of the traffic through one filter, for a front end that keeps only those."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter, sleep, time
from typing import Any

from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.index.exchange import Kind
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.traffic_index import Index, parts_in_words
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.masking import mask_text

SHOWN = 200
"""Lines a front end keeps in sight."""
LOOK_S = 0.06
"""What one look may spend on pairing and filtering; the rest waits for the next."""
SLICE_S = 0.004
EXACT = 1 << 53
"""Whole numbers beyond it are not exact in a browser."""
BREATH_S = 0.0005
"""Left to the core between two slices: calls come first."""


class NewestLines:
    """Keeps what was shown last, so that a look gives only what changed."""

    def __init__(self, index: Index, filter_text: str) -> None:
        """Raises: QueryError for a filter that cannot be understood."""
        self._index = index
        self._view = View(index, parse(filter_text, time()))
        self._version = -1
        self._rows: dict[int, Mapping[str, Any]] = {}
        """The lines in sight, by number, the newest first."""
        self._counts: Mapping[str, Any] = {}

    def look(self) -> Mapping[str, Any] | None:
        """What changed since the last look; None: nothing."""
        self._advance()
        version, counts = self._index.version, self._count()
        if version == self._version and counts == self._counts:
            return None
        self._version, self._counts = version, counts
        before = self._rows
        self._rows = {number: row_json(self._index, number) for number in self._newest()}
        fresh = [row for number, row in self._rows.items() if before.get(number) != row]
        return {"lines": list(self._rows), "rows": fresh, **counts}

    def everything(self) -> Mapping[str, Any]:
        """The same with all rows in sight."""
        return {"lines": list(self._rows), "rows": list(self._rows.values()), **self._counts}

    def before(self, line: int, most: int) -> Mapping[str, Any]:
        """Older lines."""
        lines, stop = self._view.lines, self._view.position(line)
        chosen = lines[max(0, stop - most) : stop]
        return {"rows": [row_json(self._index, number) for number in reversed(chosen)]}

    def _newest(self) -> list[int]:
        return list(self._view.lines[-SHOWN:])[::-1]

    def _count(self) -> Mapping[str, Any]:
        view, index = self._view, self._index
        return {
            "shown": len(view.lines),
            "total": view.total,
            "done": round(view.done, 2),
            "behind": max(0, index.frame_count - index.paired),
            "gone": index.gone,
        }

    def _advance(self) -> None:
        """Pair and filter for a while, in slices."""
        index, until = self._index, perf_counter() + LOOK_S
        while perf_counter() < until:
            index.catch_up(SLICE_S)
            self._view.advance(SLICE_S)
            if index.paired >= index.frame_count and self._view.done >= 1:
                return
            sleep(BREATH_S)


def row_json(index: Index, number: int) -> Mapping[str, Any]:
    """One line. Names may be addresses with keys in them: those are masked."""
    exchange = index.exchange(number)
    return {
        "n": number,
        "kind": exchange.kind.value,
        "time": exchange.started,
        "peer": exchange.peer,
        "server": exchange.server,
        "out": bool(exchange.direction),
        "method": exchange.method,
        "name": mask_text(exchange.name[:500]),
        "id": str(exchange.id) if isinstance(exchange.id, int) and exchange.id > EXACT else exchange.id,
        "status": exchange.status.value,
        "took_s": None if exchange.ended is None else exchange.elapsed(0),
        "request": exchange.kind is Kind.REQUEST,
        "size": exchange.size,
        "revision": with_era(exchange.revision),
        "slow": exchange.is_slow,
        "more": parts_in_words(exchange),
    }
