"""Search for the source line that a running call awaits, through coroutines, tasks and threads."""

from __future__ import annotations

import faulthandler
import gc
import linecache
import re
from asyncio import Future, Task, TaskGroup
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryFile
from types import CoroutineType, FrameType, GeneratorType
from typing import Any

from mcpdesk.server.calls.threads.worker_threads import LOOP_TASKS, WORKERS

MAX_CHAIN_LENGTH = 200
"""Maximum length of a chain of coroutines in which each awaits the next."""
_THREAD = re.compile(rb"hread 0x0*([0-9a-f]+)[^\n]*\n((?:  File [^\n]*\n)*)")
_LINE = re.compile(r'  File "(.*)", line (\d+) in ')

_FOLLOWED_TYPES = (Future, TaskGroup, dict, list, set, tuple)
"""Types that may contain tasks."""
_MAX_LEVELS = 4
"""Maximum depth of nested containers that are searched for tasks."""
SourceLine = tuple[str, int]
"""File and line number, counted from 1."""


def awaited_line(task: Task[Any] | None, folder: Path | None) -> str:
    """Return the innermost line of the folder that a task awaits: `tools/slow.py:14 · await fetch(url)`, or
    "" if the call does not run, or runs no code of the folder. May be called on any thread.
    """
    if task is None or folder is None:
        return ""
    folder_lines = _folder_lines(task, folder, {task})
    if not folder_lines:
        return ""
    file, line = folder_lines[-1]
    linecache.checkcache(file)
    code = linecache.getline(file, line).strip()
    return f"{Path(file).relative_to(folder)}:{line}{f' · {code}' if code else ''}"


def _folder_lines(task: Task[Any], folder: Path, examined_tasks: set[Task[Any]]) -> list[SourceLine]:
    """Return the lines of the folder that a task executes, innermost last.

    `examined_tasks` are skipped. The function adds the tasks that it examines.
    """
    frames, awaited_object = _coroutine_frames(task.get_coro())
    lines = [(frame.f_code.co_filename, frame.f_lineno or 0) for frame in frames]
    if thread_id := WORKERS.thread_of(task):
        lines += _thread_lines(thread_id)
    folder_lines = [position for position in lines if Path(position[0]).is_relative_to(folder)]
    if len(examined_tasks) < MAX_CHAIN_LENGTH:
        handler = LOOP_TASKS.get(task)
        awaited_tasks = _tasks_behind([awaited_object, *_asyncio_locals(frames)])
        for awaited_task in awaited_tasks if handler is None else (handler, *awaited_tasks):
            if awaited_task not in examined_tasks and not awaited_task.done():
                examined_tasks.add(awaited_task)
                if inner_lines := _folder_lines(awaited_task, folder, examined_tasks):
                    return folder_lines + inner_lines
    return folder_lines


def _coroutine_frames(awaitable: Any) -> tuple[list[FrameType], Any]:
    """Return the frames of a coroutine and of those it awaits, and the object awaited last."""
    frames = list[FrameType]()
    for _ in range(MAX_CHAIN_LENGTH):
        if isinstance(awaitable, CoroutineType):
            frame, awaitable = awaitable.cr_frame, awaitable.cr_await
        elif isinstance(awaitable, GeneratorType):
            frame, awaitable = awaitable.gi_frame, awaitable.gi_yieldfrom
        else:
            break
        if frame is not None:  # otherwise the coroutine has just ended
            frames.append(frame)
    return frames, awaitable


def _asyncio_locals(frames: Sequence[FrameType]) -> list[Any]:
    """Return local variables of the innermost asyncio frames, for example a task group or futures."""
    asyncio_frames = takewhile(
        lambda frame: frame.f_globals.get("__name__", "").startswith("asyncio."), reversed(frames)
    )
    return [value for frame in asyncio_frames for value in frame.f_locals.values()]


def _tasks_behind(roots: Sequence[Any]) -> Iterator[Task[Any]]:
    """Yield the tasks that an object waits for, in a future, in gathered futures or in a task group."""
    level = list(roots)
    for _ in range(_MAX_LEVELS):
        next_level = list[Any]()
        for item in level:
            if isinstance(item, Task):
                yield item
            elif isinstance(item, _FOLLOWED_TYPES) or type(item).__name__ == "FutureIter":
                next_level += gc.get_referents(item)[:MAX_CHAIN_LENGTH]
        level = next_level
    yield from (item for item in level if isinstance(item, Task))


def _thread_lines(thread_id: int) -> Iterator[SourceLine]:
    """Yield the lines that a thread executes, innermost last. This parses the output of `faulthandler`,
    because no other module offers the lines of a running thread.
    """
    with TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        output = file.read()
    stacks = {int(number, 16): stack for number, stack in _THREAD.findall(output)}
    for line in reversed(stacks.get(thread_id, b"").decode("unicode_escape").splitlines()):
        if match := _LINE.match(line):
            yield match[1], int(match[2])
