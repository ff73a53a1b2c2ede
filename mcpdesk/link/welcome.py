"""Metadata of a core, which it sends to every program that connects to it."""

from __future__ import annotations

from msgspec import Struct


class Welcome(Struct, frozen=True, kw_only=True):
    """First message from a core. Visitors of any version can read it."""

    mcpdesk: str
    """Version of mcpdesk."""
    pid: int
    kind: str
    """Command that started the core: `desk`, `serve` or `stdio`."""
    names: tuple[str, ...] = ()
    """Names of its servers."""
    since: float = 0.0
    """Unix time when the core started."""
    address: str = ""
    """URL of its first server, or "" while the core does not listen."""
    secret_headers: frozenset[str] = frozenset()
    """Names of further headers whose values must be masked."""

    @property
    def title(self) -> str:
        """Display name: `serve hello (pid 4711)`."""
        return f"{self.kind} {' '.join(self.names)} (pid {self.pid})"
