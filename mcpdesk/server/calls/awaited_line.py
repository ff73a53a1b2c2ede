"""Where a running call stands: the author's line it awaits, through coroutines and threads."""

from __future__ import annotations

import faulthandler
import linecache
import re
from asyncio import Task
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from types import CoroutineType, GeneratorType
from typing import Any

from mcpdesk.server.calls.worker_threads import WORKERS

DEEPEST = 200
"""Coroutines that are followed, each awaited by the one before."""
_THREAD = re.compile(rb"hread 0x0*([0-9a-f]+)[^\n]*\n((?:  File [^\n]*\n)*)")
_LINE = re.compile(r'  File "(.*)", line (\d+) in ')

Place = tuple[str, int]
"""A file and a line of it, counted from 1."""


def awaited_line(task: Task[Any] | None, folder: Path | None) -> str:
    """The innermost line of the folder that a task awaits, `tools/slow.py:14 · await fetch(url)`.

    Empty when the call does not run, or in no code of the folder. From any thread.
    """
    if task is None or folder is None:
        return ""
    places = list(_awaited(task.get_coro()))
    if thread_id := WORKERS.thread_of(task):
        places += _in_thread(thread_id)
    own = [place for place in places if Path(place[0]).is_relative_to(folder)]
    if not own:
        return ""
    file, line = own[-1]
    linecache.checkcache(file)
    code = linecache.getline(file, line).strip()
    return f"{Path(file).relative_to(folder)}:{line}{f' · {code}' if code else ''}"


def _awaited(waiting: Any) -> Iterator[Place]:
    """Where a coroutine stands, then the one it awaits, down to what is no coroutine."""
    for _ in range(DEEPEST):
        if isinstance(waiting, CoroutineType):
            frame, waiting = waiting.cr_frame, waiting.cr_await
        elif isinstance(waiting, GeneratorType):
            frame, waiting = waiting.gi_frame, waiting.gi_yieldfrom
        else:
            return
        if frame is not None:  # else it ended at this moment
            yield frame.f_code.co_filename, frame.f_lineno or 0


def _in_thread(thread_id: int) -> Iterator[Place]:
    """Where a thread stands, its innermost line last. Only `faulthandler` says that in public."""
    with TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        told = file.read()
    stacks = {int(number, 16): stack for number, stack in _THREAD.findall(told)}
    for line in reversed(stacks.get(thread_id, b"").decode("unicode_escape").splitlines()):
        if found := _LINE.match(line):
            yield found[1], int(found[2])
