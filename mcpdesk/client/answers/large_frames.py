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
"""Function that receives the bytes of a frame, and the parsed frame. None if it was not parsed yet."""
FrameChange: TypeAlias = Callable[[ReadFrame], ReadFrame]
"""Function that adds a remark or fault to a parsed frame, which the bytes of the frame do not show."""


async def read_on_thread(data: bytes, *, is_line: bool = False) -> ReadFrame:
    """Read a frame like `read_frame`, but on a thread if it is large and not valid JSON."""
    if len(data) <= QUICK_BYTES:
        return read_frame(data, is_line=is_line)
    read = read_strictly(data, is_line=is_line)
    return read if read is not None else await asyncio.to_thread(read_frame, data, is_line=is_line)


def deliver_frame(on_frame: OnFrame, frame: bytes, read: ReadFrame | None) -> None:
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

    In the meantime, the program's output is not read, so that the queue only has frames of one read.
    """

    def __init__(self, on_frame: OnFrame, pause: Callable[[bool], None]) -> None:
        """`on_frame` receives each frame. `pause(True)` pauses reading; `pause(False)` resumes it."""
        self._on_frame, self._pause = on_frame, pause
        self._queued_frames: deque[tuple[bytes, FrameChange | None]] = deque()
        self._reading_task: asyncio.Task[None] | None = None

    def put(self, frame: bytes, change: FrameChange | None = None) -> None:
        """Pass a frame to `on_frame`, after all earlier frames."""
        if self._reading_task is not None:
            self._queued_frames.append((frame, change))
        elif change is not None and len(frame) <= QUICK_BYTES:
            self._on_frame(frame, change(read_frame(frame, is_line=True)))
        elif len(frame) <= QUICK_BYTES:
            self._on_frame(frame, None)
        elif (parsed := read_strictly(frame, is_line=True)) is not None:
            self._on_frame(frame, parsed if change is None else change(parsed))
        else:
            self._queued_frames.append((frame, change))
            self._pause(True)
            self._reading_task = asyncio.get_running_loop().create_task(self._read())

    def when_empty(self, function: Callable[[], None]) -> None:
        """Call a function once the queue is empty."""
        if self._reading_task is None:
            function()
        else:
            self._reading_task.add_done_callback(lambda _: function())

    async def _read(self) -> None:
        try:
            while self._queued_frames:
                frame, change = self._queued_frames.popleft()
                read = await read_on_thread(frame, is_line=True)
                try:
                    self._on_frame(frame, read if change is None else change(read))
                except Exception as error:  # later frames must still be handled, in their order
                    report_failure(error)
        finally:
            self._reading_task = None
            self._pause(False)
