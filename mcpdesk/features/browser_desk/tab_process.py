"""Process of one screen that a browser page shows.

The process draws with Textual's driver for browsers. The driver writes packets: a letter, four bytes of
length, and the data. A `D` packet has terminal data, an `M` packet has a JSON message.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

READY = b"__GANGLION__\n"
"""Line that the process writes before the first packet."""
MAX_FIRST_LINES = 10
"""Maximum number of lines before `READY`."""
MAX_PACKET_BYTES = 16 << 20
"""Maximum size of a packet in bytes."""
STDERR_BYTES = 2_000
"""Number of last bytes of stderr that are shown if the screen cannot start."""
MAX_UNREAD_BYTES = 4 << 20
"""Maximum size in bytes of the messages that the process has not read. Further messages are dropped."""
LEAVE_S = 2.0
"""Seconds to wait for the screen to end after each step: a request to quit, SIGTERM, and SIGKILL."""
DRIVER_VARIABLES = {
    "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
    "TERM": "xterm-256color",
}
MAX_COLUMNS, MAX_ROWS = 1_000, 500
"""Maximum number of columns and rows that a page may request."""

Show = Callable[[bytes], Awaitable[None]]
"""Function that is called with terminal data."""
OpenUrl = Callable[[str], Awaitable[None]]
"""Function that opens a link in the browser."""


class TabProcess:
    """Process of one screen. `run` starts the process and waits for its end. `leave` ends it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._leave_requested = asyncio.Event()

    def leave(self) -> None:
        """End the screen soon."""
        self._leave_requested.set()

    async def run(self, show: Show, open_url: OpenUrl, width: int, height: int) -> None:
        """Run the screen until it ends. If it cannot start, show its error output. Raises: OSError."""
        size = {"COLUMNS": str(width), "ROWS": str(height)}
        # In a separate session, the process receives no input from the terminal of the desk.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._environment, **DRIVER_VARIABLES, **size},
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        error_output = asyncio.create_task(_tail(process.stderr))
        relay = asyncio.create_task(self._relay(process.stdout, show, open_url))
        leave_request = asyncio.create_task(self._leave_requested.wait())
        try:
            await asyncio.wait({relay, leave_request}, return_when=asyncio.FIRST_COMPLETED)
            await self._end()
            if relay.done() and not relay.exception() and not relay.result():
                text = (await error_output).decode("utf-8", "replace").strip()
                reason = text or "It ended without a message."
                await show(f"The desk cannot be shown.\n{reason}\n".replace("\n", "\r\n").encode())
        finally:
            if process.returncode is None:  # this task was cancelled before the screen has ended
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for task in (error_output, relay, leave_request):
                task.cancel()
            await asyncio.gather(error_output, relay, leave_request, return_exceptions=True)

    def handle(self, message: Any) -> None:
        """Handle a message of the page: typed text, a size, or focus. Other messages are ignored."""
        match message:
            case ["stdin", str(text)]:
                self._send(b"D", text.encode("utf-8", "replace"))
            case ["resize", {"width": int(width), "height": int(height)}]:
                columns = max(1, min(width, MAX_COLUMNS))
                rows = max(1, min(height, MAX_ROWS))
                self._send_json({"type": "resize", "width": columns, "height": rows})
            case ["blur" | "focus" as kind]:
                self._send_json({"type": kind})

    async def _relay(self, stdout: asyncio.StreamReader, show: Show, open_url: OpenUrl) -> bool:
        """Forward the output of the process until its end. Return False if the screen could not start."""
        if not await _is_ready(stdout):
            return False
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # the screen or page ended
            while True:
                kind = await stdout.readexactly(1)
                size = int.from_bytes(await stdout.readexactly(4), "big")
                if size > MAX_PACKET_BYTES:
                    break
                payload = await stdout.readexactly(size)
                if kind == b"D":
                    await show(payload)
                elif kind == b"M":
                    frame = json.loads(payload)
                    if frame.get("type") == "exit":
                        break
                    url = frame.get("url")
                    if frame.get("type") == "open_url" and str(url).startswith(("http://", "https://")):
                        await open_url(url)
        return True

    async def _end(self) -> None:
        """Ask the screen to end. If it still runs after `LEAVE_S` seconds, terminate it with its child
        processes.
        """
        process = self._process
        if process is None or process.returncode is not None:
            return
        self._send_json({"type": "quit"})
        for signal_number in (None, signal.SIGTERM, signal.SIGKILL):
            if signal_number is not None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_number)
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await process.wait()
                    return

    def _send_json(self, message: Mapping[str, object]) -> None:
        self._send(b"M", json.dumps(message).encode())

    def _send(self, kind: bytes, payload: bytes) -> None:
        """Send a packet to the process. This does not wait, because the process may no longer read."""
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return
        if process.stdin.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            return
        with suppress(ConnectionError, RuntimeError):  # the process has just ended
            process.stdin.write(kind + len(payload).to_bytes(4, "big") + payload)


async def _is_ready(stdout: asyncio.StreamReader) -> bool:
    for _ in range(MAX_FIRST_LINES):
        line = await stdout.readline()
        if line == READY:
            return True
        if not line:
            return False
    return False


async def _tail(stderr: asyncio.StreamReader) -> bytes:
    """Read stderr to its end. Return the last `STDERR_BYTES`."""
    tail = b""
    while data := await stderr.read(4096):
        tail = (tail + data)[-STDERR_BYTES:]
    return tail
