"""Calls that were made, and arguments saved under a name, in two files. Secrets are left out before."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from mcpdesk.tui.render.json_text import preview, same
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

MAX_PER_ITEM = 100
"""Calls of one item that are kept."""
_COMPACT_ABOVE = 2 << 20
"""Bytes above which the file is written again with the kept calls only."""
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
        self._calls: dict[tuple[str, str], deque[PastCall]] | None = None

    def of(self, server: str, item: str) -> list[PastCall]:
        """Calls of one item, newest first."""
        return list(reversed(self._loaded().get((server, item), ())))

    def add(self, call: PastCall) -> None:
        """Append a call."""
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
    """The call of a line; None for a line that is broken."""
    try:
        return PastCall(**orjson.loads(line))
    except (orjson.JSONDecodeError, TypeError):
        return None


FILE_NAME = "saved-calls.json"
MOST = 50
"""Saved calls of one item; the oldest are deleted first."""

Kept = dict[str, dict[str, Any]]
"""Server and item -> name -> arguments."""


class SavedCalls:
    """Arguments by item and name. They are in memory only without a `path`, or when writing fails."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: Kept = {}

    def of(self, server: str, item: str) -> Mapping[str, Any]:
        """Name -> arguments, the newest last."""
        return self._read().get(_key(server, item), {})

    def add(self, server: str, item: str, name: str, arguments: Any) -> None:
        """Save arguments; those with the same name are replaced."""
        kept = self._read()
        named = {key: value for key, value in kept.get(_key(server, item), {}).items() if key != name}
        named[name] = arguments
        kept[_key(server, item)] = dict(list(named.items())[-MOST:])
        self._write(kept)

    def remove(self, server: str, item: str, name: str) -> None:
        """Delete saved arguments."""
        kept = self._read()
        kept.get(_key(server, item), {}).pop(name, None)
        self._write(kept)

    def _read(self) -> Kept:
        """What the file holds, because another desk may have added to it; else what is in memory."""
        if self._path is not None and self._path.exists():
            try:
                self._kept = _checked(orjson.loads(self._path.read_bytes()))
            except (OSError, orjson.JSONDecodeError) as error:
                _log.warning("saved calls cannot be read: %s", error)
        return self._kept

    def _write(self, kept: Kept) -> None:
        self._kept = kept
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
            fresh.chmod(0o600)
            fresh.replace(self._path)
        except (OSError, TypeError) as error:
            _log.warning("saved calls are kept in memory only: %s", error)
            self._path = None


def saved_menu(title: str, kept: Mapping[str, Any], entered: Any) -> Menu:
    """A menu whose value is what to do (`use`, `keep`, `drop`) and the name to do it with."""
    choices = [
        Choice(one_line(name, 40), ("use", name), one_line(preview(arguments, 60)))
        for name, arguments in reversed(list(kept.items()))
    ]
    choices.append(Choice("keep what is entered …", ("keep", ""), one_line(preview(entered, 60)), "K"))
    choices += [
        Choice(f"drop {one_line(name, 40)}", ("drop", name), "is what is entered", "D")
        for name, arguments in kept.items()
        if same(arguments, entered)
    ][:1]
    return Menu(f"Saved calls of {one_line(title, 40)}", choices)


def _key(server: str, item: str) -> str:
    return f"{server} {item}"


def _checked(read: Any) -> Kept:
    """The entries of the right shape; others are ignored."""
    if not isinstance(read, dict):
        return {}
    return {str(key): named for key, named in read.items() if isinstance(named, dict)}
