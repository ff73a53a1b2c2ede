"""Keys that sign `requestState`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.settings import Settings

if TYPE_CHECKING:
    from mcpdesk.hosting.shared_core import SharedCore

ROUND_KEY = "request-state-key"
"""File in the state folder with the key, unless a secret is configured."""


class RoundKeys:
    """Keys of one core."""

    def __init__(self, settings: Settings, shared: Callable[[], SharedCore | None]) -> None:
        """`shared` returns the connection to other cores, which use the same keys."""
        self._settings, self._shared = settings, shared

    def current(self) -> Sequence[bytes]:
        """Return the keys. The first one signs, and all of them verify. Raises: StorageError."""
        if configured := self._settings.request_state_secret:
            return [secret.encode() for secret in configured.split(",")]
        shared = self._shared()
        if shared is None:
            return self._own
        if not (keys := shared.signing):
            raise StorageError(f"no secret for requestState is available yet: {shared.away}")
        return keys

    @cached_property
    def _own(self) -> list[bytes]:
        from mcpdesk.auth import api_key

        return [api_key.load_or_create(self._settings.state_dir, ROUND_KEY).encode()]
