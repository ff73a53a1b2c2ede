"""What a client speaks through, whatever lies between it and the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcpdesk.protocol.revisions import Revision
from mcpdesk.version import __version__

IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""What servers are told."""


class Line(Protocol):
    """An open way to one server."""

    @property
    def target(self) -> str:
        """Where it leads, without secrets."""

    @property
    def revision(self) -> Revision:
        """What is spoken."""

    @property
    def mirrors(self) -> bool:
        """Whether headers repeat arguments that ask for it."""

    @property
    def server(self) -> Mapping[str, Any]:
        """The server's name and version, as it says."""

    @property
    def instructions(self) -> str:
        """What the server says to models; may be empty."""

    async def request(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> dict[str, Any]:
        """The result of one request. `headers` go along where `mirrors` says so. Raises: CallError."""

    async def close(self) -> None:
        """Take leave."""
