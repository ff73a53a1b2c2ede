"""Conversion of files in processes of their own: their number, their memory and their time are limited."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.jobs import process
from mcpdesk.jobs.process import ProgramEnd
from mcpdesk.tools import conversion, file_reader
from mcpdesk.tools.conversion import MAX_AT_ONCE, FileLimits, converted

LARGE = b'<svg xmlns="http://www.w3.org/2000/svg" width="30000" height="30000"/>'
NOISE = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="3000" height="3000"><filter id="f">'
    b'<feTurbulence baseFrequency="0.9" numOctaves="2000"/></filter>'
    b'<rect width="3000" height="3000" filter="url(#f)"/></svg>'
)


async def test_conversions_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most, may_end = 0, 0, asyncio.Event()

    async def run(*_: Any, output: Any, **__: Any) -> ProgramEnd:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == MAX_AT_ONCE:
            may_end.set()
        await may_end.wait()
        await asyncio.sleep(0)
        running -= 1
        output.add("stdout", b"{}\nmade")
        return ProgramEnd(0, 0.0)

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(conversion, "find_spec", lambda name: name)
    made = await asyncio.gather(*(converted("svg", b"<svg/>", {}, "it") for _ in range(3 * MAX_AT_ONCE)))
    assert [each.data for each in made] == [b"made"] * 6
    assert most == MAX_AT_ONCE


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "limits", "told"),
    [
        (
            LARGE,
            FileLimits(memory_bytes=2 << 30),
            "it needs more memory to read than the 2.1 GB allowed; .*rsvg",
        ),
        (NOISE, FileLimits(seconds=1), "it took longer than 1 s to read; .*rsvg-convert"),
        (b"<svg", FileLimits(), "it is a broken SVG file: "),
    ],
)
async def test_what_exceeds_a_limit_is_not_called_broken(data: bytes, limits: FileLimits, told: str) -> None:
    pytest.importorskip("resvg_py")
    with pytest.raises(HandlerError, match=told):
        await converted("svg", data, dict(os.environ), "it", limits)


@pytest.mark.parametrize(
    ("code", "stderr", "told"),
    [
        (137, b"", "needs more memory"),
        (134, b"memory allocation of 9 bytes failed", "needs more memory"),
        (3, b"", "needs more memory"),
        (152, b"", "took longer than 30 s"),
        (139, b"", "is a broken PDF file: reading it ended with 139"),
        (1, b"no header", "is a broken PDF file: no header"),
    ],
)
async def test_the_end_of_the_process_says_why(
    code: int, stderr: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(*_: Any, output: Any, **__: Any) -> ProgramEnd:
        output.add("stderr", stderr)
        return ProgramEnd(code, 0.0)

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(conversion, "find_spec", lambda name: name)
    with pytest.raises(HandlerError, match=told):
        await converted("pdf", b"%PDF-", {}, "it")


def test_a_system_without_a_limit_of_memory_reads_files_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    limited: list[tuple[int, tuple[int, int]]] = []

    def setrlimit(kind: int, limits: tuple[int, int]) -> None:
        if kind == resource.RLIMIT_AS:
            raise ValueError("current limit exceeds maximum limit")
        limited.append((kind, limits))

    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    monkeypatch.setitem(file_reader.FORMS, "svg", lambda path: ({}, b"made"))
    assert file_reader.main("svg", str(tmp_path / "file"), str(4 << 30), "30") == 0
    assert limited == [(resource.RLIMIT_CPU, (30, 31))]
