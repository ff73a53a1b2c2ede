"""Frames paired into exchanges, lazily: only what somebody looks at is ever parsed.

One reader at a time advances the index with `catch_up`; everything else may be read from any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import inf
from threading import Lock
from time import perf_counter, time

from mcpdesk.protocol.reading.remark import RemarkKind
from mcpdesk.recorder.index.exchange import KINDS, STATUSES, Exchange, ExchangeKind, Id, Status, dropped
from mcpdesk.recorder.index.pairing import Pairing
from mcpdesk.recorder.index.statistics import CallStatistics
from mcpdesk.recorder.index.table import NO_FRAME
from mcpdesk.recorder.record import FAULT, Direction, Gap, HeldMark, RecordedRemark, Source, keep_gap

STEPS = ("GET http", "POST http", "HTTP ")
"""How the HTTP of a login begins: a request names a whole address, an answer its status."""
_SLICE = 64
"""Frames between two looks at the clock; segments of a ring are a multiple of it."""
_RATE_S = 600
_TOLD = "notifications/"
"""How the mark of a notification begins that was held on its own."""
_REMARK_S = 60.0
"""How long after its answer an exchange may be remarked on."""
_REMARKED_ROWS = 10_000
"""Rows in which the exchange of a new remark is looked for; the newest."""
_CLOSE_S = 0.1
"""How far the times of a message and of what is noted about it may be apart."""


class Exchanges:
    """All exchanges in the order they began; values are made when looked at."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index.table)

    def __getitem__(self, at: int) -> Exchange:
        return self._index.exchange(range(len(self))[at])

    def __iter__(self) -> Iterator[Exchange]:
        return (self._index.exchange(row) for row in range(self._index.table.base, len(self)))


