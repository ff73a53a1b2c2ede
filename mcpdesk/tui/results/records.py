"""Lists of objects in a result: finding, sorting, CSV and Markdown. This module depends on no widget."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mcpdesk.tui.render.json_text import Path, compact

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Records:
    """List of objects."""

    rows: Sequence[Record]
    columns: tuple[str, ...]
    """All keys, in the order of their first occurrence."""
    path: Path
    """Path of the list in its value."""
    is_structured: bool
    """True if the value is the structured content, False if it is a JSON text."""


def records_of(structured: Any, values: Sequence[Any]) -> Records | None:
    """Return the list of objects that a result contains, or None if it contains no such list or several.

    `structured` is the structured content, or None. `values` are the values of the JSON texts. If there are
    several texts, each must be one object of the list.
    """
    if structured is not None:
        return _find_records(structured, is_structured=True)
    if len(values) == 1:
        return _find_records(values[0], is_structured=False)
    return _records(values, (), is_structured=False) if _is_list_of_objects(list(values)) else None


def _find_records(value: Any, *, is_structured: bool) -> Records | None:
    """Return a value that is a list of objects, or else the only such list in the members of an object."""
    if _is_list_of_objects(value):
        return _records(value, (), is_structured=is_structured)
    if not isinstance(value, dict):
        return None
    list_keys = [key for key, member in value.items() if _is_list_of_objects(member)]
    if len(list_keys) != 1:
        return None
    return _records(value[list_keys[0]], (list_keys[0],), is_structured=is_structured)


def _records(rows: Sequence[Record], path: Path, *, is_structured: bool) -> Records:
    return Records(rows, tuple(dict.fromkeys(key for row in rows for key in row)), path, is_structured)


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and item for item in value)


def cell(record: Record, column: str) -> str:
    """Return the text of one value, or "" if it is missing or null."""
    value = record.get(column)
    return value if isinstance(value, str) else "" if value is None else compact(value)


def sorted_rows(rows: Iterable[int], records: Records, column: str, *, is_descending: bool) -> list[int]:
    """Return `rows`, which are indexes of records, sorted by a column. Records without a value are last.

    Numbers come before texts, each in ascending order. With `is_descending`, this order is reversed.
    """
    ranked_rows = [(_rank(records.rows[row].get(column)), row) for row in rows]
    rows_with_value = [ranked_row for ranked_row in ranked_rows if ranked_row[0][0] < _MISSING_RANK]
    rows_with_value.sort(key=lambda ranked_row: ranked_row[0], reverse=is_descending)
    return [row for _, row in rows_with_value] + [
        row for rank, row in ranked_rows if rank[0] == _MISSING_RANK
    ]


_MISSING_RANK = 2
"""First member of the rank of a missing value."""


def _rank(value: Any) -> tuple[int, float, str]:
    if value is None:
        return _MISSING_RANK, 0, ""
    if isinstance(value, int | float) and not math.isnan(value):
        return 0, value, ""
    return 1, 0, (value if isinstance(value, str) else compact(value)).casefold()


def as_csv(rows: Iterable[Record], columns: Sequence[str]) -> str:
    """Format records as CSV with a header. Nested values are written as JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([cell(row, column) for column in columns] for row in rows)
    return text.getvalue()


def as_table(rows: Iterable[Record], columns: Sequence[str]) -> str:
    """Format records as a Markdown table."""
    lines = [columns, ["---"] * len(columns), *([cell(row, column) for column in columns] for row in rows)]
    return "\n".join("| " + " | ".join(_table_cell(text) for text in line) + " |" for line in lines) + "\n"


def _table_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
