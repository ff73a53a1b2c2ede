"""process-grid-csv: measurements at scattered places become a grid, by inverse distance weighting."""

from __future__ import annotations

import argparse
import csv
import io
import math
from array import array
from pathlib import Path
from typing import NamedTuple

from grids import Extent, Grid, read_file, report, stop, write_grid

MARGIN = 0.04
"""Around the outermost places, as a share of their distance."""


class Station(NamedTuple):
    """One measurement."""

    x: float
    y: float
    value: float


def stations(path: Path, column: str) -> list[Station]:
    """The rows of a file with `longitude`, `latitude` and the column that is asked for."""
    data = read_file(path)
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        needed = ("longitude", "latitude", column)
        missing = [name for name in needed if name not in (rows.fieldnames or ())]
        if missing:
            stop(f"{path} has no column {missing[0]!r}; it has {', '.join(rows.fieldnames or ())}")
        found = [
            Station(*(float(row[name]) for name in needed))
            for row in rows
            if all((row[name] or "").strip() for name in needed)
        ]
    except (ValueError, csv.Error) as error:
        stop(f"{path}: {error}")
    if len(found) < 3:
        stop(f"{path} has {len(found)} measurements of {column}; at least 3 are needed")
    return found


def edges(places: list[float]) -> tuple[float, float]:
    """Between which values a side of the grid goes."""
    margin = max((max(places) - min(places)) * MARGIN, 0.01)
    return min(places) - margin, max(places) + margin


def gridded(found: list[Station], width: int, height: int, power: float) -> Grid:
    """The grid, row by row from the north; each row is reported."""
    west, east = edges([each.x for each in found])
    south, north = edges([each.y for each in found])
    narrow = math.cos(math.radians((south + north) / 2))
    cells = array("d")
    for row in range(height):
        y = north - (row + 0.5) * (north - south) / height
        for column in range(width):
            x = west + (column + 0.5) * (east - west) / width
            total = weights = 0.0
            for each in found:
                squared = ((each.x - x) * narrow) ** 2 + (each.y - y) ** 2
                weight = 1 / max(squared, 1e-9) ** (power / 2)
                total += each.value * weight
                weights += weight
            cells.append(total / weights)
        report(row + 1, height, f"row {row + 1} of {height}")
    return Grid(width, height, cells, Extent(west=west, east=east, south=south, north=north))


def main() -> None:
    """Read, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--column", default="temperature")
    parser.add_argument("--unit", default="")
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=90)
    parser.add_argument("--power", type=float, default=2.5)
    parser.add_argument("input")
    arguments = parser.parse_args()
    found = stations(Path(arguments.input), arguments.column)
    grid = gridded(found, arguments.columns, arguments.rows, arguments.power)
    grid.extent.title = f"{arguments.column.capitalize()} at {len(found)} places"
    grid.extent.unit = arguments.unit
    write_grid(Path(arguments.output), grid)
    print(f"{len(found)} measurements: {grid.summary()}")


if __name__ == "__main__":
    main()
