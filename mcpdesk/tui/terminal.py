"""Layer between the application and its terminal. Typed keys and drawn lines pass through it.

The program may query the terminal while the person is typing. The replies of the terminal then arrive among
the keys, and are removed before the keys are parsed.
"""

from __future__ import annotations

import os
import struct
import termios
import time
from collections import deque
from collections.abc import Awaitable, Callable
from fcntl import ioctl
from functools import partial
from select import select
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

from rich.segment import Segment
from textual import events
from textual.app import App
from textual.color import Color
from textual.dom import DOMNode
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter
from textual.message_pump import MessagePump
from textual.timer import Timer

from mcpdesk.plain_text import one_cell_each

_READ_BYTES = 4096
_DRIVERS: WeakKeyDictionary[App[Any], DeskDriver] = WeakKeyDictionary()


class DeskDriver(LinuxDriver):
    """Driver of one terminal, which can remove replies to queries from the typed characters."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        _DRIVERS[app] = self
        self.without_replies: Callable[[str], str] | None = None
        """Function that removes replies of the terminal from read bytes, or None if no query was sent.

        The bytes are passed as text in which each character is one byte.
        """
        self._terminal = self.fileno
        """File descriptor of the terminal."""
        self._read_error: OSError | None = None
        """Error that ended the thread that reads from the terminal, or None."""

    def run_input_thread(self) -> None:
        """Let Textual read from a pipe that contains typed keys, but no replies of the terminal.

        Raises: OSError if the terminal is closed.
        """
        self.fileno, keys_writer = os.pipe()
        end_reader, end_writer = os.pipe()
        pipes = keys_writer, end_reader
        reader = Thread(target=self._relay, args=pipes, name="terminal-input", daemon=True)
        reader.start()
        try:
            super().run_input_thread()
        finally:
            os.close(self.fileno)
            self.fileno = self._terminal
            os.close(end_writer)
            reader.join()
            os.close(end_reader)
            os.close(keys_writer)
        if self._read_error is not None:
            raise self._read_error

    def _relay(self, keys_writer: int, end_reader: int) -> None:
        """Forward typed bytes until the terminal, or the writing end of the pipe `end_reader`, is closed."""
        try:
            while end_reader not in select([self._terminal, end_reader], [], [])[0]:
                if not (data := os.read(self._terminal, _READ_BYTES)):
                    return
                os.write(keys_writer, self._remove_replies(data))
        except BrokenPipeError:
            return  # the application ends
        except OSError as error:
            self._read_error = error
            self.exit_event.set()

    def _remove_replies(self, data: bytes) -> bytes:
        """Return the read bytes without replies."""
        if self.without_replies is None:
            return data
        return self.without_replies(data.decode("latin-1")).encode("latin-1")  # one byte per character

    def cell_size(self) -> tuple[int, int] | None:
        """Return width and height of a cell in pixels, or None if the terminal does not report them.

        They are read each time, because the font may change.
        """
        try:
            size = ioctl(self._terminal, termios.TIOCGWINSZ, bytes(8))
        except OSError:
            return None
        rows, columns, width, height = struct.unpack("HHHH", size)
        if not (rows and columns and width >= columns and height >= rows):
            return None
        return width // columns, height // rows


def driver_of(app: App[Any]) -> DeskDriver | None:
    """Return the driver of an application on a terminal, or None in a browser or a test."""
    return _DRIVERS.get(app)


class TerminalGate(LineFilter):
    """Filter that makes all drawn lines safe: it replaces unsafe characters and removes links.

    Most widgets receive clean text. This filter is for the other widgets, such as text fields, which contain
    placeholders for unsafe characters. A link is removed because the terminal would open its untrusted
    address without asking; the desk opens it only on request.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line. Their widths do not change."""
        return [_harmless(segment) for segment in segments]


def _harmless(segment: Segment) -> Segment:
    text, style, control = segment
    safe_text = one_cell_each(text)
    has_link = style is not None and style.link
    if safe_text is text and not has_link and not control:
        return segment
    return Segment(safe_text, style.update_link(None) if style is not None and has_link else style)


KEY_TIMEOUT_S = 1.0
"""Maximum number of seconds for which a key waits for the previous key, or for a form or dialog to open."""
KEY_POLL_S = 0.01
"""Seconds between two checks whether a form or dialog is still about to open."""
_PASSES = 2
"""Number of passes over the widgets.

In the first pass, a key moves from the focused widget up to the application, where bindings act on it. In the
second pass, the messages that these actions sent to the focused widget take the same path.
"""
_MARKER_TURNS = 2
"""Number of times that a marker is queued at each widget.

