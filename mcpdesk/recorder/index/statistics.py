"""Calls counted by tool and by client: how many, how they ended, how long they took, bytes and tokens.

Counted from the paired exchanges, for a running core and for a capture alike, and only when somebody looks:
a call itself does nothing for it. Each pair of a client and what it called has one `CallTally`, the rows of a
table are sums of them. Memory is bounded: durations are counted in ranges of a few percent, times in slots.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from enum import StrEnum
from operator import add
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

from mcpdesk.protocol.catalogue.token_cost import definition_cost
from mcpdesk.protocol.methods import CALLS, TOOL_CALLS, canonical
from mcpdesk.recorder.index.exchange import FAILED, KINDS, STATUSES, ExchangeKind, Status
from mcpdesk.recorder.index.table import NO_FRAME, between

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpdesk.recorder.index.pairing import Operations
    from mcpdesk.recorder.index.table import RollingColumn, Table
    from mcpdesk.recorder.record import ConnectionInfo

OTHER: Final = "(other)"
MOST_TALLIES: Final = 1_000
"""Pairs of a client and what it called that are counted apart; further ones are counted together."""
SLOTS: Final = 240
"""Slots of time; when they are full, each two become one."""
_BOUNDS: Final = tuple(50e-6 * 2 ** (place / 8) for place in range(190))
"""Upper ends of the ranges durations are counted in, in seconds up to ten minutes; a last one has no end."""
_LISTS: Final = 50
"""Listings of tools that are remembered: what definitions cost is read in the latest."""
_STEP = 256
"""Exchanges between two looks at the clock."""
_REQUEST = KINDS.index(ExchangeKind.REQUEST)
_OK = STATUSES.index(Status.OK)
_OPEN = frozenset(STATUSES.index(status) for status in (Status.PENDING, Status.ASKS))
_TIMED = frozenset(STATUSES.index(status) for status in (Status.OK, Status.ERROR, Status.TOOL_ERROR))
_FAILED = frozenset(map(STATUSES.index, FAILED))


class SlotTimes:
    """From when on a slot of time counts, and how long one is; the same for all tallies."""

    def __init__(self) -> None:
        self.began: int | None = None
        """Unix time in seconds of the first slot; None before the first call."""
        self.length_s = 1

    def slot(self, moment: float) -> int:
        """The slot of a time; slots become longer where there are not enough of them."""
        if self.began is None:
            self.began = int(moment)
        while (slot := int(moment - self.began) // self.length_s) >= SLOTS:
            self.length_s *= 2
        return max(0, slot)


class CallTally:
    """Calls of one kind, added up."""

    __slots__ = ("_durations", "_length_s", "_times", "_tops", "calls", "errors", "longest", "rates",
                 "received", "seen", "sent", "slowest_s", "tokens", "total_s", "waited_s")  # fmt: skip

    def __init__(self, times: SlotTimes) -> None:
        self.calls = 0
        self.errors = 0
        """Answers that are errors, results of tools that say so, and calls whose connection was lost."""
        self.received = 0
        """Bytes of requests."""
        self.sent = 0
        """Bytes of responses."""
        self.tokens = 0
        """About what a model pays for the results."""
        self.total_s = 0.0
        """Of all calls that were answered, without waiting for clients and people."""
        self.waited_s = 0.0
        """What they waited for clients and people."""
        self.seen = 0.0
        """Unix time in seconds at which the last of them began."""
        self.slowest_s = 0.0
        self.rates = array("L")
        """Calls in each slot of time."""
        self.longest = array("f")
        """Seconds of the longest call in each slot."""
        self._durations = array("L", [0]) * (len(_BOUNDS) + 1)
        """Calls that were answered, by the range of their duration."""
        self._tops = array("d", [0.0]) * (len(_BOUNDS) + 1)
        """Seconds of the longest of them in each range."""
        self._times = times
        self._length_s = times.length_s

    def add(
        self, status: int, began: float, took_s: float | None, received: int, sent: int, tokens: int,
        waited_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Count one call; `took_s` is without `waited_s`, and None for one that was not answered in time."""
        self.calls += 1
        self.errors += status in _FAILED
        self.received += received
        self.sent += sent
        self.tokens += tokens
        if began > self.seen:
            self.seen = began
        slot = self._times.slot(began)
        if slot >= len(self.rates) or self._length_s < self._times.length_s:
            self._fit(slot)
        self.rates[slot] += 1
        if took_s is None:
            return
        self.total_s += took_s
        self.waited_s += waited_s
        if took_s > self.longest[slot]:
            self.longest[slot] = took_s
        if took_s > self.slowest_s:
            self.slowest_s = took_s
        place = bisect_left(_BOUNDS, took_s)
        self._durations[place] += 1
        if took_s > self._tops[place]:
            self._tops[place] = took_s

    def join(self, other: CallTally) -> None:
        """Add everything another tally has."""
        self.calls += other.calls
        self.errors += other.errors
        self.received += other.received
        self.sent += other.sent
        self.tokens += other.tokens
        self.total_s += other.total_s
        self.waited_s += other.waited_s
        self.seen = max(self.seen, other.seen)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self._durations = array("L", map(add, self._durations, other._durations))
        self._tops = array("d", map(max, self._tops, other._tops))
        other._fit(0)
        self._fit(len(other.rates) - 1)
        for slot, count in enumerate(other.rates):
            self.rates[slot] += count
            self.longest[slot] = max(self.longest[slot], other.longest[slot])

    @property
    def answered(self) -> int:
        """Calls that were answered in time."""
        return sum(self._durations)

    def at(self, share: float) -> float | None:
        """What `share` of the answered calls did not exceed, in seconds; None before the first.

        The time of one of them: the longest in the range where the share is reached.
        """
        left = share * self.answered
        for count, top_s in zip(self._durations, self._tops, strict=True):
            if count and (left := left - count) <= 0:
                return top_s
        return None

    def _fit(self, slot: int) -> None:
        """Make room for a slot, with slots as long as they are for all."""
        while self._length_s < self._times.length_s:
            self.rates = array("L", [sum(self.rates[at : at + 2]) for at in range(0, len(self.rates), 2)])
            self.longest = array(
                "f", [max(self.longest[at : at + 2]) for at in range(0, len(self.longest), 2)]
            )
            self._length_s *= 2
        if (lacking := slot + 1 - len(self.rates)) > 0:
            self.rates.extend([0] * lacking)
            self.longest.extend([0.0] * lacking)


