"""Parsing of large frames that are not valid JSON. It runs on a thread.

Lenient parsing takes up to half a microsecond per byte and would delay other calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from mcpdesk.errors import CallError
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame, read_strictly

OnFrame: TypeAlias = Callable[[bytes, ReadFrame | None], None]
"""Receives a frame, and its content if it was already read."""


async def read_apart(data: bytes, *, is_line: bool = False) -> ReadFrame:
    """Read a frame like `read_frame`, but on a thread if it is large and not valid JSON."""
    if len(data) <= QUICK_BYTES:
        return read_frame(data, is_line=is_line)
    read = read_strictly(data, is_line=is_line)
    return read if read is not None else await asyncio.to_thread(read_frame, data, is_line=is_line)


def hand_on(on_frame: OnFrame, frame: bytes, read: ReadFrame | None) -> None:
    """Pass on a frame. An unexpected failure is reported to the loop, because frames after it must not wait.

    Raises: CallError from `on_frame`.
    """
    try:
        on_frame(frame, read)
    except CallError:
        raise
    except Exception as error:  # a bug in a receiver
        report_failure(error)


def report_failure(error: Exception) -> None:
    """Report to the loop that a frame could not be passed on."""
    text = "a frame could not be passed on"
    asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})


class FrameLane:
    """Passes on the frames of a program in order, while a large one is read on a thread.

    Reading the program's output is paused in the meantime, so that at most one piece of output is queued
    here.
    """

    def __init__(self, hand_on: OnFrame, pause: Callable[[bool], None]) -> None:
        """`pause` pauses reading the output, or resumes it."""
        self._hand_on, self._pause = hand_on, pause
        self._waiting: deque[bytes] = deque()
        self._reading: asyncio.Task[None] | None = None

    def put(self, frame: bytes) -> None:
        """Pass on a frame after the frames before it."""
        if self._reading is not None:
            self._waiting.append(frame)
        elif len(frame) <= QUICK_BYTES:
            self._hand_on(frame, None)
        elif (read := read_strictly(frame, is_line=True)) is not None:
            self._hand_on(frame, read)
        else:
            self._waiting.append(frame)
            self._pause(True)
            self._reading = asyncio.get_running_loop().create_task(self._read())

    def when_empty(self, function: Callable[[], None]) -> None:
        """Call a function once the queue is empty."""
        if self._reading is None:
            function()
        else:
            self._reading.add_done_callback(lambda _: function())

    async def _read(self) -> None:
        try:
            while self._waiting:
                frame = self._waiting.popleft()
                read = await read_apart(frame, is_line=True)
                try:
                    self._hand_on(frame, read)
                except Exception as error:  # frames after it must not wait, nor overtake each other
                    report_failure(error)
        finally:
            self._reading = None
            self._pause(False)
