"""Files of grids: the numbers in NumPy's format, and a description in a JSON file. NumPy is not needed."""

from __future__ import annotations

import ast
import json
import math
import os
import stat
import struct
import sys
from array import array
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NoReturn

MAGIC = b"\x93NUMPY"
ARRAY_CODES = {
    "f4": "f", "f8": "d", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q",
}  # fmt: skip
"""Type code of Python's `array` by NumPy's type code."""
MAX_CELLS = 16_000_000
MAX_BYTES = 512 << 20
"""Maximum size of a file that is read."""


@dataclass
class Extent:
    """Title, unit and edges of a grid on a map, in degrees. An edge is None if the grid is not on a map."""

    title: str = ""
    unit: str = ""
    west: float | None = None
    east: float | None = None
    south: float | None = None
    north: float | None = None


@dataclass
class Grid:
    """Rows of numbers. The first row is the northern one. A cell without a value is NaN."""

    width: int
    height: int
    values: array[float]
    extent: Extent = field(default_factory=Extent)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the greatest value. End the program if no cell has a value."""
        finite_values = [value for value in self.values if math.isfinite(value)]
        if not finite_values:
            stop("the grid has no value that is a number")
        return min(finite_values), max(finite_values)

    def summary(self) -> str:
        """Describe the grid in one line."""
        low, high = self.range()
        finite_values = [value for value in self.values if math.isfinite(value)]
        mean = math.fsum(finite_values) / len(finite_values)
        unit = f" {self.extent.unit}" if self.extent.unit else ""
        return f"{self.width} x {self.height} values, {low:.4g} to {high:.4g}{unit}, mean {mean:.4g}"


def stop(reason: str) -> NoReturn:
    """End the program with a reason on stderr."""
    sys.exit(f"{Path(sys.argv[0]).name}: {reason}")


def report(progress: float, total: float, message: str) -> None:
    """Print the progress as a line of JSON."""
    print(json.dumps({"progress": progress, "total": total, "message": message}), flush=True)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file. Devices and pipes are refused, because they may have no end."""
    try:
        # With O_NONBLOCK, opening a pipe does not wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                stop(f"{path} is not a regular file")
            data = file.read(MAX_BYTES + 1) if status.st_size <= MAX_BYTES else b""
    except OSError as error:
        stop(f"{path} cannot be read: {error.strerror}")
    if max(status.st_size, len(data)) > MAX_BYTES:
        stop(f"{path} has more than {MAX_BYTES:,} bytes")
    return data


def read_grid(path: Path) -> Grid:
    """Return the grid in a .npy file, with its description from the JSON file if this file exists."""
    data = read_file(path)
    if data[:6] != MAGIC or len(data) < 12:
        stop(f"{path} is not a .npy file")
    is_version_1 = data[6] == 1
    (header_size,) = struct.unpack_from("<H" if is_version_1 else "<I", data, 8)
    header_start = 10 if is_version_1 else 12
    body_start = header_start + header_size
    try:
        header = ast.literal_eval(data[header_start:body_start].decode("latin-1"))
        byte_order = header["descr"][0]
        code = ARRAY_CODES[header["descr"][1:]]
        shape = tuple(header["shape"])
        is_fortran = header["fortran_order"]
    except (ValueError, SyntaxError, KeyError, TypeError) as error:
        stop(f"{path} does not contain plain numbers: {error}")
    if len(shape) != 2 or is_fortran or not 0 < math.prod(shape) <= MAX_CELLS:
        stop(f"{path} has the shape {shape}; it must have rows and columns, and at most {MAX_CELLS:,} cells")
    cells = array(code)
    body = data[body_start:]
    if len(body) < math.prod(shape) * cells.itemsize:
        stop(f"{path} is cut off")
    cells.frombytes(body[: math.prod(shape) * cells.itemsize])
    if byte_order == ">" or (byte_order == "=" and sys.byteorder == "big"):
        cells.byteswap()
    return Grid(shape[1], shape[0], array("d", cells), read_extent(path))


def write_grid(path: Path, grid: Grid) -> None:
    """Write a grid as .npy (32-bit numbers), and its description to a JSON file."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({grid.height}, {grid.width}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    cells = array("f", grid.values)
    if sys.byteorder == "big":
        cells.byteswap()
    try:
        with path.open("wb") as file:
            file.write(MAGIC + b"\x01\x00" + struct.pack("<H", len(header)) + header.encode("latin-1"))
            file.write(cells.tobytes())
        description_path(path).write_text(
            json.dumps(asdict(grid.extent), ensure_ascii=False, indent=1) + "\n", "utf-8"
        )
    except OSError as error:
        stop(f"{path} cannot be written: {error.strerror}")


def description_path(path: Path) -> Path:
    """Return the path of a grid's description."""
    return path.with_name(path.name + ".json")


def read_extent(path: Path) -> Extent:
    """Return the description of a grid, or an empty one if the file is missing or invalid."""
    try:
        members = json.loads(description_path(path).read_text("utf-8"))
        return Extent(**{key: members[key] for key in Extent.__dataclass_fields__ if key in members})
    except (OSError, ValueError, TypeError):
        return Extent()
