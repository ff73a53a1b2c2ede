"""Streams in the engine through which desks and replicas exchange messages.

The engine is the Redis-compatible store that all replicas share. Each replica has two streams of limited
size. Desks write requests to the first stream, and the replica reads them. The replica writes messages to the
second stream, and all desks read them. An entry contains messages with length prefixes, as on a socket. An
entry for only one desk has the id of that desk. Entries of a replica are numbered, so that a desk can detect
missing ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.link.attach_messages import PREFIX_BYTES, length

DESK: Final = b"desk"
"""Field with the id of a desk: the sender of the request, or the only recipient of the messages."""
MESSAGES: Final = b"messages"
"""Field with the messages and their length prefixes."""
NUMBER: Final = b"number"
"""Field with the number of the entry."""
WELCOME: Final = b"welcome"
"""Field with the metadata of the replica, sent to a desk that has just joined."""
AGAIN: Final = b"again"
"""Field that asks a desk to join again, because the replica does not know it."""
DESK_TIMEOUT_S: Final = 6.0
"""If a desk sends no message for this many seconds, it counts as disconnected.

A desk sends a ping each second.
"""
STREAM_TTL_S: Final = 60
"""Seconds for which a stream is kept after its last entry."""
MAX_UNREAD_ENTRIES: Final = 2_000
"""Maximum number of entries that wait to be read by a replica."""


def requests_key(engine: Engine, replica: str) -> str:
    """Return the key of the stream with requests to a replica. `replica` is its id."""
    return engine.key("desk", replica, "asks")


def updates_key(engine: Engine, replica: str) -> str:
    """Return the key of the stream with messages of a replica. `replica` is its id."""
    return engine.key("desk", replica, "news")


def separate(messages: bytes) -> Iterator[bytes]:
    """Yield the messages in an entry without their length prefixes. Raises: ValueError."""
    end = 0
    while end < len(messages):
        start = end + PREFIX_BYTES
        end = start + length(messages[end:start])
        yield messages[start:end]
