"""Stored choice of the columns of lists: the names of the columns that the person hid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import MAX_NAME_LENGTH
from mcpdesk.tui.workbench.past_calls import DeskFile

FILE_NAME = "columns.json"


class ColumnChoices:
    """Columns that the person hid in each list, in a file or, without a `path`, in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self._file = DeskFile(path)
        self._hidden_by_list: Mapping[str, Sequence[str]] = {}

    def hidden(
        self, list_name: str, hideable: Collection[str], report: Callable[[str], None]
    ) -> frozenset[str]:
        """Return the names of the hidden columns of a list.

        `hideable` are the names of the columns that can be hidden. Other stored names, or an invalid file,
        are reported and ignored.
        """
        try:
            names = self._read().get(list_name, ())
        except msgspec.DecodeError as error:
            report(f"{FILE_NAME} is invalid and ignored: {error}. hint: choose the columns again")
            return frozenset()
        if unknown_names := [name for name in names if name not in hideable]:
            unknown_text = ", ".join(one_line(name, MAX_NAME_LENGTH) for name in unknown_names)
            report(
                f"{FILE_NAME}: {list_name} cannot hide the column {unknown_text}. "
                "hint: choose the columns again"
            )
        return frozenset(names) & frozenset(hideable)

    def hide(self, list_name: str, names: Collection[str]) -> None:
        """Store the hidden columns of a list. The choices for other lists are kept, unless they are invalid.

        Other lists are read from the file each time, because another desk may have changed them.
        """
        try:
            hidden_by_list = dict(self._read())
        except msgspec.DecodeError:
            hidden_by_list = {}
        hidden_by_list.pop(list_name, None)
        if names:
            hidden_by_list[list_name] = sorted(names)
        self._hidden_by_list = hidden_by_list
        self._file.write(msgspec.json.encode(hidden_by_list, order="sorted") + b"\n")

    def _read(self) -> Mapping[str, Sequence[str]]:
        """Return the hidden columns by list. Raises: msgspec.DecodeError if the file is invalid."""
        if (data := self._file.read()) is not None:
            self._hidden_by_list = msgspec.json.decode(data, type=dict[str, list[str]])
        return self._hidden_by_list
