"""Large frames that are almost JSON. To read one takes up to half a microsecond a byte: threads do that."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame, read_strictly

OnFrame: TypeAlias = Callable[[bytes, ReadFrame | None], None]
"""Receives a frame, and its content if that was read already."""


async def read_apart(data: bytes, *, is_line: bool = False) -> ReadFrame:
    """Read a frame as `read_frame` does; on a thread if that takes long, so that other calls go on."""
    if len(data) <= QUICK_BYTES:
        return read_frame(data, is_line=is_line)
    read = read_strictly(data, is_line=is_line)
    return read if read is not None else await asyncio.to_thread(read_frame, data, is_line=is_line)


class FrameLane:
    """Hands on the frames of a program in the order they came, while a large one is read on a thread.

    The program's output is not taken in the meantime: no more than one piece of it waits here.
    """

    def __init__(self, hand_on: OnFrame, pause: Callable[[bool], None]) -> None:
        """`pause` stops taking the output, or resumes it."""
        self._hand_on, self._pause = hand_on, pause
        self._waiting: deque[bytes] = deque()
        self._reading: asyncio.Task[None] | None = None

    def put(self, frame: bytes) -> None:
        """Hand on a frame, once those before it are read."""
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
        """Call a function once no frame waits."""
        if self._reading is None:
            function()
        else:
            self._reading.add_done_callback(lambda _: function())

    async def _read(self) -> None:
        try:
            while self._waiting:
                frame = self._waiting.popleft()
                self._hand_on(frame, await read_apart(frame, is_line=True))
        finally:
            self._reading = None
            self._pause(False)
