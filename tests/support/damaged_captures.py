"""Captures written line by line, to be damaged or incomplete."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.capture_lines import header_line
from mcpdesk.recorder.index.traffic_index import Index

HEADER = header_line(1, 0, 1.0)
CALLED = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'


def numbered(number: int, at: str = "1.0", connection: str = "1", frame: bytes = CALLED) -> bytes:
    return b'{"n":%d,"t":%b,"c":%b,"d":"in","json":%b}\n' % (number, at.encode(), connection.encode(), frame)


def opened(path: Path, lines: Iterator[bytes] | list[bytes]) -> Archive:
    path.write_bytes(HEADER + b"".join(lines))
    return Archive(path)


def read_all(archive: Archive) -> Index:
    index = archive.index
    while index.catch_up(1):
        pass
    return index
