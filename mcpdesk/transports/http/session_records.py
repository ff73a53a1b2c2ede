"""HTTP sessions on disk, so that clients can go on after a restart.

Every process has a file of its own in the state folder and holds a lock on it while it lives. A file without
a lock is of a process that has ended: its sessions are taken over one by one, by whichever process their
clients come to. A line is a record in JSON; the last one of a session counts. No file says what the id of a
session is, or who owns it.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.protocol.handshake import SessionState

FOLDER = "sessions"
"""Where the files are, in the state folder."""
LONGEST = 64 * 1024
"""Bytes of a record. A session that needs more is not kept."""
SLACK_BYTES = 1 << 20
"""Bytes of outdated records a file may hold, besides as many as current ones."""
LOOK_S = 1.0
"""The least time between two searches for files of processes that have ended."""
_SUFFIX = ".jsonl"

log = logging.getLogger(__name__)


class SessionRecord(Struct, frozen=True, omit_defaults=True):
    """One session. A record without a `state` only updates when the session was last used."""

    id: str
    """The hash of the session's id."""
    used: float = 0.0
    """Time of last use, Unix time in seconds."""
    server: str = ""
    """The server's place and mode."""
    owner: str = ""
    """What `seal` makes of its owner."""
    restarts: int = 0
    """How many processes served it before."""
    state: SessionState | None = None
    is_over: bool = False


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(SessionRecord).decode


def hashed(identifier: str) -> str:
    """Return the hash that stands for a session's id in a file."""
    return hashlib.sha256(identifier.encode()).hexdigest()


def seal(identifier: str, owner: str, key: str) -> str:
    """Return the hash of who may use a session: its owner's identity and the desk's key, if it has one.

    The id of the session is part of it, which no file holds: nobody can try out keys against it.
    """
    return hashlib.sha256("\0".join((identifier, owner, key)).encode("utf-8", "surrogatepass")).hexdigest()


def read_records(text: bytes) -> dict[str, SessionRecord]:
    """Return the sessions in the lines of a file, by the hash of their id. Damaged lines are skipped."""
    found: dict[str, SessionRecord] = {}
    for line in text.splitlines():
        try:
            record = _decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError):
            continue
        known = found.get(record.id)
        if record.is_over:
            found.pop(record.id, None)
        elif record.state is not None:
            found[record.id] = record
        elif known is not None:
            found[record.id] = replace(known, used=record.used)
    return found


class _Left:
    """The file of a process that has ended."""

    def __init__(self, path: Path, since: float) -> None:
        self.path = path
        self.records: dict[str, SessionRecord] = {}
        self._since = since
        self._size = -1

    def read(self) -> bool:
        """Read it; False while its process lives. Raises: OSError."""
        return self._held(fcntl.LOCK_EX | fcntl.LOCK_NB, "")

    def take(self, identifier: str) -> bool:
        """Take a session over; False when another process did before. Raises: OSError."""
        return self._held(fcntl.LOCK_EX, identifier)

    def _held(self, how: int, taken: str) -> bool:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:  # another process took the last session of it
            self.records = {}
            return not taken
        try:
            fcntl.flock(handle, how)
            if os.fstat(handle).st_size != self._size:
                every = read_records(_whole(handle))
                self.records = {key: each for key, each in every.items() if each.used >= self._since}
            was_there = self.records.pop(taken, None) is not None
            if was_there:
                # The last line may be cut short.
                _write_all(handle, b"\n" + _over(taken))
            if not self.records:
                self.path.unlink(missing_ok=True)
            self._size = os.fstat(handle).st_size
            return was_there or not taken
        except BlockingIOError:
            return False
        finally:
            os.close(handle)


