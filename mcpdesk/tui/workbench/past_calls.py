"""Past calls, and arguments saved under a name, in two files. Callers remove secrets first."""

from __future__ import annotations

import json
import logging
from collections import deque
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from mcpdesk import private_files
from mcpdesk.protocol import codec

MAX_CALLS_PER_ITEM = 100
"""Maximum number of stored calls of one item."""
MAX_SAVED_CALLS = 50
"""Maximum number of saved calls of one item. The oldest calls are deleted first."""
SAVED_CALLS_FILE = "saved-calls.json"
_MAX_FILE_BYTES = 2 << 20
"""Size in bytes above which the file of calls is rewritten, without the calls that are no longer stored."""
_log = logging.getLogger(__name__)


class PastCall(Struct, frozen=True):
    """Call that has ended."""

    time: float
    """Unix time in seconds."""
    server: str
    item: str
    """Kind and name: `tool user-profile`."""
    arguments: Any
    status: str
    elapsed_s: float


class DeskFile:
    """Private file of the desk.

    Without a path, or after a failed write, the file is neither read nor written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """Return the contents, or None if the file cannot be read."""
        try:
            return None if self._path is None else self._path.read_bytes()
        except OSError:
            return None

    def write(self, data: bytes, *, append: bool = False) -> None:
        """Replace the contents, or append to them."""
        if self._path is None:
            return
        try:
            (private_files.append if append else private_files.write)(self._path, data)
        except OSError as error:
            _log.warning("%s is kept in memory only: %s", self._path.name, error)
            self._path = None


class History:
    """Calls of each item, in a file or, without a `path`, in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = DeskFile(path)
        self._calls: dict[tuple[str, str], deque[PastCall]] = {}
        self._is_read = False

    def of(self, server: str, item: str) -> list[PastCall]:
        """Return the calls of one item, newest first."""
        self._read()
        return list(reversed(self._calls.get((server, item), ())))

    def add(self, call: PastCall) -> None:
        """Append a call."""
        self._read()
        self._add(call)
        self._file.write(_line(call), append=True)

    def _read(self) -> None:
        """Read the file when a call is first needed."""
        if self._is_read:
            return
        self._is_read = True
        data = self._file.read() or b""
        for line in data.splitlines():
            try:
                self._add(PastCall(**orjson.loads(line)))
            except (orjson.JSONDecodeError, TypeError):
                continue  # skip a damaged line, or one with other fields
        if len(data) > _MAX_FILE_BYTES:
            calls_of_all_items = (call for calls in self._calls.values() for call in calls)
            self._file.write(b"".join(map(_line, sorted(calls_of_all_items, key=lambda call: call.time))))

    def _add(self, call: PastCall) -> None:
        self._calls.setdefault((call.server, call.item), deque(maxlen=MAX_CALLS_PER_ITEM)).append(call)


def _line(call: PastCall) -> bytes:
    """Return a call as a line of the file, or no bytes if orjson cannot write the arguments, such as huge
    numbers.
    """
    try:
        return codec.dumps(asdict(call), option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return b""


class SavedCalls:
    """Arguments by item and name, in a file or, without a `path`, in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = DeskFile(path)
        self._arguments_by_item: dict[str, dict[str, Any]] = {}
        """Server and item, separated by a space -> name -> arguments."""

    def of(self, server: str, item: str) -> dict[str, Any]:
        """Return name -> arguments, the newest last."""
        self._read()
        return self._arguments_by_item.get(f"{server} {item}", {})

    def add(self, server: str, item: str, name: str, arguments: Any) -> None:
        """Save arguments. Arguments with the same name are replaced."""
        other_calls = [entry for entry in self.of(server, item).items() if entry[0] != name]
        newest_calls = [*other_calls, (name, arguments)][-MAX_SAVED_CALLS:]
        self._arguments_by_item[f"{server} {item}"] = dict(newest_calls)
        self._write()

    def remove(self, server: str, item: str, name: str) -> None:
        """Delete saved arguments."""
        self._read()
        self._arguments_by_item.get(f"{server} {item}", {}).pop(name, None)
        self._write()

    def _read(self) -> None:
        """Read the file each time, because another desk may have changed it. Invalid entries are ignored."""
        data = self._file.read()
        if data is None:
            return
        try:
            document = json.loads(data)
        except ValueError as error:
            _log.warning("the file of saved calls is not valid JSON: %s", error)
            return
        entries = document.items() if isinstance(document, dict) else ()
        self._arguments_by_item = {
            key: arguments for key, arguments in entries if isinstance(arguments, dict)
        }

    def _write(self) -> None:
        self._file.write(json.dumps(self._arguments_by_item, indent=2).encode())
