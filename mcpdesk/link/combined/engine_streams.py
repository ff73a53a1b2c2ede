"""Streams between desks and replicas in the engine: two bounded streams for each replica.

One stream has the requests of the desks, which the replica reads. The other has its messages, which every
desk reads. An entry contains messages as they would be sent over a socket, each with its length prefix.
Entries for a single desk name the desk. All entries of a replica are numbered, so that a desk detects missing
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcpdesk.link.attach_messages import HEAD, length
from mcpdesk.storage.shared.engine import Engine

DESK: Final = b"desk"
"""Field: id of the desk that sends the request, or of the only recipient."""
MESSAGES: Final = b"messages"
"""Field: messages with their length prefixes."""
NUMBER: Final = b"number"
"""Field: number of the entry."""
WELCOME: Final = b"welcome"
"""Field: metadata of the replica, for a desk that has just joined."""
AGAIN: Final = b"again"
"""Field: tells the desk to join again, because the replica does not know it."""
DESK_S: Final = 6.0
"""Seconds without a message after which a desk counts as disconnected. Desks send a ping every second."""
KEPT_S: Final = 60
"""Seconds for which a stream is kept after its last entry."""
KEPT_ASKS: Final = 2_000
"""Maximum entries of desks that wait for a replica."""


def asks_key(engine: Engine, replica: str) -> str:
    """Return the key of the stream of requests to a replica, by its id."""
    return engine.key("desk", replica, "asks")


def news_key(engine: Engine, replica: str) -> str:
    """Return the key of the stream of messages from a replica."""
    return engine.key("desk", replica, "news")


def separate(messages: bytes) -> Iterator[bytes]:
    """Yield the messages of an entry without length prefixes. Raises: ValueError."""
    at = 0
    while at < len(messages):
        start = at + HEAD
        at = start + length(messages[at:start])
        yield messages[start:at]
