"""Link of a screen to a core in another process of the same user, over a Unix socket.

A thread updates the copy of the core. When the core ends, its last state stays visible, and the link searches
for another core with the same servers. Numbers of the next core are larger than those of the previous one.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import msgspec
from msgspec import Struct

from mcpdesk.errors import DeskUserError
from mcpdesk.link.attach_messages import PREFIX_BYTES, WELCOME_REQUEST, Welcome, length, read_message
from mcpdesk.link.core_copy import CopyRoom, CoreCopy, join_message, other_version, refuse_other_version
from mcpdesk.link.values import Severity
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

WELCOME_TIMEOUT_S = 2.0
"""Maximum seconds to wait for the `Welcome` of a core."""
FIRST_STATE_TIMEOUT_S = 10.0
"""Maximum seconds to wait for the first state of a core."""
SEARCH_S = 0.5
"""Seconds between two searches for another core after the previous one has ended."""
_log = logging.getLogger(__name__)
_welcome_decoder = msgspec.msgpack.Decoder(Welcome)


class RunningCore(Struct, frozen=True):
    """Running core of this user on this machine, with its metadata and the path of its socket."""

    welcome: Welcome
    path: str


def running_cores(state: str | None = None) -> list[RunningCore]:
    """Return the cores that a screen can attach to, oldest first.

    `state` has the same meaning as in `rendezvous.folder_socket`. Raises: UntrustedFolder; OSError.
    """
    cores = list[RunningCore]()
    for path in rendezvous.attach_points(state):
        with suppress(OSError, EOFError, ValueError, msgspec.MsgspecError):
            if (connection := rendezvous.connect(path)) is not None:
                with connection, connection.makefile("rb") as reader:
                    connection.settimeout(WELCOME_TIMEOUT_S)
                    connection.sendall(WELCOME_REQUEST)
                    cores.append(RunningCore(_welcome_decoder.decode(read_message(reader.read)), path))
    return sorted(cores, key=lambda core: core.welcome.since)


class UnixWire:
    """Connection to the Unix socket of a core (implements `Wire`)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self) -> bytes:
        """Return the next message."""
        return await self._reader.readexactly(length(await self._reader.readexactly(PREFIX_BYTES)))

    def send(self, message: bytes) -> None:
        """Send a message."""
        self._writer.write(message)

    @property
    def unread(self) -> int:
        """Number of bytes that the core has not read yet."""
        return self._writer.transport.get_write_buffer_size()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def join(path: str, viewers: int = 1) -> tuple[Welcome, UnixWire]:
    """Connect to the socket of a core, as a screen for this number of people.

    Raises: EOFError or OSError if the core cannot be reached.
    """
    connection = await asyncio.to_thread(rendezvous.connect, path)
    if connection is None:
        raise ConnectionRefusedError(path)
    connection.setblocking(False)
    wire = UnixWire(*await asyncio.open_unix_connection(sock=connection))
    try:
        wire.send(join_message(viewers))
        async with asyncio.timeout(WELCOME_TIMEOUT_S):
            return _welcome_decoder.decode(await wire.receive()), wire
    except BaseException:
        wire.close()
        raise


class RemoteLink(CoreCopy):
    """Copy of one core. When this core has ended, the link copies the next core with the same servers."""

    def __init__(self, core: RunningCore, state: str | None = None) -> None:
        """Attach to a core and wait for its first state.

        `state` has the same meaning as in `running_cores`. Raises: DeskUserError if the core runs another
        version or sends no state.
        """
        refuse_other_version(core.welcome)
        super().__init__(core.welcome, CopyRoom())
        self._state = state
        self.room.start(self._copy_cores(core.path))
        if not self.state_event.wait(FIRST_STATE_TIMEOUT_S) or self._view.gone:
            self.close()
            raise DeskUserError(
                f"{core.welcome.title} does not answer.", "`mcpdesk attach` lists running cores."
            )

    def close(self) -> None:
        """Disconnect. The core continues to run."""
        self.room.close()

    async def _copy_cores(self, path: str) -> None:
        """Copy one core after another."""
        while not self.room.is_over:
            end_text = "has ended"
            try:
                self.core, wire = await join(path)
                await self.follow(wire)
            except (EOFError, OSError):
                pass
            except Exception as error:
                _log.exception("invalid data from a core")
                end_text = f"sent invalid data: {error}"
            finally:
                self.mark_ended(end_text, ", and the desk tries to reconnect")
            path = await self._find_next_core()
            self.replace_core(self.core)

    async def _find_next_core(self) -> str:
        """Return the socket of the next core with the same servers. Wait until one exists."""
        reported_pid = 0
        names = {server.name for server in self._view.servers}
        while True:
            await asyncio.sleep(SEARCH_S)
            with suppress(OSError):
                for core in await asyncio.to_thread(running_cores, self._state):
                    welcome = core.welcome
                    if set(welcome.names) == names:
                        if welcome.mcpdesk == __version__:
                            self.core = welcome
                            return core.path
                        if welcome.pid != reported_pid:
                            reported_pid = welcome.pid
                            self.notify(other_version(welcome), Severity.WARNING)
