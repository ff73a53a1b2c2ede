"""Calls made from the desk, kept across restarts as JSON Lines. Secrets never get here."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

MAX_PER_ITEM = 100
"""Calls of one item that are remembered."""
_COMPACT_ABOVE = 2 << 20
"""Size in bytes above which the file is rewritten with what is remembered."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PastCall:
    """One call as it ended."""

    time: float
    """Unix time in seconds."""
    server: str
    item: str
    """Kind and name: `tool user-profile`."""
    arguments: Any
    status: str
    elapsed_s: float


class History:
    """Newest first, per item. `path` None keeps it in memory only, as does a file that cannot be written."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._calls: dict[tuple[str, str], deque[PastCall]] | None = None

    def of(self, server: str, item: str) -> list[PastCall]:
        """Calls of one item, newest first."""
        return list(reversed(self._loaded().get((server, item), ())))

    def add(self, call: PastCall) -> None:
        """Remember a call."""
        self._keep(self._loaded(), call)
        self._write([call], "ab")

    def _loaded(self) -> dict[tuple[str, str], deque[PastCall]]:
        if self._calls is None:
            self._calls = self._read()
        return self._calls

    def _read(self) -> dict[tuple[str, str], deque[PastCall]]:
        calls: dict[tuple[str, str], deque[PastCall]] = {}
        try:
            data = self._path.read_bytes() if self._path else b""
        except OSError:
            return calls
        for line in data.splitlines():
            call = _parsed(line)
            if call is not None:
                self._keep(calls, call)
        if len(data) > _COMPACT_ABOVE:
            kept = (call for one in calls.values() for call in one)
            self._write(sorted(kept, key=lambda call: call.time), "wb")
        return calls

    def _keep(self, calls: dict[tuple[str, str], deque[PastCall]], call: PastCall) -> None:
        calls.setdefault((call.server, call.item), deque(maxlen=MAX_PER_ITEM)).append(call)

    def _write(self, calls: list[PastCall], mode: str) -> None:
        if self._path is None:
            return
        data = b"".join(_line(call) for call in calls)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._path.open(mode) as file:
                file.write(data)
            self._path.chmod(0o600)
        except OSError as error:
            _log.warning("call history is kept in memory only: %s", error)
            self._path = None


def _line(call: PastCall) -> bytes:
    try:
        return orjson.dumps(asdict(call), option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return b""


def _parsed(line: bytes) -> PastCall | None:
    """One line, or None for what another program or half a write left there."""
    try:
        return PastCall(**orjson.loads(line))
    except (orjson.JSONDecodeError, TypeError):
        return None
