"""A result with a picture and a line of text."""

import struct
import zlib
from typing import Annotated, Any

from mcpdesk import Meta, image, text, tool

SIDE = 64


@tool(read_only=True, idempotent=True)
async def swatch(
    colour: Annotated[
        str, Meta(pattern="^#[0-9a-fA-F]{6}$", description="Colour as in HTML, such as #3366cc.")
    ] = "#3366cc",
) -> list[dict[str, Any]]:
    """Draw a square of one colour."""
    row = b"\0" + bytes.fromhex(colour[1:]) * SIDE
    return [text(f"{colour}, {SIDE} x {SIDE} pixels"), image(_png(row * SIDE), "image/png")]


def _png(rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
