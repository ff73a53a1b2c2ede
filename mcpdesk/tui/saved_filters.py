"""Filters of the traffic a person keeps, one a line in a file of their own."""

from __future__ import annotations

import logging
from pathlib import Path

from mcpdesk.tui.widgets.menu import Choice, Menu

FILE_NAME = "filters.txt"
MOST = 50
"""Filters that are kept; the oldest go first."""
_LONGEST = 1_000
_log = logging.getLogger(__name__)


class SavedFilters:
    """Newest first. `path` None keeps them in memory only, as does a file that cannot be written."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: list[str] = []

    def all(self) -> list[str]:
        """Those of the file, as another desk may have added to it; else those in memory."""
        if self._path is not None:
            try:
                lines = self._path.read_text("utf-8", "replace").splitlines()
            except OSError:
                lines = []
            self._kept = [line for line in lines if line.strip() and len(line) <= _LONGEST][:MOST]
        return list(self._kept)

    def add(self, query: str) -> None:
        """Keep a filter as the newest."""
        query = " ".join(query.split())
        self._write([query, *(one for one in self.all() if one != query)][:MOST])

    def remove(self, query: str) -> None:
        """Keep it no longer."""
        self._write([one for one in self.all() if one != query])

    def _write(self, kept: list[str]) -> None:
        self._kept = kept
        if self._path is None:
            return
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh.write_text("".join(f"{one}\n" for one in kept), "utf-8")
            fresh.chmod(0o600)
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("filters are kept in memory only: %s", error)
            self._path = None


def filters_menu(saved: SavedFilters, current: str) -> Menu:
    """Ends with what to do (`use`, `keep`, `drop`) and the filter to do it with."""
    current = " ".join(current.split())
    kept = saved.all()
    choices = [Choice(one, ("use", one), "in use" if one == current else "") for one in kept]
    if current and current not in kept:
        choices.insert(0, Choice(f"keep {current}", ("keep", current), "for later", "K"))
    elif current:
        choices.append(Choice(f"drop {current}", ("drop", current), "from this list", "D"))
    if not choices:
        choices = [Choice("nothing is kept", ("use", ""), "type a filter with /, then come back", "")]
    return Menu("Filters", choices)
