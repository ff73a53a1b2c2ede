"""How desks and replicas speak through the engine: two streams for each replica, both bounded.

What desks ask is one stream, which the replica reads; what it tells is another one, which every desk reads.
An entry has messages as they would go over a socket, each with its length before it. Entries for a single
desk name it; all of a replica's are numbered, so that a desk sees when it missed some.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcpdesk.link.attach_messages import HEAD, length
from mcpdesk.storage.shared.engine import Engine

DESK: Final = b"desk"
"""Field: the id of the desk that asks, or that alone is told."""
MESSAGES: Final = b"messages"
"""Field: messages with their lengths."""
NUMBER: Final = b"number"
"""Field: counts the entries of a replica."""
WELCOME: Final = b"welcome"
"""Field: what the replica says of itself to a desk that has just joined."""
AGAIN: Final = b"again"
"""Field: the desk is to join again, since the replica has forgotten it."""
DESK_S: Final = 6.0
"""A desk that has not been heard of for so long has left. It asks each second whether the replica answers."""
KEPT_S: Final = 60
"""How long a stream outlives the last entry."""
KEPT_ASKS: Final = 2_000
"""Entries of what desks ask that wait for a replica at most."""


def asks_key(engine: Engine, replica: str) -> str:
    """The stream of what desks ask a replica, by its id."""
    return engine.key("desk", replica, "asks")


def news_key(engine: Engine, replica: str) -> str:
    """The stream of what a replica tells."""
    return engine.key("desk", replica, "news")


def separate(messages: bytes) -> Iterator[bytes]:
    """The messages of an entry, without their lengths. Raises: ValueError."""
    at = 0
    while at < len(messages):
        start = at + HEAD
        at = start + length(messages[at:start])
        yield messages[start:at]
