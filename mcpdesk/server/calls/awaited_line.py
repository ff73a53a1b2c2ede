"""Source line that a running call awaits. It is found through coroutines, tasks and threads."""

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
Place = tuple[str, int]
"""File and line number, counted from 1."""


def awaited_line(task: Task[Any] | None, folder: Path | None) -> str:
    """Return the innermost line of the folder that a task awaits: `tools/slow.py:14 · await fetch(url)`, or
    "" if the call does not run, or runs no code of the folder. May be called on any thread.
    """
    if task is None or folder is None:
        return ""
    own = _author_positions(task, folder, {task})
    if not own:
        return ""
    file, line = own[-1]
    linecache.checkcache(file)
    code = linecache.getline(file, line).strip()
    return f"{Path(file).relative_to(folder)}:{line}{f' · {code}' if code else ''}"


def _author_positions(task: Task[Any], folder: Path, seen: set[Task[Any]]) -> list[Place]:
    """Return the lines of the folder that a task executes, innermost last. `seen` has the tasks that were
    already examined.
    """
    frames, waiting = _awaited(task.get_coro())
    places = [(frame.f_code.co_filename, frame.f_lineno or 0) for frame in frames]
    if thread_id := WORKERS.thread_of(task):
        places += _in_thread(thread_id)
    own = [position for position in places if Path(position[0]).is_relative_to(folder)]
    if len(seen) < MAX_CHAIN_LENGTH:
        handler = LOOP_TASKS.get(task)
        behind = _tasks_behind([waiting, *_waited_for(frames)])
        for other in behind if handler is None else (handler, *behind):
            if other not in seen and not other.done():
                seen.add(other)
                if inner := _author_positions(other, folder, seen):
                    return own + inner
    return own


def _awaited(waiting: Any) -> tuple[list[FrameType], Any]:
    """Return the frames of a coroutine and of those it awaits, and the object awaited last."""
    frames = list[FrameType]()
    for _ in range(MAX_CHAIN_LENGTH):
        if isinstance(waiting, CoroutineType):
            frame, waiting = waiting.cr_frame, waiting.cr_await
        elif isinstance(waiting, GeneratorType):
            frame, waiting = waiting.gi_frame, waiting.gi_yieldfrom
        else:
            break
        if frame is not None:  # otherwise the coroutine has just ended
            frames.append(frame)
    return frames, waiting


def _waited_for(frames: Sequence[FrameType]) -> list[Any]:
    """Return local variables of the innermost asyncio frames, for example a task group or futures."""
    inner = takewhile(
        lambda frame: frame.f_globals.get("__name__", "").startswith("asyncio."), reversed(frames)
    )
    return [value for frame in inner for value in frame.f_locals.values()]


def _tasks_behind(roots: Sequence[Any]) -> Iterator[Task[Any]]:
    """Yield the tasks that an object waits for, in a future, in gathered futures or in a task group."""
    level = list(roots)
    for _ in range(_MAX_LEVELS):
        below = list[Any]()
        for one in level:
            if isinstance(one, Task):
                yield one
            elif isinstance(one, _FOLLOWED_TYPES) or type(one).__name__ == "FutureIter":
                below += gc.get_referents(one)[:MAX_CHAIN_LENGTH]
        level = below
    yield from (one for one in level if isinstance(one, Task))


def _in_thread(thread_id: int) -> Iterator[Place]:
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
