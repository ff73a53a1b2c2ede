"""Statistics of calls by tool and by client: counts, results, durations, bytes and tokens.

They are computed from the exchanges in the index, and only on demand, so a call itself causes no work. There
is one `CallTally` for each combination of client and tool or method. A row of a table is a sum of tallies.
Memory is limited: start times are counted in time slots, and durations in ranges. The bound of each range is
9% above the previous bound.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, deque
from contextlib import suppress
from enum import StrEnum
from operator import add
from threading import Lock
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from mcpdesk.protocol.catalogue.token_cost import definition_cost
from mcpdesk.protocol.methods import CALLS, TOOL_CALLS, canonical
from mcpdesk.protocol.phases import DURATION_BOUNDS
from mcpdesk.recorder.index.exchange import FAILED, KINDS, STATUSES, ExchangeKind, Status
from mcpdesk.recorder.index.table import NO_FRAME, between

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpdesk.recorder.index.pairing import Pairing
    from mcpdesk.recorder.record import Source

OTHER: Final = "(other)"
"""Name of the client, and of the method or tool, in a tally that several callers share."""
MAX_TALLIES: Final = 1_000
"""Maximum number of tallies of single callers. Further callers share one tally per server and method."""
MAX_SLOTS: Final = 240
"""Maximum number of time slots. When all are used, pairs of neighbouring slots are merged."""
_DURATION_BOUNDS_S: Final = tuple(50e-6 * 2 ** (index / 8) for index in range(190))
"""Upper bounds of the ranges of durations in seconds, up to ten minutes. The last range has no bound."""
_MAX_LISTS: Final = 50
"""Number of tool lists that are remembered. Costs of tool definitions are computed from these lists."""
_STEP_EXCHANGES = 256
"""Number of exchanges between two checks of the clock."""
_REQUEST = KINDS.index(ExchangeKind.REQUEST)
_OK = STATUSES.index(Status.OK)
_OPEN_STATUSES = frozenset(STATUSES.index(status) for status in (Status.PENDING, Status.ASKS))
"""Statuses of requests that have not ended."""
_TIMED_STATUSES = frozenset(STATUSES.index(status) for status in (Status.OK, Status.ERROR, Status.TOOL_ERROR))
"""Statuses of requests that were answered in time."""
_FAILED_STATUSES = frozenset(map(STATUSES.index, FAILED))


class SlotTimes:
    """Start and length of the time slots. All tallies share them."""

    def __init__(self) -> None:
        self.began: int | None = None
        """Unix time in seconds of the start of the first slot, or None before the first call."""
        self.length_s = 1

    def slot(self, moment: float) -> int:
        """Return the slot of a time. If no slot is left for it, double the length of all slots."""
        if self.began is None:
            self.began = int(moment)
        while (slot := int(moment - self.began) // self.length_s) >= MAX_SLOTS:
            self.length_s *= 2
        return max(0, slot)


class CallTally:
    """Totals of similar calls."""

    __slots__ = ("_durations", "_length_s", "_statuses", "_times", "_tops", "buckets", "calls", "errors",
                 "latest_start", "longest", "rates", "received", "sent", "slowest_s", "tokens", "total_s",
                 "waited_s")  # fmt: skip

    def __init__(self, times: SlotTimes) -> None:
        self.calls = 0
        self.errors = 0
        """Number of calls that ended with a protocol error, a tool error or a lost connection."""
        self.received = 0
        """Size in bytes of the requests."""
        self.sent = 0
        """Size in bytes of the responses."""
        self.tokens = 0
        """Approximate number of tokens in the results."""
        self.total_s = 0.0
        """Seconds of all answered calls, without waiting for clients and people."""
        self.waited_s = 0.0
        """Seconds for which these calls waited for clients and people."""
        self.latest_start = 0.0
        """Unix time in seconds when the latest call began."""
        self.slowest_s = 0.0
        self.rates = array("L")
        """Number of calls in each time slot."""
        self.longest = array("f")
        """Seconds of the longest call in each time slot."""
        self._durations = array("L", [0]) * (len(_DURATION_BOUNDS_S) + 1)
        """Number of answered calls in each range of durations."""
        self._tops = array("d", [0.0]) * (len(_DURATION_BOUNDS_S) + 1)
        """Seconds of the longest call in each range of durations."""
        self.buckets = array("L", [0]) * (len(DURATION_BOUNDS) + 1)
        """Number of answered calls in each histogram bucket of the metrics, see `DURATION_BOUNDS`."""
        self._statuses = array("L", [0]) * len(STATUSES)
        self._times = times
        self._length_s = times.length_s

    def add(
        self, status: int, start_time: float, took_s: float | None, received: int, sent: int, tokens: int,
        waited_s: float = 0.0,
    ) -> None:  # fmt: skip
        """Count one call.

        `took_s` does not include `waited_s`, and is None if the call was not answered in time.
        """
        self.calls += 1
        self.errors += status in _FAILED_STATUSES
        self._statuses[status] += 1
        self.received += received
        self.sent += sent
        self.tokens += tokens
        if start_time > self.latest_start:
            self.latest_start = start_time
        slot = self._times.slot(start_time)
        if slot >= len(self.rates) or self._length_s < self._times.length_s:
            self._fit_slots(slot)
        self.rates[slot] += 1
        if took_s is None:
            return
        self.total_s += took_s
        self.waited_s += waited_s
        if took_s > self.longest[slot]:
            self.longest[slot] = took_s
        if took_s > self.slowest_s:
            self.slowest_s = took_s
        range_index = bisect_left(_DURATION_BOUNDS_S, took_s)
        self._durations[range_index] += 1
        self.buckets[bisect_left(DURATION_BOUNDS, took_s)] += 1
        if took_s > self._tops[range_index]:
            self._tops[range_index] = took_s

    def merge(self, other: CallTally) -> None:
        """Add the counts of another tally."""
        self.calls += other.calls
        self.errors += other.errors
        self.received += other.received
        self.sent += other.sent
        self.tokens += other.tokens
        self.total_s += other.total_s
        self.waited_s += other.waited_s
        self.latest_start = max(self.latest_start, other.latest_start)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self._durations = array("L", map(add, self._durations, other._durations))
        self.buckets = array("L", map(add, self.buckets, other.buckets))
        self._statuses = array("L", map(add, self._statuses, other._statuses))
        self._tops = array("d", map(max, self._tops, other._tops))
        other._fit_slots(0)
        self._fit_slots(len(other.rates) - 1)
        for slot, count in enumerate(other.rates):
            self.rates[slot] += count
            self.longest[slot] = max(self.longest[slot], other.longest[slot])

    def ended_in(self, status: Status) -> int:
        """Return the number of calls that ended with a status."""
        return self._statuses[STATUSES.index(status)]

    @property
    def answered(self) -> int:
        """Number of calls that were answered in time."""
        return sum(self._durations)

    def quantile(self, fraction: float) -> float | None:
        """Return a quantile of the durations in seconds, such as the median for `fraction` 0.5, or None
        without answered calls.

        The result is the duration of a real call: the longest one in the range of durations that reaches the
        fraction.
        """
        remaining = fraction * self.answered
        for count, top_s in zip(self._durations, self._tops, strict=True):
            if count and (remaining := remaining - count) <= 0:
                return top_s
        return None

    def _fit_slots(self, slot: int) -> None:
        """Convert the lists to the current slot length, and extend them up to a slot."""
        while self._length_s < self._times.length_s:
            self.rates = array(
                "L", [sum(self.rates[index : index + 2]) for index in range(0, len(self.rates), 2)]
            )
            self.longest = array(
                "f", [max(self.longest[index : index + 2]) for index in range(0, len(self.longest), 2)]
            )
            self._length_s *= 2
        if (missing_count := slot + 1 - len(self.rates)) > 0:
            self.rates.extend([0] * missing_count)
            self.longest.extend([0.0] * missing_count)


class _Tools(Struct):
    tools: list[dict[str, Any]] = []


class _ListResponse(Struct):
    result: _Tools


_decode_list_response = msgspec.json.Decoder(_ListResponse).decode


class Subject(StrEnum):
    """Criterion for grouping statistics."""

    TOOL = "tool"
    CLIENT = "client"
    METHOD = "method"


class Caller(Struct, frozen=True):
    """Combination of server, client, method and tool."""

    server: str
    peer: str
    method: str
    """Standard name of the method. Every way to call a tool counts as `tools/call`."""
    tool: str
    """Name of the tool. Empty for other methods."""

    @property
    def target(self) -> str:
        """Tool, or method that reads a resource or gets a prompt. Empty for other requests."""
        return self.tool or (self.method if self.method in CALLS else "")


def _is_counted(subject: Subject, caller: Caller) -> bool:
    """Return True if the totals for a subject include the requests of `caller`.

    Requests that are not calls are only included in the totals for methods.
    """
    return subject is Subject.METHOD or caller.method in CALLS


class CallStatistics:
    """Tallies of one index. May be used on any thread."""

    def __init__(self, pairing: Pairing, source: Source, held_s: Callable[[int], float]) -> None:
        """`held_s` returns the seconds for which the messages of a row were held at the desk."""
        self._pairing, self._source, self._held_s = pairing, source, held_s
        self.times = SlotTimes()
        """Time slots that all tallies share."""
        self.version = 0
        """Number that increases with every counted call."""
        self._tallies: dict[Caller, CallTally] = {}
        """Tallies of all callers. At most `MAX_TALLIES`, plus those that further callers share."""
        self._tally_cache: dict[tuple[str, str, int], CallTally] = {}
        """Tally of each combination of server, peer and code of a label."""
        self._lock = Lock()
        self._rows = 0
        """Number of rows that were counted or skipped."""
        self._altered = 0
        """Number of changes in `Pairing.altered` that were handled."""
        self._open_rows: set[int] = set()
        """Rows of exchanges that have not ended."""
        self._list_labels: set[int] = set()
        """Labels of `tools/list` requests."""
        self._lists: deque[int] = deque(maxlen=_MAX_LISTS)
        """Rows of the latest tool lists."""

    @property
    def done(self) -> float:
        """Fraction of the paired rows that are counted, from 0 to 1."""
        rows = len(self._pairing.table)
        return self._rows / rows if rows else 1.0

    def update(self, budget_s: float = 0.005) -> bool:
        """Count new calls for about `budget_s` seconds. Return True if there are more.

        If another thread is counting, return True at once.
        """
        if not self._lock.acquire(blocking=False):
            return True
        try:
            return self._update(budget_s)
        finally:
            self._lock.release()

    def _update(self, budget_s: float) -> bool:
        """Count new calls. The caller holds the lock. Return True if there are more."""
        deadline = perf_counter() + budget_s
        pairing = self._pairing
        table, altered = pairing.table, pairing.altered
        self._rows = max(self._rows, table.base)
        self._altered = max(self._altered, altered.base)
        altered_stop = len(altered)
        # Rows of frames that are just being paired are not linked to others yet.
        paired_rows = bisect_left(table.first, pairing.paired, lo=self._rows)
        while self._rows < paired_rows:
            stop = min(self._rows + _STEP_EXCHANGES, paired_rows)
            self._count(self._rows, stop)
            self._rows = stop
            if stop < paired_rows and perf_counter() > deadline:
                return True
        if self._open_rows and altered_stop > self._altered:
            for row in self._open_rows.intersection(altered.between(self._altered, altered_stop)):
                self._open_rows.discard(row)
                self._count(row, row + 1)
        self._altered = altered_stop
        if table.base and self._open_rows and min(self._open_rows) < table.base:
            self._open_rows = {row for row in self._open_rows if row >= table.base}
        return False

    def sums(self, subject: Subject) -> dict[tuple[str, str], CallTally]:
        """Return totals by server and by name of the tool, client or method.

        For `Subject.TOOL`, resource reads and prompt requests are grouped under their methods.
        """
        totals: dict[tuple[str, str], CallTally] = {}
        for caller, tally in list(self._tallies.items()):
            if subject is Subject.TOOL and not caller.target:
                continue
            names = {Subject.TOOL: caller.target, Subject.CLIENT: caller.peer, Subject.METHOD: caller.method}
            total = totals.setdefault((caller.server, names[subject]), CallTally(self.times))
            if _is_counted(subject, caller):
                total.merge(tally)
        return totals

    def total(self, subject: Subject = Subject.METHOD) -> CallTally:
        """Return the total of all calls. For `Subject.METHOD`, include all other requests."""
        total = CallTally(self.times)
        for caller, tally in list(self._tallies.items()):
            if _is_counted(subject, caller):
                total.merge(tally)
        return total

    def tools_of(self, server: str, peer: str) -> list[tuple[str, CallTally]]:
        """Return the tallies of the tools that a client called, and of `resources/read` and `prompts/get`.

        The tally with the most calls comes first.
        """
        tallies = [
            (caller.target, tally)
            for caller, tally in list(self._tallies.items())
            if caller.target and (caller.server, caller.peer) == (server, peer)
        ]
        return sorted(tallies, key=lambda pair: (-pair[1].calls, pair[0]))

    def clients_of(self, server: str, tool: str) -> list[tuple[str, CallTally]]:
        """Return the clients that called a tool (or `resources/read` or `prompts/get`), most calls first."""
        tallies = [
            (caller.peer, tally)
            for caller, tally in list(self._tallies.items())
            if (caller.server, caller.target) == (server, tool)
        ]
        return sorted(tallies, key=lambda pair: (-pair[1].calls, pair[0]))

    def running(self) -> Counter[str]:
        """Return the number of running calls, by server."""
        table, counts = self._pairing.table, Counter[str]()
        for row in list(self._open_rows):
            with suppress(IndexError):  # another thread dropped the row
                method, _ = table.labels.get(table.label[row], ("", ""))
                info = self._source.connections.get(table.connection[row])
                if info is not None and canonical(method) in CALLS:
                    counts[info.server] += 1
        return counts

    def definitions(self) -> dict[tuple[str, str], int]:
        """Return the approximate tokens of tool definitions last sent to clients, by server and tool."""
        table = self._pairing.table
        token_counts: dict[tuple[str, str], int] = {}
        for row in list(self._lists):
            try:
                frame = table.response[row]
                info = self._source.connections.get(table.connection[row])
            except IndexError:  # the row was dropped, perhaps just now by another thread
                continue
            if frame == NO_FRAME:
                continue
            server = info.server if info is not None else ""
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                for tool in _decode_list_response(self._source.frame_bytes(frame)).result.tools:
                    token_counts[server, str(tool.get("name", ""))] = definition_cost(tool).tokens
        return token_counts

    def _count(self, start: int, stop: int) -> None:
        """Count the ended requests of clients in a range of rows. An operation is counted once.

        The duration does not include waiting for the client or for people, nor the time of holds at the desk.
        """
        table = self._pairing.table
        operation_of = self._pairing.operations.operation_of
        client_s = self._pairing.operations.client_s
        person_s, held_s = table.person_s, self._held_s
        connections = self._source.connections
        columns = (
            table.kind, table.direction, table.status, table.connection, table.label,
            table.started, table.ended, table.size, table.request_size, table.tokens,
        )  # fmt: skip
        values = zip(*(between(column, start, stop) for column in columns), strict=True)
        for row, row_values in enumerate(values, start):
            kind, direction, status, connection, label, started, ended, size, request_size, tokens = (
                row_values
            )
            if kind != _REQUEST or direction or row in operation_of:
                continue
            if status in _OPEN_STATUSES:
                self._open_rows.add(row)
                continue
            info = connections.get(connection)
            server, peer = (info.server, info.peer) if info is not None else ("", "")
            tally = self._tally_cache.get((server, peer, label)) or self._tally_for(server, peer, label)
            took_s, waited_s = None, 0.0
            if status in _TIMED_STATUSES:
                waited_s = client_s(row) + person_s.get(row, 0.0) + held_s(row)
                took_s = max(0.0, ended - started - waited_s)
            if label in self._list_labels and status == _OK:
                self._lists.append(row)
            tally.add(status, started, took_s, request_size, size - request_size, tokens, waited_s)
            self.version += 1

    def _tally_for(self, server: str, peer: str, label: int) -> CallTally:
        """Return the tally for calls of a peer to a server, and add it to the cache.

        `label` is the code of their label (method and name) in the table.
        """
        method, name = self._pairing.table.labels[label]
        is_tool = method in TOOL_CALLS
        if method == "tools/list":
            if len(self._list_labels) >= MAX_TALLIES:
                self._list_labels.intersection_update(self._pairing.table.labels)
            self._list_labels.add(label)
        caller = Caller(server, peer, "tools/call" if is_tool else canonical(method), name if is_tool else "")
        if caller not in self._tallies and len(self._tallies) >= MAX_TALLIES:
            shared_method = caller.method if caller.method in CALLS else OTHER
            caller = Caller(server, OTHER, shared_method, OTHER if is_tool else "")
        tally = self._tallies.get(caller)
        if tally is None:
            tally = self._tallies[caller] = CallTally(self.times)
        if len(self._tally_cache) >= 4 * MAX_TALLIES:
            self._tally_cache.clear()
        self._tally_cache[server, peer, label] = tally
        return tally
