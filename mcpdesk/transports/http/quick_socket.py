"""A WebSocket whose texts are taken in the turn of the loop in which they arrive.

aiohttp puts each message into a queue and wakes the task that reads from it: a turn of the loop a message.
Here texts go past that task while it waits. It still gets everything else: pings, the end, texts that arrive
while it is busy, and those `needs_task` says are its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from aiohttp import WSMsgType, web
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader
from aiohttp.base_protocol import BaseProtocol

QUEUED = 64 << 10
"""Bytes in the queue from which on no more is read, as aiohttp has it."""


class TextQueue(WebSocketDataQueue):
    """What the parser puts messages into."""

    def __init__(
        self,
        protocol: BaseProtocol,
        loop: asyncio.AbstractEventLoop,
        needs_task: Callable[[bytes], bool],
    ) -> None:
        super().__init__(protocol, QUEUED, loop=loop)
        self.is_idle = False
        """Whether the task waits for messages, and may be passed."""
        self.texts: list[bytes] = []
        """Those that came past it."""
        self._needs_task = needs_task

    def feed_data(self, data: Any, size: int) -> None:
        """Take one message from the parser."""
        if self.is_idle and data.type is WSMsgType.TEXT and not self._needs_task(data.data):
            self.texts.append(bytes(data.data))
        else:
            self.is_idle = False
            super().feed_data(data, size)


class QuickSocket(web.WebSocketResponse[Literal[False]]):
    """Hands texts to `on_texts` while its task waits in `receive`."""

    def __init__(self, needs_task: Callable[[bytes], bool], **options: Any) -> None:
        super().__init__(compress=False, decode_text=False, **options)
        self.on_texts: Callable[[list[bytes]], bool] | None = None
        """Takes texts; says whether more may come past the task. None: none may."""
        self._needs_task = needs_task
        self._queue: TextQueue

    async def receive(self, timeout: float | None = None) -> Any:
        """The next message that does not go past."""
        queue = self._queue
        queue.is_idle = self.on_texts is not None and not queue._buffer
        try:
            return await super().receive(timeout)
        finally:
            queue.is_idle = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse what came from the peer; behind the end it is nothing."""
        if self._parser is None:
            return False, b""
        if self._heartbeat is not None and not self._closed:
            self._lives()
        over = self._parser.feed_data(data)
        queue = self._queue
        if queue.texts:
            texts, queue.texts = queue.texts, []
            assert self.on_texts is not None
            if not self.on_texts(texts):
                queue.is_idle = False
        return over

    def feed_eof(self) -> None:
        """The peer sends no more."""
        if self._parser is not None:
            self._parser.feed_eof()

    def _lives(self) -> None:
        """The peer showed life: its next ping is due later."""
        # The base takes a turn of the loop for it, which costs as much as reading the message.
        if self._heartbeat_cb is None or self._pong_response_cb is not None:
            self._reset_heartbeat()
        else:
            assert self._loop is not None and self._heartbeat is not None
            self._heartbeat_when = self._loop.time() + self._heartbeat

    def _post_start(self, request: web.BaseRequest, protocol: str | None, writer: Any) -> None:
        # As in the base, but for the queue, and for whom the bytes go to.
        self._ws_protocol, self._writer = protocol, writer
        self._reset_heartbeat()
        assert self._loop is not None
        self._reader = self._queue = TextQueue(request.protocol, self._loop, self._needs_task)
        self._parser = WebSocketReader(self._queue, self._max_msg_size, compress=False, decode_text=False)
        request.protocol.set_parser(self)  # type: ignore[arg-type]
        request.protocol.keep_alive(False)