class Index:
    """What was recorded, as exchanges."""

    def __init__(self, source: Source, most: int | None = None) -> None:
        """At least `most` exchanges are kept, and some more; None: all. Numbers stay the same."""
        self._source = source
        self._most = most
        self._pairing = pairing = Pairing(source, rolling=most is not None, held_s=self.held_s)
        self.table = pairing.table
        """The exchanges' columns."""
        self.operations = pairing.operations
        """Which exchanges belong together."""
        self.altered = pairing.altered
        """Rows that changed after they were made, in the order of the changes."""
        self.row_of = pairing.row_of
        """The first exchange of every paired frame, by frame number; -1 for a frame that is gone."""
        self.rows_of = pairing.rows_of
        self.pending = pairing.pending
        self.connections = source.connections
        """The latest of every connection, by number."""
        self.frame = source.frame
        self.frames = source.frames
        self.whole = source.whole
        self.note = source.note
        self.data = source.data
        self.raw: Callable[[int, int], bytes | None] | None = None
        """Bytes in which those of frames from one up to another stand as they are; None: ask `data`."""
        self.fetched_until: Callable[[int, int], int] | None = None
        """First of some frames whose bytes are on their way from another process; None: all are here."""
        self._lock = Lock()
        self._rates: dict[int, int] = {}
        self.exchanges = Exchanges(self)
        self.statistics = CallStatistics(self)
        self.secret_headers: frozenset[str] = frozenset()
        """Names of headers to mask besides those known to be secret."""
        self.former_replicas: frozenset[str] = frozenset()
        """Of several machines, those that have ended."""
        self._ends_seen = 0
        """How many connections were looked through for their servers and replicas."""
        self._servers_seen: set[str] = set()
        """Their servers, no more than it takes to know whether there are several."""
        self._has_replicas = False
        self.held: Collection[tuple[int, Id | None]] = ()
        """Connections and ids of exchanges of which a message waits at the desk."""
        self.reveals_secrets = False
        """Whether messages and headers are shown as they were, nothing masked."""
        self.version = 0
        """Grows with every change."""
        self.paired = 0
        """Frames looked at so far."""
        self._marks: dict[tuple[int, int | str | float], list[HeldMark]] = {}
        self._marks_lock = Lock()
        self._marked = 0
        """Marks of the source that are in there."""
        self._remarks: dict[tuple[int, Id | None], list[RecordedRemark]] = {}
        """By connection and id of the request."""
        self._login_remarks: dict[int, list[RecordedRemark]] = {}
        """Remarks on steps of a login, which have no ids, by row."""
        self._remarks_taken = 0
        """Remarks of the source that are in there."""
        self._known_gaps = source.gaps
        self._found_gaps: list[Gap] = []
        """Frames that have numbers, and were gone before anybody looked."""
        self._gone = self._summed = 0

    def is_here(self, frame: int) -> bool:
        """False while bytes of a frame are on their way from another process; they are asked for."""
        return self.fetched_until is None or self.fetched_until(frame, frame + 1) > frame

    @property
    def frame_count(self) -> int:
        """Frames recorded, paired or not."""
        return self._source.count

    @property
    def first_frame(self) -> int:
        """The oldest frame whose exchange is known."""
        return self._pairing.first_frame

    @property
    def removed(self) -> int:
        """Frames at the beginning that were removed from the disk to make room."""
        return self._source.removed

    @property
    def gone(self) -> int:
        """Frames nobody can look at: in no file, or they had left memory before anybody looked."""
        known = self._known_gaps
        if self._most is not None:  # few, of which some may have become one
            return self._gone + sum(gap.frames for gap in known)
        while self._summed < len(known):
            self._gone += known[self._summed].frames
            self._summed += 1
        return self._gone

    @property
    def gaps(self) -> Sequence[Gap]:
        """Where frames are missing, rising."""
        return sorted((*self._known_gaps, *self._found_gaps), key=lambda gap: gap.before)

    def catch_up(self, budget_s: float = 0.005) -> bool:
        """Pair frames that came since, for about `budget_s` seconds; True when anything changed.

        Another thread already at it: False at once.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            before = self.paired, len(self.altered)
            until = perf_counter() + budget_s
            if self._most is not None and self.paired < self._source.first:
                self._skip_to(self._source.first)
            while self.paired < self._source.count:
                self._pair_slice(min((self.paired | _SLICE - 1) + 1, self._source.count))
                if perf_counter() > until:
                    break
            else:
                self._take_remarks()
                self._pairing.give_up_closed()
            changed = (self.paired, len(self.altered)) != before
            if changed and self._most is not None:
                # Of a running core exchanges are dropped: they are counted as they come.
                self.statistics.update(inf)
            if self._most is not None and len(self.table) - self.table.base > self._most + (self._most >> 2):
                self._pairing.drop(len(self.table) - self._most)
            self.version += changed
            return changed
        finally:
            self._lock.release()

    def exchange(self, number: int) -> Exchange:
        """One exchange as it stands now; of one that was dropped nothing but its number.

        Raises: IndexError when there is none of that number.
        """
        try:
            return self._exchange(number)
        except (IndexError, KeyError):
            if 0 <= number < self.table.base:
                return dropped(number)
            raise

    def _exchange(self, number: int) -> Exchange:
        table = self.table
        method, name = table.labels[table.label[number]]
        info = self.connections.get(table.connection[number])
        ended = table.ended[number]
        request, response = table.request[number], table.response[number]
        operation = self.operations.get(number)
        if KINDS[table.kind[number]] is ExchangeKind.MALFORMED and not name:
            name = self._http_line(request if request != NO_FRAME else response)
        return Exchange(
            number,
            KINDS[table.kind[number]],
            table.connection[number],
            info.server if info else "",
            info.peer if info else f"connection {table.connection[number]}",
            Direction(table.direction[number]),
            method,
            name,
            table.id[number],
            STATUSES[table.status[number]],
            table.started[number],
            None if ended != ended else ended,
            table.size[number],
            self.revision(number),
            None if request == NO_FRAME else request,
            None if response == NO_FRAME else response,
            tuple(self._pairing.notifications.get(number, ())),
            self.is_slow(number),
            self.operations.whole.get(number),
            tuple(operation.rows) if operation else (),
            operation.rounds if operation else 1,
            operation.waited if operation else 0.0,
            operation.questions if operation else 0,
            operation.since if operation and operation.asked else None,
            info.replica if info else "",
        )

    def is_slow(self, number: int) -> bool:
        """Whether an exchange took long among all of its method and name."""
        table = self.table
        return self._pairing.slow_calls.is_slow(table.label[number], table.pace[number])

    @property
    def slow_version(self) -> int:
        """Grows when exchanges may be slow that were not, or the other way round."""
        return self._pairing.slow_calls.version

    @property
    def has_folded(self) -> bool:
        """Whether some exchange has no line of its own."""
        return bool(self.operations.whole or self._pairing.notifications)

    def line_of(self, number: int) -> int:
        """The exchange whose line stands for this one: the whole of a part, the call of a notification."""
        whole = self.operations.whole.get(number)
        if whole is not None or number < self.table.base:
            return number if whole is None else whole
        under = self.table.under[number]
        return under if under >= self.table.base else number

    def folded_in(self, number: int) -> list[int]:
        """The exchanges without a line of their own that belong to one, in the order they began."""
        operation = self.operations.get(number)
        frames = self._pairing.notifications.get(number, ())
        folded = {row for frame in frames for row in self.rows_of(frame) if self.table.under[row] == number}
        return sorted(folded.union(operation.rows if operation else ()))

    def revision(self, number: int) -> str:
        """The revision an exchange states, else its connection's; empty for one that was dropped."""
        table = self.table
        if number < table.base:
            return ""
        info = self.connections.get(table.connection[number])
        return table.revisions[table.revision[number]] or (info.revision if info else "")

    def mark_former(self, replicas: frozenset[str]) -> None:
        """Mark what went through these replicas as that of ones that have ended."""
        if replicas != self.former_replicas:
            self.former_replicas = replicas
            self.version += 1

    @property
    def has_replicas(self) -> bool:
        """Whether this is the traffic of several machines."""
        self._look_at_ends()
        return self._has_replicas

    @property
    def has_servers(self) -> bool:
        """Whether this is the traffic of several servers."""
        self._look_at_ends()
        return len(self._servers_seen) > 1

    def _look_at_ends(self) -> None:
        """Look through the connections that came since, through all again where some were forgotten."""
        if len(self.connections) == self._ends_seen:
            return
        infos = list(self.connections.values())
        new = infos[self._ends_seen :] or infos
        self._ends_seen = len(infos)
        self._has_replicas = self._has_replicas or any(info.replica for info in new)
        if len(self._servers_seen) < 2:
            self._servers_seen.update(info.server for info in new if info.server)

    @property
    def marks(self) -> Sequence[HeldMark]:
        """What became of messages that were held at the desk, oldest first."""
        return self._source.marks

    def marks_of(self, exchange: Exchange) -> list[HeldMark]:
        """What became of the messages of an exchange that were held at the desk."""
        if not self._source.marks:
            return []
        if exchange.id is None:  # a client's came when it began to wait, a server's went when it had waited
            told = self._marks_under(exchange.connection, exchange.method)
            waits = ((mark, mark.held if mark.direction is Direction.IN else 0.0) for mark in told)
            return [mark for mark, held in waits if abs(mark.at - held - exchange.started) < _CLOSE_S]
        # Ids may be used again once their request is over.
        ended = inf if exchange.ended is None else exchange.ended + _CLOSE_S
        found = self._marks_under(exchange.connection, exchange.id)
        return [
            mark for mark in found if mark.at - mark.held + _CLOSE_S > exchange.started and mark.at < ended
        ]

    def marks_at(self, row: int) -> list[HeldMark]:
        """The same for the exchange of a row."""
        if not self._source.marks:
            return []
        table = self.table
        key = table.labels[table.label[row]][0] if table.id[row] is None else table.id[row]
        return self.marks_of(self.exchange(row)) if self._marks_under(table.connection[row], key) else []

    def rows_marked(self, mark: HeldMark, stop: int) -> list[int]:
        """The rows before `stop` that a mark may be about."""
        table = self.table
        start = bisect_left(
            table.started, mark.at - mark.held - _CLOSE_S, lo=table.base, hi=max(stop, table.base)
        )
        of_connection = (row for row in range(start, stop) if table.connection[row] == mark.connection)
        return [row for row in of_connection if mark.id in (table.id[row], table.labels[table.label[row]][0])]

    @property
    def remarks(self) -> Sequence[RecordedRemark]:
        """Remarks on what servers sent that were recorded, oldest first."""
        return self._source.remarks

    @property
    def remarks_left_out(self) -> int:
        """Number of later remarks, which are not kept."""
        return self._source.remarks_left_out

    def is_remarked(self, row: int) -> bool:
        """Whether something is wrong with a message of an exchange."""
        return row in self._pairing.remarked

    def recorded_remarks(self, exchange: Exchange) -> list[RecordedRemark]:
        """The remarks on an exchange that were recorded."""
        if exchange.id is None:
            return self._login_remarks.get(exchange.number, [])
        found = self._remarks.get((exchange.connection, exchange.id), ())
        ended = inf if exchange.ended is None else exchange.ended + _REMARK_S
        return [each for each in found if exchange.started - _CLOSE_S < each.time < ended]

    def _take_remarks(self) -> None:
        """Mark the exchanges that new remarks are about; one that has a fault is malformed."""
        remarks, table = self._source.remarks, self.table
        while self._remarks_taken < len(remarks):
            one = remarks[self._remarks_taken]
            self._remarks_taken += 1
            if one.id is None and one.remark.kind != RemarkKind.OAUTH:
                continue
            row = self._row_remarked(one)
            if one.id is None and row < 0:
                continue  # the step of the login is no longer in memory
            is_silence = one.remark.kind == RemarkKind.NO_ANSWER
            if is_silence and (row < 0 or not self._pairing.give_up(row, one.time, Status.LOST)):
                continue  # it was answered or cancelled in time
            if one.id is None:
                self._login_remarks.setdefault(row, []).append(one)
            else:
                self._remarks.setdefault((one.connection, one.id), []).append(one)
            if row < 0:
                continue
            pairing = self._pairing
            if one.remark.kind in (RemarkKind.CODE_RUNS, RemarkKind.CODE_ENDED):
                pairing.code_runs(row, runs=one.remark.kind == RemarkKind.CODE_RUNS)
                continue
            if one.remark.is_fault and not is_silence:
                is_over = not pairing.give_up(row, one.time, Status.MALFORMED)
                if is_over and not pairing.is_negotiation(row):
                    table.end(row, one.time, Status.MALFORMED)
            if not (one.remark.is_fault and pairing.is_negotiation(row)):
                pairing.remarked.add(row)
            self.altered.append(row)

    def _row_remarked(self, one: RecordedRemark) -> int:
        """The latest row that a remark may be about, -1 if there is none."""
        table = self.table
        start, is_silence = (
            max(table.base, len(table) - _REMARKED_ROWS),
            one.remark.kind == RemarkKind.NO_ANSWER,
        )
        asker = Direction.OUT if one.is_question else Direction.IN
        last = one.time + (0.0 if one.id is None else _CLOSE_S)
        for row in range(len(table) - 1, start - 1, -1):
            if (
                table.connection[row] == one.connection
                and table.id[row] == one.id
                and table.started[row] <= last
                and (not is_silence or table.direction[row] == asker)
            ):
                return row
        return -1

    def held_s(self, row: int) -> float:
        """Seconds for which a person held the rounds of an operation, and its answer, at the desk.

        What a rule delays, and notifications that are held while the call goes on, do not count.
        """
        if not self._source.marks:
            return 0.0
        table, operation = self.table, self.operations.get(row)
        asks = table.label[row], table.direction[row]
        parts = [] if operation is None else [each for each in operation.rows if each >= table.base]
        rounds = [row, *(each for each in parts if (table.label[each], table.direction[each]) == asks)]
        marked = [each for each in rounds if self._marks_under(table.connection[each], table.id[each])]
        marks = chain.from_iterable(self.marks_of(self._exchange(each)) for each in marked)
        return sum(mark.held for mark in marks if FAULT not in mark.how and not mark.how.startswith(_TOLD))

    def _marks_under(self, connection: int, key: int | str | float | None) -> Sequence[HeldMark]:
        """The marks of one id, or of one method of notifications."""
        with self._marks_lock:
            marks = self._source.marks
            while self._marked < len(marks):
                mark = marks[self._marked]
                self._marks.setdefault((mark.connection, mark.id), []).append(mark)
                self._marked += 1
        return () if key is None else self._marks.get((connection, key), ())

    def _http_line(self, frame: int) -> str:
        """What HTTP said of a frame that is no message of the protocol, but a step of a login."""
        note = self._source.note(frame)
        return "" if note is None or not note.line.startswith(STEPS) else note.line.partition("?")[0]

    def part_of(self, number: int, frame: int) -> int | None:
        """Where in a batch frame the message of an exchange stands; None when it is the whole frame."""
        return self._pairing.parts.get((number, frame))

    def rates(self, seconds: int) -> list[float]:
        """Messages in each of the last `seconds` whole seconds, newest last. Catches up a little first."""
        self.catch_up(0.002)
        now = int(time())
        return [float(self._rates.get(second, 0)) for second in range(now - seconds, now)]

    def _skip_to(self, first: int) -> None:
        """Pass over frames that left memory, and what can be read of the disk, before they were paired."""
        self._miss(self.paired, first)
        self._pairing.skip_to(first)
        self.paired = first

    def _miss(self, start: int, stop: int) -> None:
        """Note that frames from `start` up to `stop` are gone; those that follow each other are one gap."""
        gaps, count = self._found_gaps, stop - start
        self._gone += count
        if gaps and gaps[-1].before == start:
            gaps[-1] = Gap(stop, gaps[-1].frames + count)
            return
        keep_gap(gaps, Gap(stop, count))

    def _pair_slice(self, stop: int) -> None:
        """Pair the frames up to `stop` (excluded)."""
        seconds = []
        for frame in self._source.frames(self.paired, stop):
            if frame is None:
                number = len(self._pairing.row_of)
                self._miss(number, number + 1)
                self._pairing.skip()
            else:
                self._pairing.add(frame)
                seconds.append(int(frame.time))
        self.paired = stop
        for second in set(seconds):
            self._rates[second] = self._rates.get(second, 0) + seconds.count(second)
        while len(self._rates) > _RATE_S:
            del self._rates[next(iter(self._rates))]


