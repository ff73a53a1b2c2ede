"""Index of the traffic. Frames are parsed and paired into exchanges only on demand.

One thread at a time pairs new frames with `catch_up`. Any thread may read. A mark is a recorded decision
about a held message. A remark is a recorded error or peculiarity in a server's messages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from math import inf, isnan
from threading import Lock
from time import perf_counter, time

from mcpdesk.protocol.reading.remark import RemarkKind
from mcpdesk.recorder.index.exchange import KINDS, STATUSES, Exchange, ExchangeKind, Id, Status, dropped
from mcpdesk.recorder.index.pairing import Pairing
from mcpdesk.recorder.index.statistics import CallStatistics
from mcpdesk.recorder.index.table import NO_FRAME, NO_ROW
from mcpdesk.recorder.record import FAULT, Direction, Gap, HeldMark, RecordedRemark, Source, add_gap

LOGIN_START_LINES = ("GET http", "POST http", "HTTP ")
"""Beginnings of the HTTP start lines of a login.

A login request has an absolute URL, and a response has its status.
"""
_SLICE_FRAMES = 64
"""Number of frames between two checks of the clock. The size of a segment is a multiple of it."""
_RATE_S = 600
"""Number of seconds for which the number of messages is kept."""
_NOTIFICATIONS = "notifications/"
"""Prefix of `HeldMark.how` for a held notification."""
_MAX_REMARK_DELAY_S = 60.0
"""Seconds after the end of an exchange within which a remark is still assigned to the exchange."""
_REMARKED_ROWS = 10_000
"""Number of the newest rows that are searched for the exchange of a remark."""
_MAX_EARLY_MARKS = 1_000
"""Maximum number of marks that wait for the frames of their requests. The oldest are dropped first."""
_MAX_MARK_DELAY_S = 0.1
"""Maximum difference in seconds between the time of a message and the time of its mark or remark."""


class Exchanges:
    """All exchanges in the order of their start. Each object is created when it is read."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return len(self._index.table)

    def __getitem__(self, position: int) -> Exchange:
        return self._index.exchange(range(len(self))[position])

    def __iter__(self) -> Iterator[Exchange]:
        return (self._index.exchange(row) for row in range(self._index.table.base, len(self)))


