"""Keys that sign `requestState`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mcpdesk.errors import StorageError
from mcpdesk.settings import Settings

if TYPE_CHECKING:
    from mcpdesk.hosting.shared_core import SharedCore

KEY_FILE = "request-state-key"
"""Name of the file in the state folder that contains the key. Not used if a secret is configured, or if cores
share their keys."""


class RequestStateKeys:
    """Keys with which one core signs `requestState`, and verifies it when a client returns it."""

    def __init__(self, settings: Settings, shared: Callable[[], SharedCore | None]) -> None:
        """`shared` returns the connection to other cores, which use the same keys, or None without others."""
        self._settings, self._shared = settings, shared

    def current(self) -> Sequence[bytes]:
        """Return the keys. The first one is used to sign, and all of them to verify. Raises: StorageError."""
        if configured := self._settings.request_state_secret:
            return [secret.encode() for secret in configured.split(",")]
        shared = self._shared()
        if shared is None:
            return self._local_keys
        if not (keys := shared.signing_keys):
            raise StorageError(f"no secret for requestState is available yet: {shared.away}")
        return keys

    @cached_property
    def _local_keys(self) -> list[bytes]:
        from mcpdesk.auth import api_key

        return [api_key.load_or_create(self._settings.state_dir, KEY_FILE).encode()]
