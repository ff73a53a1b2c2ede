"""Ranges and names of what is downloaded."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from threading import Event

import pytest
from aiohttp import web

from mcpdesk.jobs.downloads import Download
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.connections import HttpConnections
from mcpdesk.transports.http.download import Source, Span, disposition, send, wanted
from tests.support.desk import until
from tests.support.patience import WITHIN_S


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-9", Span(0, 10)),
        ("bytes=90-", Span(90, 10)),
        ("bytes=90-1000", Span(90, 10)),
        ("bytes=-10", Span(90, 10)),
        ("bytes=-1000", Span(0, 100)),
        ("Bytes = 5 - 5", Span(5, 1)),
        ("bytes=100-", Span(100, 0)),
        ("bytes=500-600", Span(500, 0)),
        ("bytes=-0", Span(100, 0)),
    ],
)
def test_a_range_is_cut_to_what_there_is(header: str, span: Span) -> None:
    assert wanted(header, 100) == span


@pytest.mark.parametrize(
    "header",
    [
        "",
        "bytes=-",
        "bytes=9-5",
        "bytes=a-b",
        "items=0-5",
        "bytes=0-1,5-6",
        "bytes=0-" + "9" * 40,
        "bytes=٣-",
    ],
)
def test_what_is_no_single_range_is_answered_by_the_whole(header: str) -> None:
    assert wanted(header, 100) is None


def test_a_range_of_nothing_but_room_is_read_over_once() -> None:
    began = time.process_time()
    assert wanted(f"bytes={' ' * 100_000}x", 100) is None
    assert time.process_time() - began < WITHIN_S


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_is_taken_of_an_empty_file(size: int) -> None:
    assert wanted("bytes=0-0", size) == Span(0, size)
    assert wanted("bytes=-5", size) == Span(0, size)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("heat.png", 'attachment; filename="heat.png"'),
        ("heat map (1).png", 'attachment; filename="heat map (1).png"'),
        ("wärme.png", "attachment; filename=\"w_rme.png\"; filename*=UTF-8''w%C3%A4rme.png"),
        ('a"b\r\nX: y', "attachment; filename=\"a_b__X_ y\"; filename*=UTF-8''a%22b%0D%0AX%3A%20y"),
        ("..\\a", "attachment; filename=\".._a\"; filename*=UTF-8''..%5Ca"),
        ("", "attachment; filename=\"file\"; filename*=UTF-8''"),
    ],
)
def test_a_name_cannot_leave_its_header(name: str, header: str) -> None:
    assert disposition(name) == header


async def test_a_file_stays_open_until_a_read_nobody_waits_for_any_more_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"0123456789")
    descriptor = os.open(path, os.O_RDONLY)
    begun, go_on = Event(), Event()
    pread, seen, serving = os.pread, list[bytes](), list[asyncio.Task[None] | None]()

    def slow(descriptor: int, length: int, position: int) -> bytes:
        begun.set()
        go_on.wait(WITHIN_S)
        seen.append(pread(descriptor, length, position))
        return seen[-1]

    def is_open() -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), path.stat())
        except OSError:
            return False

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        serving.append(asyncio.current_task())
        return await send(request, Download(descriptor, 10, "large", "text/plain", "tag"))

    monkeypatch.setattr(os, "pread", slow)
    handler = HttpConnections(handle, Rules)
    server = await asyncio.get_running_loop().create_server(handler, "127.0.0.1", 0)
    _, client = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        client.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await until(begun.is_set)
        (task,) = serving
        assert task is not None
        task.cancel()
        await asyncio.wait({task})
        assert is_open()
        go_on.set()
        await until(lambda: not is_open())
        assert seen == [b"0123456789"]
    finally:
        go_on.set()
        client.close()
        server.close()
        await handler.close(1)


def test_a_read_that_begins_after_its_file_was_closed_reads_nothing(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"another file's")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        source = Source(os.dup(descriptor))
        assert source.read(7, 0) == b"another"
        source.close()
        assert source.read(7, 0) == b""
    finally:
        os.close(descriptor)
