"""Calls that were made, and arguments saved under a name, in two files. Secrets are left out before."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from mcpdesk import private_files

MAX_PER_ITEM = 100
"""Calls of one item that are kept."""
MAX_SAVED = 50
"""Saved calls of one item; the oldest are deleted first."""
SAVED_CALLS_FILE = "saved-calls.json"
_COMPACT_ABOVE = 2 << 20
"""Bytes above which the file of calls is written again with the kept ones only."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that has ended."""

    time: float
    """Unix time in seconds."""
    server: str
    item: str
    """Kind and name: `tool user-profile`."""
    arguments: Any
    status: str
    elapsed_s: float


class History:
    """The calls of each item. They are kept in memory only without a `path`, or when writing fails."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._calls: dict[tuple[str, str], deque[PastCall]] = {}
        self._is_read = False

    def of(self, server: str, item: str) -> list[PastCall]:
        """Calls of one item, newest first."""
        self._read()
        return list(reversed(self._calls.get((server, item), ())))

    def add(self, call: PastCall) -> None:
        """Append a call."""
        self._read()
        self._keep(call)
        self._write([call], private_files.append)

    def _read(self) -> None:
        """Read the file the first time that a call is needed."""
        if self._is_read or self._path is None:
            return
        self._is_read = True
        try:
            data = self._path.read_bytes()
        except OSError:
            return
        for line in data.splitlines():
            try:
                self._keep(PastCall(**orjson.loads(line)))
            except (orjson.JSONDecodeError, TypeError):
                continue  # a line that is broken, or of another program
        if len(data) > _COMPACT_ABOVE:
            kept = (call for calls in self._calls.values() for call in calls)
            self._write(sorted(kept, key=lambda call: call.time), private_files.write)

    def _keep(self, call: PastCall) -> None:
        self._calls.setdefault((call.server, call.item), deque(maxlen=MAX_PER_ITEM)).append(call)

    def _write(self, calls: Iterable[PastCall], write: Callable[[Path, bytes], None]) -> None:
        if self._path is None:
            return
        try:
            write(self._path, b"".join(map(_line, calls)))
        except OSError as error:
            _log.warning("call history is kept in memory only: %s", error)
            self._path = None


def _line(call: PastCall) -> bytes:
    """The line of the file; empty for arguments that orjson cannot write, such as huge numbers."""
    try:
        return orjson.dumps(asdict(call), option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return b""


class SavedCalls:
    """Arguments by item and name. They are in memory only without a `path`, or when writing fails."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._saved: dict[str, dict[str, Any]] = {}
        """Server and item -> name -> arguments."""

    def of(self, server: str, item: str) -> dict[str, Any]:
        """Name -> arguments, the newest last."""
        self._read()
        return self._saved.get(f"{server} {item}", {})

    def add(self, server: str, item: str, name: str, arguments: Any) -> None:
        """Save arguments; those with the same name are replaced."""
        others = [(key, value) for key, value in self.of(server, item).items() if key != name]
        self._saved[f"{server} {item}"] = dict([*others, (name, arguments)][-MAX_SAVED:])
        self._write()

    def remove(self, server: str, item: str, name: str) -> None:
        """Delete saved arguments."""
        self._read()
        self._saved.get(f"{server} {item}", {}).pop(name, None)
        self._write()

    def _read(self) -> None:
        """Read the file each time: another desk may have added to it. What has another shape is ignored."""
        if self._path is None or not self._path.exists():
            return
        try:
            read = orjson.loads(self._path.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            _log.warning("saved calls cannot be read: %s", error)
            return
        entries = read.items() if isinstance(read, dict) else ()
        self._saved = {key: named for key, named in entries if isinstance(named, dict)}

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            private_files.write(self._path, orjson.dumps(self._saved, option=orjson.OPT_INDENT_2))
        except (OSError, TypeError) as error:
            _log.warning("saved calls are kept in memory only: %s", error)
            self._path = None
