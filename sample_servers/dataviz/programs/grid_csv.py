"""process-grid-csv: makes a grid from measurements at scattered locations, by inverse distance weighting."""

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
"""Margin around the outermost locations, as a fraction of their distance."""


class Station(NamedTuple):
    """Measurement at a location, in degrees."""

    x: float
    y: float
    value: float


def stations(path: Path, column: str) -> list[Station]:
    """Return the measurements in a column of a file. The file also has the columns `longitude` and
    `latitude`.
    """
    data = read_file(path)
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""))
        needed = ("longitude", "latitude", column)
        missing = [name for name in needed if name not in (rows.fieldnames or ())]
        if missing:
            stop(f"{path} has no column {missing[0]!r}; it has {', '.join(rows.fieldnames or ())}")
        measurements = [
            Station(*(float(row[name]) for name in needed))
            for row in rows
            if all((row[name] or "").strip() for name in needed)
        ]
    except (ValueError, csv.Error) as error:
        stop(f"{path}: {error}")
    if len(measurements) < 3:
        stop(f"{path} has {len(measurements)} measurements of {column}; at least 3 are needed")
    return measurements


def edges(coordinates: list[float]) -> tuple[float, float]:
    """Return the minimum and the maximum of a side of the grid."""
    margin = max((max(coordinates) - min(coordinates)) * MARGIN, 0.01)
    return min(coordinates) - margin, max(coordinates) + margin


def gridded(measurements: list[Station], width: int, height: int, power: float) -> Grid:
    """Return the grid. The first row is the northern one. Each row is reported as progress."""
    west, east = edges([each.x for each in measurements])
    south, north = edges([each.y for each in measurements])
    longitude_scale = math.cos(math.radians((south + north) / 2))
    cells = array("d")
    for row in range(height):
        y = north - (row + 0.5) * (north - south) / height
        for column in range(width):
            x = west + (column + 0.5) * (east - west) / width
            total = weights = 0.0
            for each in measurements:
                squared_distance = ((each.x - x) * longitude_scale) ** 2 + (each.y - y) ** 2
                weight = 1 / max(squared_distance, 1e-9) ** (power / 2)
                total += each.value * weight
                weights += weight
            cells.append(total / weights)
        report(row + 1, height, f"row {row + 1} of {height}")
    return Grid(width, height, cells, Extent(west=west, east=east, south=south, north=north))


def main() -> None:
    """Read the measurements, compute the grid, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", required=True)
    parser.add_argument("--column", default="temperature")
    parser.add_argument("--unit", default="")
    parser.add_argument("--columns", type=int, default=120)
    parser.add_argument("--rows", type=int, default=90)
    parser.add_argument("--power", type=float, default=2.5)
    parser.add_argument("input")
    arguments = parser.parse_args()
    measurements = stations(Path(arguments.input), arguments.column)
    grid = gridded(measurements, arguments.columns, arguments.rows, arguments.power)
    grid.extent.title = f"{arguments.column.capitalize()} at {len(measurements)} locations"
    grid.extent.unit = arguments.unit
    write_grid(Path(arguments.output), grid)
    print(f"{len(measurements)} measurements: {grid.summary()}")


if __name__ == "__main__":
    main()