The second marker comes after the messages that the widget sent to itself.
"""
MAX_KEY_PAUSE_FACTOR = 3
"""Maximum length of a `KeyPause`, as a multiple of its first length."""


class KeyPause:
    """Period during which keys have no effect, because the person typed them for the previous screen.

    Each key extends the period, so that the person can notice the new screen. `MAX_KEY_PAUSE_FACTOR` limits
    the total length.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = self._latest_end = 0.0

    def begin(self) -> None:
        """Start the period."""
        now = time.monotonic()
        self._end, self._latest_end = now + self._seconds, now + MAX_KEY_PAUSE_FACTOR * self._seconds

    @property
    def is_over(self) -> bool:
        """True if the period has ended and keys take effect."""
        return time.monotonic() >= self._end

    def ignores_key(self) -> bool:
        """Return True if a key that arrives now is ignored. This extends the period."""
        if self.is_over:
            return False
        self._end = min(time.monotonic() + self._seconds, self._latest_end)
        return True


def is_typed(event: events.Event) -> bool:
    """Return True if an event can come from typing or pasting text."""
    if isinstance(event, events.Key):
        return event.is_printable or event.key in ("enter", "backspace")
    return isinstance(event, events.Paste)


class KeyQueue:
    """Delivers typed keys one at a time, so that each reaches the widget that has the focus at that time.

    Textual sends a key to the focused widget as soon as it is read. The effect of a key comes some messages
    later: Tab moves the focus, Enter opens a form, another key opens a dialog. Keys that are typed quickly
    would therefore reach the widget that had the focus before. This queue makes each key wait for the effect
    of the previous one.

    `deliver` delivers a key. `must_wait` returns True if the focus is about to move. The next key then waits.
    """

    def __init__(
        self,
        app: App[Any],
        deliver: Callable[[events.Event], Awaitable[None]],
        must_wait: Callable[[], bool],
    ) -> None:
        self._app, self._deliver, self._must_wait = app, deliver, must_wait
        self._waiting: deque[events.Event] = deque()
        self.is_busy = False
        """True if a key has not taken effect yet."""
        self._key_number = 0
        """Number of the key that was delivered last. It increases again when the key has taken effect."""
        self._timeout: Timer | None = None
        self._wait_began: float | None = None
        """Monotonic time when the next key began to wait for the focus, or None."""

    async def put(self, event: events.Event) -> None:
        """Queue a key or a paste. It is delivered when all earlier keys have taken effect."""
        self._waiting.append(event)
        if not self.is_busy:
            self.is_busy = True
            await self._deliver_next()

    async def _deliver_next(self) -> None:
        had_to_wait = self._wait_began is not None
        if self._waiting and self._is_waiting_for_focus():
            self._app.set_timer(KEY_POLL_S, self._deliver_next)
            return
        if not self._waiting:
            self.is_busy = False
            return
        if had_to_wait and self._wait_began is None:
            self._app.call_later(self._deliver_next)  # the focus moves in a message that may still be queued
            return
        event = self._waiting.popleft()
        self._key_number += 1
        end = partial(self._end, self._key_number)
        self._timeout = self._app.set_timer(KEY_TIMEOUT_S, end)
        target = self._app.focused or self._app.screen
        await self._deliver(event)
        self._queue_marker(target, target, _PASSES, _MARKER_TURNS, end)

    def _is_waiting_for_focus(self) -> bool:
        if not self._must_wait():
            self._wait_began = None
            return False
        now = time.monotonic()
        if self._wait_began is None:
            self._wait_began = now
        return now - self._wait_began < KEY_TIMEOUT_S

    def _queue_marker(
        self,
        target: MessagePump,
        node: MessagePump,
        passes: int,
        marker_turns: int,
        end: Callable[[], Awaitable[None]],
    ) -> None:
        """Queue a marker behind the key and its effects at `node`, and then at each node above it.

        `passes` is the number of remaining passes, `marker_turns` the number of remaining markers at `node`.
        After the last pass, `end` is called.
        """
        while True:
            if marker_turns == 0:
                parent = node.parent if isinstance(node, DOMNode) and node is not self._app else None
                node, marker_turns = target if parent is None else parent, _MARKER_TURNS
                passes -= parent is None
            if passes == 0:
                self._app.call_later(end)
                return
            if node.call_later(self._queue_marker, target, node, passes, marker_turns - 1, end):
                return
            marker_turns = 0  # a removed node accepts no messages, so continue above it

    async def _end(self, number: int) -> None:
        """Continue after the key with this number has taken effect, or its time limit has passed."""
        if number != self._key_number:
            return
        self._key_number += 1
        if self._timeout is not None:
            self._timeout.stop()
        await self._deliver_next()