class _Tools(Struct):
    tools: list[dict[str, Any]] = []


class _Listed(Struct):
    result: _Tools


_read_list = msgspec.json.Decoder(_Listed).decode


class Subject(StrEnum):
    """By what calls are added up."""

    TOOL = "tool"
    CLIENT = "client"
    METHOD = "method"


class Caller(Struct, frozen=True):
    """Who called what of which server."""

    server: str
    peer: str
    method: str
    """The standard name; of a tool the one for calling it."""
    tool: str
    """Empty for other methods."""


def _counts(subject: Subject, caller: Caller) -> bool:
    """Whether what somebody did is in the sums of a subject: what calls nothing is in those of methods."""
    if subject is Subject.METHOD:
        return True
    return bool(caller.tool) if subject is Subject.TOOL else caller.method in CALLS


class PairedFrames(Protocol):
    """What is counted: the exchanges of an index, and what their frames say."""

    table: Table
    operations: Operations
    altered: RollingColumn[int]
    """Rows that changed after they were made, in the order they did."""
    paired: int
    """Frames looked at so far."""

    @property
    def connections(self) -> Mapping[int, ConnectionInfo]:
        """The latest of every connection, by number."""

    @property
    def whole(self) -> Callable[[int], bytes]:
        """All bytes of a frame."""

    def held_s(self, row: int) -> float:
        """Seconds for which a person held what a row stands for at the desk."""