class Index:
    """Recorded traffic as exchanges."""

    def __init__(self, source: Source, kept_exchanges: int | None = None) -> None:
        """Keep at least the newest `kept_exchanges` exchanges, or all if it is None. The numbers of exchanges
        never change.
        """
        self._source = source
        self._kept_exchanges = kept_exchanges
        self._pairing = pairing = Pairing(source, rolling=kept_exchanges is not None, held_s=self.held_s)
        self.table = pairing.table
        """Columns of the exchanges."""
        self.operations = pairing.operations
        """Groups of related exchanges."""
        self.altered = pairing.altered
        """Rows that changed after they were created, in the order of these changes."""
        self.row_of = pairing.row_of
        """First exchange of each paired frame, by frame number. -1 for a missing frame."""
        self.rows_of = pairing.rows_of
        self.pending = pairing.pending
        self.connections = source.connections
        """Latest data of every connection, by number."""
        self.frame = source.frame
        self.frames = source.frames
        self.frame_bytes = source.frame_bytes
        self.note = source.note
        self.data = source.data
        self.raw: Callable[[int, int], bytes | None] | None = None
        """Function that returns a range of frames as one block of bytes, or None if the caller must use
        `data`.

        None if the source has no such function.
        """
        self.fetched_until: Callable[[int, int], int] | None = None
        """Function that returns the first frame of a range that another process has not sent yet.

        None if all frames are in this process or on disk.
        """
        self._lock = Lock()
        self._rates: dict[int, int] = {}
        """Number of messages in each second of Unix time."""
        self.exchanges = Exchanges(self)
        self.statistics = CallStatistics(pairing, source, self.held_s)
        self.secret_headers: frozenset[str] = frozenset()
        """Names of headers whose values must be masked in addition to the usual ones."""
        self.former_cores: frozenset[str] = frozenset()
        """Names of cores that have ended."""
        self._connections_seen = 0
        """Number of connections whose server and core were already examined."""
        self._servers_seen: set[str] = set()
        """Servers of the examined connections, at most two, because `has_servers` needs only two."""
        self._has_cores = False
        self.held: Collection[tuple[int, Id | None]] = ()
        """Connections and ids of the exchanges with a message that is held now."""
        self.reveals_secrets = False
        """True to show messages and headers without masks."""
        self.version = 0
        """Number that increases with every change."""
        self._marks: dict[tuple[int, int | str | float], list[HeldMark]] = {}
        """Marks by connection, and id of the request or method of the notification."""
        self._marks_lock = Lock()
        self._indexed_marks = 0
        """Number of the source's marks that are already in `_marks`."""
        self._checked_marks = 0
        """Number of the source's marks that were already checked for requests ended at the desk."""
        self._early_marks: deque[HeldMark] = deque(maxlen=_MAX_EARLY_MARKS)
        """Marks of requests whose frames may still follow, because files and links send marks before
        frames.
        """
        self._remarks: dict[tuple[int, Id | None], list[RecordedRemark]] = {}
        """Remarks by connection and id of the request."""
        self._login_remarks: dict[int, list[RecordedRemark]] = {}
        """Remarks on steps of a login, by row. These steps have no ids."""
        self._assigned_remarks = 0
        """Number of the source's remarks that were assigned to exchanges."""
        self._source_gaps = source.gaps
        self._found_gaps: list[Gap] = []
        """Gaps of numbered frames that were lost before they were paired."""
        self._missing = 0
        """Number of frames in `_found_gaps`, and in those gaps of the source that were already summed."""
        self._summed_gaps = 0

    def is_available(self, frame: int) -> bool:
        """Return True if all bytes of a frame are available.

        Otherwise request them from the process that has the frame.
        """
        return self.fetched_until is None or self.fetched_until(frame, frame + 1) > frame

    @property
    def paired(self) -> int:
        """Number of paired frames."""
        return self._pairing.paired

    @property
    def frame_count(self) -> int:
        """Number of recorded frames, paired or not."""
        return self._source.count

    @property
    def first_frame(self) -> int:
        """Number of the oldest frame whose exchange is known."""
        return self._pairing.first_frame

    @property
    def removed(self) -> int:
        """Number of frames at the beginning that were removed from disk to free space."""
        return self._source.removed

    @property
    def missing_frames(self) -> int:
        """Number of frames that are missing in the file, or that left memory before they were paired."""
        gaps = self._source_gaps
        if self._kept_exchanges is not None:  # some gaps may have been merged
            return self._missing + sum(gap.frames for gap in gaps)
        while self._summed_gaps < len(gaps):
            self._missing += gaps[self._summed_gaps].frames
            self._summed_gaps += 1
        return self._missing

    @property
    def gaps(self) -> Sequence[Gap]:
        """Gaps of missing frames, in ascending order."""
        return sorted((*self._source_gaps, *self._found_gaps), key=lambda gap: gap.before)

    def catch_up(self, budget_s: float = 0.005) -> bool:
        """Pair new frames for about `budget_s` seconds. Return True if anything changed.

        If another thread is pairing, return False at once.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            old_counts = self.paired, len(self.altered)
            deadline = perf_counter() + budget_s
            if self._kept_exchanges is not None and self.paired < self._source.first:
                self._skip_to(self._source.first)
            while self.paired < self._source.count:
                self._pair_slice(min((self.paired | _SLICE_FRAMES - 1) + 1, self._source.count))
                if perf_counter() > deadline:
                    break
            else:  # all frames are paired, so the exchanges of remarks and marks can be found
                self._add_remarks()
                self._add_marks()
                self._pairing.give_up_closed()
            has_changed = (self.paired, len(self.altered)) != old_counts
            if has_changed and self._kept_exchanges is not None:
                # A running core drops exchanges later, so they must be counted now.
                self.statistics.update(inf)
            limit, count = self._kept_exchanges, len(self.table)
            # Up to a quarter more are kept, because dropping copies the remaining rows.
            if limit is not None and count - self.table.base > limit + (limit >> 2):
                self._pairing.drop(count - limit)
            self.version += has_changed
            return has_changed
        finally:
            self._lock.release()

    def exchange(self, number: int) -> Exchange:
        """Return a snapshot of an exchange, or a placeholder if it was dropped.

        Raises: IndexError if the exchange does not exist.
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
            name = self._login_step_line(request if request != NO_FRAME else response)
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
            None if isnan(ended) else ended,
            table.size[number],
            self.revision(number),
            None if request == NO_FRAME else request,
            None if response == NO_FRAME else response,
            tuple(self._pairing.notifications.get(number, ())),
            self.is_slow(number),
            self.operations.operation_of.get(number),
            tuple(operation.rows) if operation else (),
            operation.rounds if operation else 1,
            operation.waited_s if operation else 0.0,
            operation.questions if operation else 0,
            operation.wait_started if operation and operation.open_questions else None,
            info.core if info else "",
        )

    def is_slow(self, number: int) -> bool:
        """Return True if an exchange took long compared with others of its method and name."""
        table = self.table
        return self._pairing.slow_calls.is_slow(table.label[number], table.server_s[number])

    @property
    def slow_version(self) -> int:
        """Number that increases when the result of `is_slow` may have changed."""
        return self._pairing.slow_calls.version

    @property
    def has_folded(self) -> bool:
        """True if some exchanges are shown within the line of another exchange."""
        return bool(self.operations.operation_of or self._pairing.notifications)

    def line_of(self, number: int) -> int:
        """Return the exchange whose line on the screen includes this exchange.

        The line of a part is that of the first exchange of the operation. The line of a notification is that
        of its call.
        """
        first_row = self.operations.operation_of.get(number)
        if first_row is not None:
            return first_row
        if number < self.table.base:
            return number
        call = self.table.under[number]
        return call if call >= self.table.base else number

    def folded_in(self, number: int) -> list[int]:
        """Return the exchanges that are shown within the line of this exchange, in order of their start."""
        operation = self.operations.get(number)
        frames = self._pairing.notifications.get(number, ())
        folded = {row for frame in frames for row in self.rows_of(frame) if self.table.under[row] == number}
        return sorted(folded.union(operation.rows if operation else ()))

    def revision(self, number: int) -> str:
        """Return the revision of an exchange.

        If it has none, return the revision of its connection. Empty if it was dropped.
        """
        table = self.table
        if number < table.base:
            return ""
        info = self.connections.get(table.connection[number])
        return table.revisions[table.revision[number]] or (info.revision if info else "")

    def mark_former(self, cores: frozenset[str]) -> None:
        """Set the names of the cores that have ended."""
        if cores != self.former_cores:
            self.former_cores = cores
            self.version += 1

    @property
    def has_cores(self) -> bool:
        """True if the traffic comes from more than one core."""
        self._examine_new_connections()
        return self._has_cores

    @property
    def has_servers(self) -> bool:
        """True if the traffic comes from more than one server."""
        self._examine_new_connections()
        return len(self._servers_seen) > 1

    def _examine_new_connections(self) -> None:
        """Examine the servers and cores of new connections.

        If connections were forgotten, examine all connections.
        """
        if len(self.connections) == self._connections_seen:
            return
        infos = list(self.connections.values())
        new_infos = infos[self._connections_seen :] or infos
        self._connections_seen = len(infos)
        self._has_cores = self._has_cores or any(info.core for info in new_infos)
        if len(self._servers_seen) < 2:
            self._servers_seen.update(info.server for info in new_infos if info.server)

    @property
    def marks(self) -> Sequence[HeldMark]:
        """Decisions about held messages, oldest first."""
        return self._source.marks

    def marks_of(self, exchange: Exchange) -> list[HeldMark]:
        """Return the decisions about the held messages of an exchange."""
        if not self._source.marks:
            return []
        if exchange.id is None:  # a client's message starts on arrival, a server's on release
            return [
                mark
                for mark in self._marks_of_key(exchange.connection, exchange.method)
                if abs(_start_of(mark) - exchange.started) < _MAX_MARK_DELAY_S
            ]
        # A client may use an id again after its request has ended.
        latest = inf if exchange.ended is None else exchange.ended + _MAX_MARK_DELAY_S
        marks = self._marks_of_key(exchange.connection, exchange.id)
        return [
            mark
            for mark in marks
            if mark.at - mark.held + _MAX_MARK_DELAY_S > exchange.started and mark.at < latest
        ]

    def marks_at(self, row: int) -> list[HeldMark]:
        """Return the decisions about the held messages of a row."""
        if not self._source.marks:
            return []
        table = self.table
        key = table.labels[table.label[row]][0] if table.id[row] is None else table.id[row]
        return self.marks_of(self.exchange(row)) if self._marks_of_key(table.connection[row], key) else []

    def rows_for_mark(self, mark: HeldMark, stop: int) -> list[int]:
        """Return the rows before `stop` that a mark may belong to."""
        table = self.table
        start = bisect_left(
            table.started, mark.at - mark.held - _MAX_MARK_DELAY_S, lo=table.base, hi=max(stop, table.base)
        )
        connection_rows = (row for row in range(start, stop) if table.connection[row] == mark.connection)
        return [
            row for row in connection_rows if mark.id in (table.id[row], table.labels[table.label[row]][0])
        ]

    @property
    def remarks(self) -> Sequence[RecordedRemark]:
        """Recorded remarks on messages of servers, oldest first."""
        return self._source.remarks

    @property
    def remarks_left_out(self) -> int:
        """Number of remarks that were not stored, because there were too many."""
        return self._source.remarks_left_out

    def is_remarked(self, row: int) -> bool:
        """Return True if a message of an exchange has an error or a peculiarity."""
        return row in self._pairing.remarked

    def recorded_remarks(self, exchange: Exchange) -> list[RecordedRemark]:
        """Return the recorded remarks on an exchange."""
        if exchange.id is None:
            return self._login_remarks.get(exchange.number, [])
        remarks = self._remarks.get((exchange.connection, exchange.id), ())
        earliest = exchange.started - _MAX_MARK_DELAY_S
        latest = inf if exchange.ended is None else exchange.ended + _MAX_REMARK_DELAY_S
        return [remark for remark in remarks if earliest < remark.time < latest]

    def _add_remarks(self) -> None:
        """Assign new remarks to their exchanges. An exchange with an error becomes malformed."""
        pairing, remarks = self._pairing, self._source.remarks
        while self._assigned_remarks < len(remarks):
            recorded_remark = remarks[self._assigned_remarks]
            self._assigned_remarks += 1
            remark, remark_time = recorded_remark.remark, recorded_remark.time
            has_id = recorded_remark.id is not None
            if not has_id and remark.kind != RemarkKind.OAUTH:
                continue  # the remark is about no exchange
            row = self._row_of_remark(recorded_remark)
            if not has_id and row == NO_ROW:
                continue  # the step of the login is no longer in memory
            is_about_no_answer = remark.kind == RemarkKind.NO_ANSWER
            if is_about_no_answer and (row == NO_ROW or not pairing.give_up(row, remark_time, Status.LOST)):
                continue  # the request had already ended
            if has_id:
                key = recorded_remark.connection, recorded_remark.id
                self._remarks.setdefault(key, []).append(recorded_remark)
            else:
                self._login_remarks.setdefault(row, []).append(recorded_remark)
            if row == NO_ROW:
                continue
            if remark.kind in (RemarkKind.CODE_RUNS, RemarkKind.CODE_ENDED):
                pairing.set_code_running(row, is_running=remark.kind == RemarkKind.CODE_RUNS)
                continue
            if remark.is_fault and not is_about_no_answer:
                has_ended = not pairing.give_up(row, remark_time, Status.MALFORMED)
                if has_ended and not pairing.is_negotiation(row):
                    self.table.end(row, remark_time, Status.MALFORMED)
            if not (remark.is_fault and pairing.is_negotiation(row)):
                pairing.remarked.add(row)
            self.altered.append(row)

    def _add_marks(self) -> None:
        """End each request whose message or answer the desk dropped or lost."""
        marks, table, early_marks = self._source.marks, self.table, self._early_marks
        while self._checked_marks < len(marks):
            if (mark := marks[self._checked_marks]).leaves_no_answer:
                early_marks.append(mark)
            self._checked_marks += 1
        newest_start = table.started[len(table) - 1] if len(table) > table.base else 0.0
        for mark in [early_marks.popleft() for _ in range(len(early_marks))]:
            direction = mark.direction if mark.is_of_request else 1 - mark.direction
            latest_start = mark.at + _MAX_MARK_DELAY_S
            row = self._pairing.pending_row(mark.connection, direction, mark.id, latest_start)
            if row != NO_ROW and self._pairing.give_up(row, mark.at, Status.LOST):
                self.altered.append(row)
            elif newest_start <= latest_start:
                early_marks.append(mark)  # the frame of the request may still follow

    def _row_of_remark(self, recorded_remark: RecordedRemark) -> int:
        """Return the latest row that a remark may belong to, or `NO_ROW`."""
        table = self.table
        start = max(table.base, len(table) - _REMARKED_ROWS)
        is_about_no_answer = recorded_remark.remark.kind == RemarkKind.NO_ANSWER
        direction = Direction.OUT if recorded_remark.is_question else Direction.IN
        latest_start = recorded_remark.time + (0.0 if recorded_remark.id is None else _MAX_MARK_DELAY_S)
        for row in range(len(table) - 1, start - 1, -1):
            if (
                table.connection[row] == recorded_remark.connection
                and table.id[row] == recorded_remark.id
                and table.started[row] <= latest_start
                and (not is_about_no_answer or table.direction[row] == direction)
            ):
                return row
        return NO_ROW

    def held_s(self, row: int) -> float:
        """Return the seconds for which the messages of an operation were held at the desk.

        Delays by fault rules, and held notifications, do not count.
        """
        if not self._source.marks:
            return 0.0
        table = self.table
        operation = self.operations.get(row)
        round_key = table.label[row], table.direction[row]
        parts = [] if operation is None else [part for part in operation.rows if part >= table.base]
        rounds = [row, *(part for part in parts if (table.label[part], table.direction[part]) == round_key)]
        marked_rows = [part for part in rounds if self._marks_of_key(table.connection[part], table.id[part])]
        marks = chain.from_iterable(self.marks_of(self._exchange(part)) for part in marked_rows)
        return sum(
            mark.held for mark in marks if FAULT not in mark.how and not mark.how.startswith(_NOTIFICATIONS)
        )

    def _marks_of_key(self, connection: int, key: int | str | float | None) -> Sequence[HeldMark]:
        """Return the marks of messages with an id, or of notifications with a method."""
        with self._marks_lock:
            marks = self._source.marks
            while self._indexed_marks < len(marks):
                mark = marks[self._indexed_marks]
                self._marks.setdefault((mark.connection, mark.id), []).append(mark)
                self._indexed_marks += 1
        return () if key is None else self._marks.get((connection, key), ())

    def _login_step_line(self, frame: int) -> str:
        """Return the HTTP start line of a step of a login. Empty for other frames."""
        note = self._source.note(frame)
        if note is None or not note.line.startswith(LOGIN_START_LINES):
            return ""
        return note.line.partition("?")[0]

    def part_of(self, number: int, frame: int) -> int | None:
        """Return the position of an exchange's message in a batch, or None if the frame is not a batch."""
        return self._pairing.parts.get((number, frame))

    def rates(self, seconds: int) -> list[float]:
        """Return the number of messages in each of the last `seconds` seconds, newest last.

        Pairs some new frames first.
        """
        self.catch_up(0.002)
        now = int(time())
        return [float(self._rates.get(second, 0)) for second in range(now - seconds, now)]

    def _skip_to(self, first: int) -> None:
        """Skip frames that left memory before they were paired."""
        self._record_missing(self.paired, first)
        self._pairing.skip_to(first)
        self._pairing.paired = first

    def _record_missing(self, start: int, stop: int) -> None:
        """Record that the frames from `start` up to `stop` are missing. Neighbouring gaps are merged."""
        gaps, count = self._found_gaps, stop - start
        self._missing += count
        if gaps and gaps[-1].before == start:
            gaps[-1] = Gap(stop, gaps[-1].frames + count)
            return
        add_gap(gaps, Gap(stop, count))

    def _pair_slice(self, stop: int) -> None:
        """Pair the frames up to `stop` (excluded)."""
        seconds = []
        for frame in self._source.frames(self.paired, stop):
            if frame is None:
                number = len(self._pairing.row_of)
                self._record_missing(number, number + 1)
                self._pairing.skip()
            else:
                self._pairing.add(frame)
                seconds.append(int(frame.time))
        self._pairing.paired = stop
        for second in set(seconds):
            self._rates[second] = self._rates.get(second, 0) + seconds.count(second)
        while len(self._rates) > _RATE_S:
            del self._rates[next(iter(self._rates))]