class SessionRecords:
    """The sessions of this process on disk, and those of ended processes. Written from any thread."""

    def __init__(self, folder: Path, ttl_s: float) -> None:
        self._folder = folder
        self._ttl_s = ttl_s
        self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
        self._records: dict[str, SessionRecord] = {}
        """The records of this process, as its file should have them."""
        self._handle = -1
        self._written = self._compact = 0
        self._is_due = True
        """Whether the file must be rewritten: there is none yet, or a write failed."""
        self._is_failing = self._is_closed = False
        self._lock = Lock()
        self._left: dict[Path, _Left] = {}
        self._next_look = 0.0

    def write(self, records: Iterable[SessionRecord]) -> None:
        """Write the records of sessions. What could not be written is tried again the next time."""
        with self._lock:
            if self._is_closed:
                return
            lines = b"".join(map(self._line, records))
            try:
                if self._is_due or self._written > 2 * self._compact + SLACK_BYTES:
                    self._write_anew()
                elif lines:
                    self._written += len(lines)
                    _write_all(self._handle, lines)
            except OSError as error:
                self._complain(error)
            else:
                self._is_failing = False

    def close(self, records: Iterable[SessionRecord]) -> None:
        """Write the sessions that the next process may take over, and nothing more."""
        with self._lock:
            if self._is_closed:
                return
            self._records.clear()
            for record in records:
                self._line(record)
            try:
                self._write_anew()
            except OSError as error:
                self._complain(error)
            self._is_closed = True
            if self._handle >= 0:
                os.close(self._handle)

    def find(self, identifier: str) -> SessionRecord | None:
        """Return the session of an ended process by the hash of its id, unless it has expired."""
        found = self._found(identifier)
        if found is None and time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + LOOK_S
            found = self._found(identifier)
        return None if found is None or found.used < time.time() - self._ttl_s else found

    def take(self, record: SessionRecord) -> bool:
        """Take a session over; False when another process did."""
        self.write([record])  # first of all: better in two files than in none
        try:
            took = [left.take(record.id) for left in self._left.values() if record.id in left.records]
        except OSError as error:
            self._complain(error)
            took = []
        if not any(took):
            self.write([replace(record, is_over=True)])
        return any(took)

    def _found(self, identifier: str) -> SessionRecord | None:
        every = (left.records.get(identifier) for left in self._left.values())
        return max((each for each in every if each is not None), key=lambda each: each.used, default=None)

    def _look(self) -> None:
        """Search for files of ended processes."""
        since = time.time() - self._ttl_s
        self._left = {path: left for path, left in self._left.items() if left.records}
        try:
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path != self._path and path not in self._left:
                    left = _Left(path, since)
                    if left.read() and left.records:
                        self._left[path] = left
        except OSError as error:
            self._complain(error)

    def _line(self, record: SessionRecord) -> bytes:
        """Return the line for a session, and remember its record."""
        known = self._records.get(record.id)
        if record.is_over:
            return b"" if self._records.pop(record.id, None) is None else _over(record.id)
        try:
            line = _encode(record)
        except (ValueError, RecursionError):  # a client said what only a request can hold
            line = b""
        if not 0 < len(line) <= LONGEST:
            return b"" if self._records.pop(record.id, None) is None else _over(record.id)
        self._records[record.id] = record
        if known is not None and replace(known, used=record.used) == record:
            line = _encode(SessionRecord(record.id, record.used))
        return line + b"\n"

    def _write_anew(self) -> None:
        """Replace the file by one with the current records only; the new file is locked before it appears."""
        if not self._records:
            if self._handle >= 0:
                self._path.unlink(missing_ok=True)
                os.close(self._handle)
                self._handle, self._is_due = -1, True
            return
        self._is_due = True  # until it is done
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            text = b"".join(_encode(record) + b"\n" for record in self._records.values())
            _write_all(handle, text)
            draft.rename(self._path)
        except BaseException:
            os.close(handle)
            draft.unlink(missing_ok=True)
            raise
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._is_due = handle, False
        self._written = self._compact = len(text)

    def _complain(self, error: OSError) -> None:
        self._is_due = True
        if not self._is_failing:
            self._is_failing = True
            log.warning("sessions of HTTP clients would not survive a restart now: %s", error)


def _over(identifier: str) -> bytes:
    return _encode(SessionRecord(identifier, is_over=True)) + b"\n"


def _whole(handle: int) -> bytes:
    pieces = []
    while piece := os.read(handle, 1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _write_all(handle: int, data: bytes) -> None:
    """Write everything. Raises: OSError."""
    while data:
        data = data[os.write(handle, data) :]
