"""process-decode-grib2: converts a field of a GRIB2 file (WMO FM 92, simple packing) to a grid."""

from __future__ import annotations

import argparse
import ipaddress
import math
import socket
import struct
import urllib.parse
import urllib.request
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from grids import MAX_CELLS, Extent, Grid, read_file, report, stop, write_grid

PARAMETERS = {
    (0, 0, 0): ("Temperature", "K"), (0, 0, 6): ("Dew point", "K"), (0, 1, 1): ("Relative humidity", "%"),
    (0, 1, 8): ("Total precipitation", "kg/m²"), (0, 2, 1): ("Wind speed", "m/s"),
    (0, 2, 2): ("Wind, eastward", "m/s"), (0, 2, 3): ("Wind, northward", "m/s"),
    (0, 3, 0): ("Pressure", "Pa"), (0, 3, 1): ("Pressure at sea level", "Pa"),
    (0, 3, 5): ("Geopotential height", "gpm"), (0, 6, 1): ("Cloud cover", "%"),
    (10, 0, 3): ("Height of waves", "m"), (10, 3, 0): ("Water temperature", "K"),
}  # fmt: skip
MAX_FETCHED_BYTES = 64 << 20
"""Maximum size of a file that is loaded from a URL."""
SOUTH_FIRST, WESTWARD, BY_COLUMN = 0x40, 0x80, 0x30
"""Bits of the scanning mode: rows from the south, values from the east, values by column."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that makes every redirect an error, because the target of a redirect is not checked."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


class Lattice(NamedTuple):
    """Section 3: size and edges of the grid, in degrees."""

    width: int
    height: int
    north: float
    west: float
    south: float
    east: float
    scanning: int


class Packing(NamedTuple):
    """Section 5: packing of the values. value = (reference + packed * 2**binary) / 10**decimal."""

    count: int
    reference: float
    binary: int
    decimal: int
    bits: int


def load(location: str) -> bytes:
    """Return the content of a file, or of a public https or s3 URL."""
    if location.startswith("s3://"):
        bucket, _, key = location.removeprefix("s3://").partition("/")
        location = f"https://{bucket}.s3.amazonaws.com/{key}"
    if "://" not in location:
        return read_file(Path(location))
    parts = urllib.parse.urlsplit(location)
    if parts.scheme != "https" or not parts.hostname:
        stop(f"{location}: only files, https:// and s3:// can be read")
    try:
        addresses = {info[4][0] for info in socket.getaddrinfo(parts.hostname, 443)}
        if not all(ipaddress.ip_address(each).is_global for each in addresses):
            stop(f"{parts.hostname} is not a public host")
        with urllib.request.build_opener(NoRedirects).open(location, timeout=20) as answer:
            data: bytes = answer.read(MAX_FETCHED_BYTES + 1)
    except OSError as error:
        stop(f"{location} cannot be fetched: {error}")
    if len(data) > MAX_FETCHED_BYTES:
        stop(f"{location} has more than {MAX_FETCHED_BYTES:,} bytes")
    return data


def messages(data: bytes) -> Iterator[bytes]:
    """Yield the GRIB2 messages of a file."""
    offset = data.find(b"GRIB")
    while offset >= 0:
        if len(data) < offset + 16:
            stop("the file is cut off")
        if data[offset + 7] != 2:
            stop(f"GRIB edition {data[offset + 7]} is not supported; only edition 2 is")
        (length,) = struct.unpack_from(">Q", data, offset + 8)
        message = data[offset : offset + length]
        if len(message) < length or not message.endswith(b"7777"):
            stop("the file is cut off")
        yield message
        offset = data.find(b"GRIB", offset + length)


def sections(message: bytes) -> dict[int, bytes]:
    """Return the sections of a message by number. If the message has several fields, return those of the
    first field.
    """
    sections_by_number: dict[int, bytes] = {}
    offset = 16
    while message[offset : offset + 4] != b"7777":
        length, number = struct.unpack_from(">IB", message, offset)
        if length < 5:
            stop("a section has no length")
        sections_by_number.setdefault(number, message[offset : offset + length])
        offset += length
    return sections_by_number


def signed(value: int, bits: int) -> int:
    """Convert a number of GRIB, which has a sign bit before the absolute value."""
    sign_bit = 1 << (bits - 1)
    return -(value - sign_bit) if value & sign_bit else value


def lattice_of(section: bytes) -> Lattice:
    """Parse section 3. Only a regular grid of latitudes and longitudes is supported."""
    (template,) = struct.unpack_from(">H", section, 12)
    if template != 0:
        stop(f"grid template 3.{template} is not supported; only 3.0, regular latitudes and longitudes, is")
    # For files with the row of the south first, `decoded` exchanges the two latitudes.
    width, height, _, _, first_latitude, west, _, last_latitude, east = struct.unpack_from(
        ">IIIIIIBII", section, 30
    )
    if not 0 < width * height <= MAX_CELLS:
        stop(f"{width} x {height} values; at most {MAX_CELLS:,} are allowed")
    north = signed(first_latitude, 32) / 1e6
    south = signed(last_latitude, 32) / 1e6
    scanning = section[71]
    if scanning & BY_COLUMN:
        stop("the values are ordered by column; only rows are supported")
    return Lattice(width, height, north, signed(west, 32) / 1e6, south, signed(east, 32) / 1e6, scanning)


def packing_of(section: bytes) -> Packing:
    """Parse section 5. Only simple packing is supported."""
    count, template = struct.unpack_from(">IH", section, 5)
    if template != 0:
        stop(f"packing template 5.{template} is not supported; only 5.0, simple packing, is")
    reference, binary, decimal, bits = struct.unpack_from(">fHHB", section, 11)
    return Packing(count, reference, signed(binary, 16), signed(decimal, 16), bits)


def unpacked(data: bytes, packing: Packing) -> Iterator[float]:
    """Yield the values, and report the progress."""
    scale, shift = 2.0**packing.binary, 10.0**packing.decimal
    if packing.bits == 0:
        yield from (packing.reference / shift for _ in range(packing.count))
        return
    if len(data) * 8 < packing.count * packing.bits:
        stop("the values are cut off")
    mask = (1 << packing.bits) - 1
    buffer = bits = offset = 0
    report_interval = max(1, packing.count // 10)
    for number in range(packing.count):
        while bits < packing.bits:
            buffer = buffer << 8 | data[offset]
            bits, offset = bits + 8, offset + 1
        bits -= packing.bits
        yield (packing.reference + (buffer >> bits & mask) * scale) / shift
        buffer &= (1 << bits) - 1
        if number % report_interval == 0:
            report(10 + 80 * number / packing.count, 100, f"{number:,} of {packing.count:,} values")


def value_flags(section: bytes, cells: int) -> Iterator[bool]:
    """Yield for each cell True if it has a value. `section` is section 6, the bit map."""
    if section[5] == 255:
        yield from (True for _ in range(cells))
    elif section[5] == 0:
        yield from (bool(section[6 + cell // 8] >> (7 - cell % 8) & 1) for cell in range(cells))
    else:
        stop("the file uses a predefined bit map, which is not supported")


def decoded(message: bytes, celsius: bool) -> Grid:
    """Return the first field of a message. The first row is the northern one."""
    parts = sections(message)
    if not {3, 4, 5, 6, 7} <= parts.keys():
        stop("the message lacks a section")
    lattice, packing = lattice_of(parts[3]), packing_of(parts[5])
    name, unit = PARAMETERS.get((message[6], *parts[4][9:11]), ("Field", ""))
    values = unpacked(parts[7][5:], packing)
    cells = array("d")
    for has_value in value_flags(parts[6], lattice.width * lattice.height):
        value = next(values, math.nan) if has_value else math.nan
        cells.append(value - 273.15 if celsius and unit == "K" else value)
    width, west, east = lattice.width, lattice.west, lattice.east
    north, south = lattice.north, lattice.south
    rows = [cells[start : start + width] for start in range(0, len(cells), width)]
    if lattice.scanning & SOUTH_FIRST:
        rows.reverse()
        north, south = south, north
    if lattice.scanning & WESTWARD:
        rows = [row[::-1] for row in rows]
        west, east = east, west
    if east < west:
        east += 360
    extent = Extent(name, "°C" if celsius and unit == "K" else unit, west, east, south, north)
    return Grid(width, lattice.height, array("d", (value for row in rows for value in row)), extent)


def main() -> None:
    """Load a file, decode a message, and write the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--message", type=int, default=1)
    parser.add_argument("--celsius", action="store_true")
    arguments = parser.parse_args()
    report(0, 100, f"reading {arguments.file}")
    file_messages = list(messages(load(arguments.file)))
    count = len(file_messages)
    if not 1 <= arguments.message <= count:
        stop(f"{arguments.file} has {count} messages; message {arguments.message} does not exist")
    report(10, 100, f"decoding message {arguments.message} of {count}")
    try:
        grid = decoded(file_messages[arguments.message - 1], arguments.celsius)
    except (struct.error, IndexError) as error:
        stop(f"{arguments.file} is damaged: {error}")
    report(95, 100, "writing the grid")
    write_grid(Path(arguments.output), grid)
    report(100, 100, "done")
    print(f"{grid.extent.title}: {grid.summary()}")


if __name__ == "__main__":
    main()
