"""Arguments a person keeps under a name, per item, in a file of their own. Secrets never get here."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from mcpdesk.tui.render.json_text import preview, same
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

FILE_NAME = "saved-calls.json"
MOST = 50
"""Names kept of one item; the oldest go first."""
_log = logging.getLogger(__name__)

Kept = dict[str, dict[str, Any]]
"""Server and item -> name -> arguments."""


class SavedCalls:
    """`path` None keeps them in memory only, as does a file that cannot be written."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: Kept = {}

    def of(self, server: str, item: str) -> Mapping[str, Any]:
        """Name -> arguments, the newest last."""
        return self._read().get(_key(server, item), {})

    def add(self, server: str, item: str, name: str, arguments: Any) -> None:
        """Keep arguments; those of the same name are replaced."""
        kept = self._read()
        named = {key: value for key, value in kept.get(_key(server, item), {}).items() if key != name}
        named[name] = arguments
        kept[_key(server, item)] = dict(list(named.items())[-MOST:])
        self._write(kept)

    def remove(self, server: str, item: str, name: str) -> None:
        """Keep it no longer."""
        kept = self._read()
        kept.get(_key(server, item), {}).pop(name, None)
        self._write(kept)

    def _read(self) -> Kept:
        """Those of the file, as another desk may have added to it; else those in memory."""
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
    """Ends with what to do (`use`, `keep`, `drop`) and the name to do it with."""
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
    """What has the shape of saved calls; the rest is passed over."""
    if not isinstance(read, dict):
        return {}
    return {str(key): named for key, named in read.items() if isinstance(named, dict)}
