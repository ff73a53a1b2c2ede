"""Server for screens that hold messages of a tap.

The server runs in the process that writes the tap's capture.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from socket import socket

import msgspec

from mcpdesk.features.tap.held_tap import HeldTap
from mcpdesk.link.attach_messages import (
    METHODS,
    PREFIX_BYTES,
    Ask,
    FromScreen,
    Reply,
    State,
    framed,
    length,
    pack,
)
from mcpdesk.link.values import Notice, Severity
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.transports import rendezvous

UPDATE_DELAY_S = 0.05
"""Seconds between a change of the held messages and the message to the screens.

Further changes in this time cause no other message.
"""
_request_decoder: msgspec.msgpack.Decoder[FromScreen] = msgspec.msgpack.Decoder(FromScreen)


async def serve_screens(
    listener: socket, first_screen: socket, recording: Recording, reports: int, commands: int
) -> None:
    """Serve `first_screen`, and further screens that `listener` accepts, until the tap ends.

    The tap's gate is the code that copies lines between client and server. `reports` is the file descriptor
    of the pipe from the gate, and `commands` that of the pipe to the gate.
    """
    await TapControl(recording, reports, commands).serve(listener, first_screen)


class TapControl:
    """Executes intents of screens, and sends them the held messages.

    When the last screen disconnects, all held messages are released.
    """

    def __init__(self, recording: Recording, reports: int, commands: int) -> None:
        self._tap = HeldTap(recording, self._notify, self._on_view_change)
        self._pipes = reports, commands
        self._screens: set[asyncio.StreamWriter] = set()
        self._timer: asyncio.TimerHandle | None = None
        """Timer for the next message to the screens, or None."""
        self._notice_numbers = count()

    async def serve(self, listener: socket, first_screen: socket) -> None:
        """Accept screens until the tap ends."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        tasks = set[asyncio.Task[None]]()
        await self._tap.connect(*self._pipes)
        tap_task = loop.create_task(self._tap.listen())
        with suppress(OSError):  # the listening socket is closed
            connection = first_screen
            while not tap_task.done():
                task = loop.create_task(self._serve_screen(connection))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                connection, _ = await loop.sock_accept(listener)

    async def _serve_screen(self, connection: socket) -> None:
        """Serve a screen of the same user until it disconnects."""
        if rendezvous.peer_credentials(connection)[1] not in (None, os.getuid()):
            connection.close()
            return
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            while True:
                data = await reader.readexactly(length(await reader.readexactly(PREFIX_BYTES)))
                screen_request = _request_decoder.decode(data)
                if isinstance(screen_request, Ask):
                    self._send(writer, await self._execute(screen_request))
                else:
                    self._screens.add(writer)
                    for state in self._states():
                        self._send(writer, state)
        except (asyncio.IncompleteReadError, OSError, ValueError, msgspec.MsgspecError):
            pass  # the screen disconnected, or runs another version
        finally:
            writer.close()
            if writer in self._screens:
                self._screens.discard(writer)
                if not self._screens:
                    self._tap.interceptor.reset()

    async def _execute(self, ask: Ask) -> Reply:
        """Execute a request of a screen. Wait until the gate has applied its effect."""
        if ask.method != "do":
            return Reply(ask.id, error=f"unknown request: {ask.method}")
        (intent,) = METHODS[ask.method].arguments.decode(ask.arguments)
        try:
            is_done = self._tap.interceptor.do(intent)
        except ValueError as error:
            return Reply(ask.id, error=str(error), is_value_error=True)
        await self._tap.ready()
        return Reply(ask.id, pack(is_done))

    def _on_view_change(self) -> None:
        """Schedule a message to every screen, unless one is already scheduled."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(UPDATE_DELAY_S, self._send_view)

    def _send_view(self) -> None:
        self._timer = None
        for state in self._states():
            self._broadcast(state)

    def _states(self) -> Iterator[State]:
        """Yield the messages with the state of the interceptor."""
        for part in self._tap.interceptor.parts:
            yield State(part.part_name, "", pack(part))

    def _notify(self, text: str) -> None:
        notice = Notice(next(self._notice_numbers), text, Severity.INFO, "traffic")
        self._broadcast(State("notices", "", pack([notice])))

    def _broadcast(self, state: State) -> None:
        for screen in self._screens:
            self._send(screen, state)

    def _send(self, screen: asyncio.StreamWriter, message: msgspec.Struct) -> None:
        screen.write(framed(message))
