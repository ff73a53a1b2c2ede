"""What goes back to a peer for one frame."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """What goes back for one frame: `status` matters on HTTP only; no body, nothing to say."""

    status: int
    body: bytes | None


Answer = Reply | Coroutine[Any, Any, Reply]
"""A reply at once, or a coroutine to await for it."""

ACCEPTED = Reply(202, None)
