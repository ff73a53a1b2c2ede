"""Parsing of large frames that are not valid JSON, on a thread.

Lenient parsing takes up to half a microsecond per byte. On the event loop, it would delay other calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from mcpdesk.errors import CallError
from mcpdesk.protocol.reading.message import QUICK_BYTES, ReadFrame, read_frame, read_strictly

OnFrame: TypeAlias = Callable[[bytes, ReadFrame | None], None]
"""Function that receives the bytes of a frame, and the parsed frame or None if the frame was not parsed
yet.
"""
FrameFault: TypeAlias = Callable[[ReadFrame], ReadFrame]
"""Function that returns a parsed frame with an added fault, which the bytes of the frame do not show."""


async def read_on_thread(data: bytes, *, is_line: bool = False) -> ReadFrame:
    """Read a frame like `read_frame`, but on a thread if it is large and not valid JSON."""
    if len(data) <= QUICK_BYTES:
        return read_frame(data, is_line=is_line)
    read = read_strictly(data, is_line=is_line)
    return read if read is not None else await asyncio.to_thread(read_frame, data, is_line=is_line)


def hand_on(on_frame: OnFrame, frame: bytes, read: ReadFrame | None) -> None:
    """Call `on_frame`. Raises: CallError from `on_frame`.

    Any other exception is reported to the event loop, so that the frames after this one are still processed.
    """
    try:
        on_frame(frame, read)
    except CallError:
        raise
    except Exception as error:  # a bug in a receiver
        report_failure(error)


def report_failure(error: Exception) -> None:
    """Report to the event loop that the handler of a frame failed."""
    text = "a frame could not be passed on"
    asyncio.get_running_loop().call_exception_handler({"message": text, "exception": error})


class OrderedFrameQueue:
    """Queue that keeps the frames of a program in order while a large frame is parsed on a thread.

    In the meantime, the program's output is not read, so that at most one piece of output is queued.
    """

    def __init__(self, hand_on: OnFrame, pause: Callable[[bool], None]) -> None:
        """`hand_on` receives each frame. `pause(True)` pauses reading; `pause(False)` resumes it."""
        self._hand_on, self._pause = hand_on, pause
        self._waiting: deque[tuple[bytes, FrameFault | None]] = deque()
        self._reading: asyncio.Task[None] | None = None

    def put(self, frame: bytes, fault: FrameFault | None = None) -> None:
        """Pass a frame to `hand_on`, after all earlier frames. `fault` changes the parsed frame."""
        if self._reading is not None:
            self._waiting.append((frame, fault))
        elif fault is not None and len(frame) <= QUICK_BYTES:
            self._hand_on(frame, fault(read_frame(frame, is_line=True)))
        elif len(frame) <= QUICK_BYTES:
            self._hand_on(frame, None)
        elif (read := read_strictly(frame, is_line=True)) is not None:
            self._hand_on(frame, read if fault is None else fault(read))
        else:
            self._waiting.append((frame, fault))
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
                frame, fault = self._waiting.popleft()
                read = await read_on_thread(frame, is_line=True)
                try:
                    self._hand_on(frame, read if fault is None else fault(read))
                except Exception as error:  # later frames must still be handled, in their order
                    report_failure(error)
        finally:
            self._reading = None
            self._pause(False)