class CallStatistics:
    """The tallies of one index. Any thread may count and read."""

    def __init__(self, index: PairedFrames) -> None:
        self._index = index
        self.times = SlotTimes()
        self.version = 0
        """Grows with every call that is counted."""
        self._tallies: dict[Caller, CallTally] = {}
        self._found: dict[tuple[str, str, int], CallTally] = {}
        """Server, peer and label -> where such calls are counted."""
        self._lock = Lock()
        self._rows = 0
        self._altered = 0
        self._open: set[int] = set()
        """Rows that are not over."""
        self._list_labels: set[int] = set()
        self._lists: deque[int] = deque(maxlen=_LISTS)
        """The latest rows that list tools."""

    @property
    def done(self) -> float:
        """The share of what is paired that was counted, 0 to 1."""
        rows = len(self._index.table)
        return self._rows / rows if rows else 1.0

    def update(self, budget_s: float = 0.005) -> bool:
        """Count what came since, for about `budget_s` seconds; True when there is more to count.

        Another thread already at it: True at once.
        """
        if not self._lock.acquire(blocking=False):
            return True
        try:
            return self._update(budget_s)
        finally:
            self._lock.release()

    def _update(self, budget_s: float) -> bool:
        index, until = self._index, perf_counter() + budget_s
        table, altered = index.table, index.altered
        self._rows, self._altered = max(self._rows, table.base), max(self._altered, altered.base)
        changed = len(altered)
        # Rows of frames that are being paired just now are not linked to others yet.
        ready = bisect_left(table.first, index.paired, lo=self._rows)
        while self._rows < ready:
            stop = min(self._rows + _STEP, ready)
            self._count(self._rows, stop)
            self._rows = stop
            if stop < ready and perf_counter() > until:
                return True
        if self._open and changed > self._altered:
            for row in self._open.intersection(altered.between(self._altered, changed)):
                self._open.discard(row)
                self._count(row, row + 1)
        self._altered = changed
        if table.base and self._open and min(self._open) < table.base:
            self._open = {row for row in self._open if row >= table.base}
        return False

    def sums(self, subject: Subject) -> dict[tuple[str, str], CallTally]:
        """Server and name of each tool, client or method -> the sum of its calls or requests."""
        found: dict[tuple[str, str], CallTally] = {}
        for caller, tally in list(self._tallies.items()):
            if subject is Subject.TOOL and not caller.tool:
                continue
            name = {Subject.TOOL: caller.tool, Subject.CLIENT: caller.peer, Subject.METHOD: caller.method}[
                subject
            ]
            together = found.setdefault((caller.server, name), CallTally(self.times))
            if _counts(subject, caller):
                together.join(tally)
        return found

    def whole(self, subject: Subject = Subject.METHOD) -> CallTally:
        """All calls of tools together, all calls of clients, or all requests."""
        together = CallTally(self.times)
        for caller, tally in list(self._tallies.items()):
            if _counts(subject, caller):
                together.join(tally)
        return together

    def tools_of(self, server: str, peer: str) -> list[tuple[str, CallTally]]:
        """The tools a client called, the one called most first."""
        used = [
            (caller.tool, tally)
            for caller, tally in list(self._tallies.items())
            if caller.tool and (caller.server, caller.peer) == (server, peer)
        ]
        return sorted(used, key=lambda pair: (-pair[1].calls, pair[0]))

    def clients_of(self, server: str, tool: str) -> list[tuple[str, CallTally]]:
        """The clients that called a tool, the one that called most first."""
        used = [
            (caller.peer, tally)
            for caller, tally in list(self._tallies.items())
            if (caller.server, caller.tool) == (server, tool)
        ]
        return sorted(used, key=lambda pair: (-pair[1].calls, pair[0]))

    def definitions(self) -> dict[tuple[str, str], int]:
        """Server and tool -> about how many tokens its definition has, as clients were told last."""
        index, found = self._index, dict[tuple[str, str], int]()
        for row in list(self._lists):
            if row < index.table.base or (frame := index.table.response[row]) == NO_FRAME:
                continue
            info = index.connections.get(index.table.connection[row])
            server = info.server if info is not None else ""
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                for tool in _read_list(index.whole(frame)).result.tools:
                    found[server, str(tool.get("name", ""))] = definition_cost(tool).tokens
        return found

    def _count(self, start: int, stop: int) -> None:
        """Count the requests of peers among some rows that are over and part of no other.

        What a call waited for its client or for people, who may have held it, is no part of what it took.
        """
        table, whole, found = self._index.table, self._index.operations.whole, self._found
        client_s, person_s = self._index.operations.client_s, table.person_s
        connections, held_s = self._index.connections, self._index.held_s
        columns = (
            table.kind, table.direction, table.status, table.connection, table.label,
            table.started, table.ended, table.size, table.asked, table.tokens,
        )  # fmt: skip
        values = zip(*(between(column, start, stop) for column in columns), strict=True)
        for row, one in enumerate(values, start):
            kind, direction, status, connection, label, began, ended, size, asked, tokens = one
            if kind != _REQUEST or direction or row in whole:
                continue
            if status in _OPEN:
                self._open.add(row)
                continue
            info = connections.get(connection)
            server, peer = (info.server, info.peer) if info is not None else ("", "")
            tally = found.get((server, peer, label)) or self._find(server, peer, label)
            took_s, waited_s = None, 0.0
            if status in _TIMED:
                waited_s = client_s(row) + person_s.get(row, 0.0) + held_s(row)
                took_s = max(0.0, ended - began - waited_s)
            if label in self._list_labels and status == _OK:
                self._lists.append(row)
            tally.add(status, began, took_s, asked, size - asked, tokens, waited_s)
            self.version += 1

    def _find(self, server: str, peer: str, label: int) -> CallTally:
        """Where such calls are counted."""
        method, name = self._index.table.labels[label]
        is_tool = method in TOOL_CALLS
        if method == "tools/list":
            if len(self._list_labels) >= MOST_TALLIES:
                self._list_labels.intersection_update(self._index.table.labels)
            self._list_labels.add(label)
        caller = Caller(server, peer, "tools/call" if is_tool else canonical(method), name if is_tool else "")
        if caller not in self._tallies and len(self._tallies) >= MOST_TALLIES:
            kind = caller.method if caller.method in CALLS else OTHER
            caller = Caller(server, OTHER, kind, OTHER if is_tool else "")
        tally = self._tallies.get(caller)
        if tally is None:
            tally = self._tallies[caller] = CallTally(self.times)
        if len(self._found) >= 4 * MOST_TALLIES:
            self._found.clear()
        self._found[server, peer, label] = tally
        return tally
