"""What goes back to a peer for one frame."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeAlias

Reply: TypeAlias = tuple[int, bytes | None]
"""A status, which matters on HTTP only, and a body; no body, nothing to say."""
Answer: TypeAlias = Reply | Coroutine[Any, Any, Reply]
"""A reply at once, or a coroutine to await for it."""

ACCEPTED: Reply = (202, None)