_REASONS = 20
"""Gaps whose reasons are told together."""


def gaps_in_words(index: Index) -> str:
    """One sentence on all gaps; empty when nothing is missing."""
    gaps = index.gaps
    missing = sum(gap.frames for gap in gaps)
    if not missing:
        return ""
    reasons = ", ".join(dict.fromkeys(islice((gap.why for gap in gaps if gap.why), _REASONS)))
    return _sentence(missing, reasons)


def gap_in_words(gap: Gap) -> str:
    """One sentence on one gap."""
    return _sentence(gap.frames, gap.why)


def _sentence(frames: int, why: str) -> str:
    said = "1 frame is" if frames == 1 else f"{frames:,} frames are"
    return f"{said} missing in the capture{f': {why}' if why else ''}"


def with_gaps(index: Index, numbers: Iterable[int]) -> Iterator[int | Gap]:
    """Exchanges, and before each the gaps that lie between it and the one before it."""
    gaps = iter(index.gaps)
    gap = next(gaps, None)
    for number in numbers:
        first = index.table.first[number]
        while gap is not None and gap.before <= first:
            yield gap
            gap = next(gaps, None)
        yield number
    while gap is not None:
        yield gap
        gap = next(gaps, None)


def is_round(one: Exchange, whole: Exchange) -> bool:
    """Whether a part of an operation, or itself, is one of its rounds: each repeats the same method."""
    return one.direction is whole.direction and one.method == whole.method


def last_round(index: Index, whole: Exchange) -> Exchange:
    """The round that gave the operation its result, or is about to."""
    if whole.rounds == 1:
        return whole
    rounds = (index.exchange(row) for row in reversed(whole.parts))
    return next((one for one in rounds if is_round(one, whole)), whole)


def parts_in_words(whole: Exchange) -> str:
    """`3 rounds · 1 question · 2 polls`; empty where the request and its response are all."""
    counts = (
        (whole.rounds if whole.parts and whole.rounds > 1 else 0, "round"),
        (whole.questions, "question"),
        (whole.looks, "poll"),
    )
    return " · ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count)