def _start_of(mark: HeldMark) -> float:
    """Return the time in seconds at which the exchange of a held notification or reply begins."""
    return mark.at - mark.held if mark.direction is Direction.IN else mark.at


_MAX_REASONS = 20
"""Maximum number of gaps whose reasons are listed."""


def gaps_in_words(index: Index) -> str:
    """Return a sentence about all gaps, or "" if no frames are missing."""
    gaps = index.gaps
    missing = sum(gap.frames for gap in gaps)
    if not missing:
        return ""
    reasons = ", ".join(dict.fromkeys(islice((gap.why for gap in gaps if gap.why), _MAX_REASONS)))
    return _missing_frames_text(missing, reasons)


def gap_in_words(gap: Gap) -> str:
    """Return a sentence about one gap."""
    return _missing_frames_text(gap.frames, gap.why)


def _missing_frames_text(frames: int, reason: str) -> str:
    count = "1 frame is" if frames == 1 else f"{frames:,} frames are"
    return f"{count} missing in the capture{f': {reason}' if reason else ''}"


def with_gaps(index: Index, numbers: Iterable[int]) -> Iterator[int | Gap]:
    """Yield the exchanges. Before each exchange, yield the gaps since the previous one."""
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


def with_parts(index: Index, numbers: Iterable[int]) -> list[int]:
    """Return the exchanges and their parts, in ascending order."""
    return sorted({row for number in numbers for row in (number, *index.exchange(number).parts)})


def is_round(exchange: Exchange, operation: Exchange) -> bool:
    """Return True if an exchange is a round of an operation: a request with the operation's method and
    direction."""
    return exchange.direction is operation.direction and exchange.method == operation.method


def last_round(index: Index, operation: Exchange) -> Exchange:
    """Return the last round of an operation. It has the operation's result."""
    if operation.rounds == 1:
        return operation
    rounds = (index.exchange(row) for row in reversed(operation.parts))
    return next((exchange for exchange in rounds if is_round(exchange, operation)), operation)


def parts_in_words(operation: Exchange) -> str:
    """Return a text such as `3 rounds · 1 question · 2 polls`. Empty for a request without parts."""
    counts = (
        (operation.rounds if operation.parts and operation.rounds > 1 else 0, "round"),
        (operation.questions, "question"),
        (operation.polls, "poll"),
    )
    return " · ".join(f"{count} {noun}{'s' if count > 1 else ''}" for count, noun in counts if count)
