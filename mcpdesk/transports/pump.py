"""The pump: carries bytes between a client's pipes and the desk that already hosts the folder it asked for.

It knows no MCP and decides nothing. Two blocking loops, one per direction, so that a client that writes
without reading, or the reverse, holds up nobody but itself. Standard library only, and little of it.
"""

from __future__ import annotations

import _thread
import os
import socket
import sys

from mcpdesk.transports import rendezvous

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 64 << 10
"""Bytes carried at once; for larger pieces the allocator goes to the system each time."""

REFUSAL = b"mcpdesk: "
"""Begins what the desk says, instead of any frame, when it cannot serve us."""

EXIT_DONE = 0
EXIT_BROKEN = 1
EXIT_REFUSED = 2
EXIT_INTERRUPTED = 130


def run(folder: str, mode: str = "") -> int | None:
    """Serve stdin and stdout from the desk that hosts `folder`, until either side ends.

    Returns the exit code; None, with nothing read or written, when there is no such desk.
    """
    try:
        connection = rendezvous.find(folder)
    except OSError:
        return None
    if connection is None:
        return None
    try:
        with connection:
            try:
                connection.sendall(hello(folder, mode))
            except OSError:
                return None  # It ended a moment ago.
            return carry(connection)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def hello(folder: str, mode: str) -> bytes:
    """The line that tells the desk who is at the other end, before the first frame."""
    parent = os.getppid()
    facts = {"folder": os.path.abspath(folder), "mode": mode, "name": rendezvous.process_name(parent)}
    texts = ",".join(f'"{key}":{quote(value)}' for key, value in facts.items())
    return f'{{"mcpdesk":1,"pid":{parent},{texts}}}\n'.encode("ascii")


def quote(text: str) -> str:
    """`text` as a JSON string in ASCII; the `json` module would cost more than all the rest of the start."""
    units = text.encode("utf-16-be", "replace")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    plain = (chr(code) if 32 <= code < 127 and code not in (34, 92) else f"\\u{code:04x}" for code in codes)
    return f'"{"".join(plain)}"'


def carry(connection: socket.socket, source: int = 0, sink: int = 1) -> int:
    """Carry both ways until the desk has sent its last byte. Returns the exit code."""
    told: list[bool] = []
    _hear_interrupts()
    _thread.start_new_thread(_carry_in, (source, connection, told))
    try:
        chunk = connection.recv(CHUNK)
        if chunk.startswith(REFUSAL):
            from mcpdesk.plain_text import clean  # here, for the way that ends well does without it

            sys.stderr.write(clean(chunk.decode("utf-8", "replace")))
            return EXIT_REFUSED
        while chunk:
            if not _write(sink, chunk):
                return EXIT_DONE
            chunk = connection.recv(CHUNK)
    except OSError:
        return _complain("the connection to the desk broke")
    if told:
        return EXIT_DONE
    return _complain("the desk ended while the client was still connected")


def _hear_interrupts() -> None:
    """Let SIGINT end us at once: a thread that hears of it just before it waits in the system waits on."""
    import _signal  # type: ignore[import-not-found]  # `signal` makes enumerations of it first: a millisecond

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT,))
        _thread.start_new_thread(_end_when_interrupted, (_signal.sigwait, _signal.SIGINT))


def _end_when_interrupted(wait: Callable[[tuple[int]], object], interrupt: int) -> None:
    wait((interrupt,))
    os._exit(EXIT_INTERRUPTED)


def _carry_in(source: int, connection: socket.socket, told: list[bool]) -> None:
    """From the client to the desk. An end of input is passed on; answers may still come."""
    try:
        while chunk := os.read(source, CHUNK):
            connection.sendall(chunk)
        told.append(True)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _write(sink: int, chunk: bytes) -> bool:
    """Write all of a chunk; False when nobody reads any more."""
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[os.write(sink, rest) :]
    except OSError:
        return False
    return True


def _complain(what: str) -> int:
    sys.stderr.write(f"mcpdesk: {what}; start the server again to reconnect.\n")
    return EXIT_BROKEN
