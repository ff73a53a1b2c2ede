"""Connection of one client over two file descriptors: pipes, sockets, a terminal or files.

Another server may have served the client before, and another may continue. The descriptors are therefore
never closed here.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpdesk.errors import TransportError
from mcpdesk.transports.pipe import (
    GRACE_S,
    HIGH_WATER,
    LOW_WATER,
    READ_BYTES,
    OpenPipe,
    PipeRequest,
    finish_calls,
)
from mcpdesk.transports.unread_answers import UNREAD, WRITE_LIMIT

if TYPE_CHECKING:
    from mcpdesk.hosting.channel import Pipe
    from mcpdesk.transports.replay import ClientState

log = logging.getLogger(__name__)


class StdioTransport:
    """Serves one client until it closes its end of `source`. Does not close the descriptors."""

    def __init__(
        self,
        source: int,
        sink: int,
        open_pipe: OpenPipe,
        server: str | None = None,
        peer: str = "",
        mode: str = "",
        client_state: ClientState | None = None,
        session: str = "",
    ) -> None:
        """`client_state` is the client's state from earlier servers. `session` identifies its session."""
        self._source = source
        self._sink = sink
        self._open_pipe = open_pipe
        self._server = server
        self._peer = peer
        self._mode = mode
        self._session = session
        self._client_state = client_state
        self.next_client_state: ClientState | None = None
        """State for the client's next server, or None until another server may continue."""
        self._is_handing_over = False
        self._pipe: Pipe
        self._has_begun = False
        self._unwritten: deque[memoryview] = deque()
        """Data that the operating system has not accepted yet."""
        self._unwritten_bytes = 0
        """Size of `_unwritten` in bytes."""
        self._end_event = asyncio.Event()
        self._flushed_event = asyncio.Event()
        self._can_read_event = asyncio.Event()
        self._is_backed_up = False
        """True while the client reads too slowly."""
        self._identify_task: asyncio.Task[None] | None = None
        self._is_lost = False
        self._replay_answers: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(self) -> None:
        """Serve until the client closes its end or `stop` is called. Then wait for running calls.

        Raises: DeskError if the pipe cannot be opened.
        """
        self._loop = asyncio.get_running_loop()
        self._flushed_event.set()
        self._can_read_event.set()
        old_modes = [os.get_blocking(fd) for fd in (self._source, self._sink)]
        os.set_blocking(self._source, False)
        os.set_blocking(self._sink, False)
        try:
            await self._serve_pipe()
        finally:
            self._loop.remove_reader(self._source)
            self._loop.remove_writer(self._sink)
            for fd, was_blocking in zip((self._source, self._sink), old_modes, strict=True):
                os.set_blocking(fd, was_blocking)

    def stop(self) -> None:
        """End as if the client had closed its end. Call it on the loop."""
        self._end_event.set()
        self._can_read_event.set()

    def hand_over(self) -> None:
        """End once the client waits for no answer. Another server then continues. Call it on the loop."""
        self._is_handing_over = True
        asyncio.get_running_loop().call_soon(self._hand_over_if_idle)

    def _hand_over_if_idle(self) -> None:
        """End, and set `next_client_state`, unless the client waits for an answer."""
        if not self._has_begun or self._end_event.is_set() or self._unwritten or self._identify_task:
            return
        self.next_client_state = self._pipe.leave()
        if self.next_client_state is not None:
            self._loop.remove_reader(self._source)  # the callback may already be scheduled
            self._end_event.set()
            self._can_read_event.set()

    async def _serve_pipe(self) -> None:
        """Open the pipe, and serve the client until its input ends."""
        send = self._write if self._client_state is None else self._queue_replayed
        request = PipeRequest(self._server, "stdio", self._peer, self._mode, self._session)
        self._pipe = self._open_pipe(request, send)
        UNREAD.add(self)
        try:
            await self._pipe.identify()
            if self._client_state is not None:
                await self._replay(self._client_state)
            self._has_begun = True
            if self._is_handing_over:
                self._hand_over_if_idle()
            await self._read_all()
            while self._identify_task is not None and not self._is_lost:
                await self._identify_task
            if not self._is_lost and self.next_client_state is None:
                await finish_calls(self._pipe)
                await self._wait_until_flushed()
        finally:
            UNREAD.remove(self)
            if self._identify_task is not None:
                self._identify_task.cancel()
            self._pipe.close()

    async def _replay(self, client_state: ClientState) -> None:
        """Replay the client's state to this server, and answer what earlier servers left unanswered.

        Raises: TransportError if the client cannot continue here.
        """
        from mcpdesk.transports.replay import Replay

        if client_state.unwritten:
            self._write(client_state.unwritten)
        replay, answers = Replay(client_state), self._replay_answers
        while not replay.is_done:
            lines, replay.to_server = replay.to_server, []
            for line in lines:
                await self._feed(line + b"\n")
            for line in (await answers.get()).split(b"\n"):
                if line:
                    replay.receive(line)
            if replay.failure:
                raise TransportError(f"The client cannot continue here: {replay.failure}")
        while not answers.empty():
            replay.to_client.append(answers.get_nowait().rstrip(b"\n"))
        # From here on all output is for the client, including the answers of running calls.
        self._pipe.send_bytes = self._write
        if replay.to_client:
            self._write(b"".join(line + b"\n" for line in replay.to_client))
        for line in replay.to_server:
            await self._feed(line + b"\n")
        for data in (client_state.unsent, client_state.rest):
            if data:
                await self._feed(data)

    def _queue_replayed(self, data: bytes) -> None:
        """Queue an answer to a replayed request."""
        if data != b"\n":  # otherwise this is the newline after a large line
            self._replay_answers.put_nowait(data)

    async def _read_all(self) -> None:
        """Read from the client until its input ends or this transport is stopped."""
        if self._end_event.is_set():
            return
        try:
            self._loop.add_reader(self._source, self._on_readable)
        except PermissionError:  # a regular file or /dev/null, which cannot be watched
            await self._read_file()
        else:
            self._update_reading()
            self._on_readable()  # answer the waiting requests first
            await self._end_event.wait()
            self._loop.remove_reader(self._source)

    async def _read_file(self) -> None:
        while not self._end_event.is_set():
            self._on_readable()
            await asyncio.sleep(0)
            if not self._end_event.is_set():
                await self._can_read_event.wait()

    def _on_readable(self) -> None:
        """Read available data of the client, and pass it to the pipe."""
        if self._end_event.is_set() or not self._can_read_event.is_set():
            return
        try:
            data = os.read(self._source, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            log.debug("stdin ended: %s", error)
            data = b""
        if not data:
            self._end_event.set()
        else:
            self._handle(data)

    def _handle(self, data: bytes) -> None:
        """Pass bytes to the pipe. Stop reading while the client's token is being checked."""
        if not self._pipe.feed(data):
            self._identify_task = self._loop.create_task(self._identify(data))
            self._update_reading()

    async def _identify(self, data: bytes) -> None:
        """Identify the client again. Then handle the bytes received before, and resume reading."""
        await self._pipe.identify()
        self._identify_task = None
        self._update_reading()  # before the answers, which may pause reading again
        self._handle(data)
        if self._is_handing_over:
            self._hand_over_if_idle()

    async def _feed(self, data: bytes) -> None:
        """Pass bytes to the pipe. Wait while the client's token is being checked."""
        while not self._pipe.feed(data):
            await self._pipe.identify()

    def _write(self, data: bytes) -> None:
        """Write data, or queue the part that the system does not accept now."""
        if self._is_lost:
            return
        sent = 0 if self._unwritten else self._write_now(data)
        if self._is_handing_over:
            self._loop.call_soon(self._hand_over_if_idle)
        if sent == len(data):
            return
        if not self._unwritten:
            self._flushed_event.clear()
            self._loop.add_writer(self._sink, self._on_writable)
        self._unwritten.append(memoryview(data)[sent:])
        self._unwritten_bytes += len(data) - sent
        if self._unwritten_bytes > HIGH_WATER:
            UNREAD.check()
        self._check_backlog()

    def _on_writable(self) -> None:
        """Write queued data."""
        unwritten = self._unwritten
        while unwritten:
            piece = unwritten[0]
            sent = self._write_now(piece)
            if self._is_lost:
                break
            self._unwritten_bytes -= sent
            if sent < len(piece):
                unwritten[0] = piece[sent:]
                break
            unwritten.popleft()
        self._check_backlog()
        if not unwritten:
            self._loop.remove_writer(self._sink)
            self._flushed_event.set()
            if self._is_handing_over:
                self._loop.call_soon(self._hand_over_if_idle)

    def _write_now(self, data: bytes | memoryview) -> int:
        """Write as much as the system accepts now. Return the number of bytes.

        If the client has disconnected, all bytes count as written.
        """
        try:
            return os.write(self._sink, data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._disconnect(f"the client stopped reading: {error}")
            return len(data)

    def _check_backlog(self) -> None:
        """Read requests only while the client reads its answers."""
        unwritten_bytes = self._unwritten_bytes
        if unwritten_bytes > WRITE_LIMIT:
            self._disconnect(f"the client left {unwritten_bytes} bytes of answers unread")
        elif unwritten_bytes > HIGH_WATER and not self._is_backed_up:
            self._is_backed_up = True
            self._update_reading()
            self._pipe.pause()
        elif unwritten_bytes < LOW_WATER and self._is_backed_up:
            self._is_backed_up = False
            self._pipe.resume()
            self._update_reading()

    def _update_reading(self) -> None:
        """Read, unless too many answers are unread or the client is being identified."""
        if self._is_backed_up or self._identify_task is not None:
            self._can_read_event.clear()
            self._loop.remove_reader(self._source)
            return
        self._can_read_event.set()
        if not self._end_event.is_set():
            with suppress(PermissionError):  # a plain file has its own loop
                self._loop.add_reader(self._source, self._on_readable)

    @property
    def unread(self) -> int:
        """Number of bytes that the operating system has not accepted yet."""
        return self._unwritten_bytes

    def give_up(self) -> None:
        """Stop writing, and end."""
        self._disconnect("the client reads too slowly")

    def _disconnect(self, reason: str) -> None:
        log.info("%s", reason)
        self._is_lost = True
        self._unwritten.clear()
        self._unwritten_bytes = 0
        self._can_read_event.set()
        self._end_event.set()
        self._flushed_event.set()

    async def _wait_until_flushed(self) -> None:
        """Wait until the client has read everything, at most `GRACE_S` seconds."""
        try:
            async with asyncio.timeout(GRACE_S):
                await self._flushed_event.wait()
        except TimeoutError:
            log.warning("the client left %d bytes of answers unread", self._unwritten_bytes)
