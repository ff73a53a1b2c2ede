"""What a client speaks through, whatever lies between it and the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.protocol.tasks import EXTENSION
from mcpdesk.version import __version__

IDENTITY = {"name": "mcpdesk-bridge", "version": __version__}
"""What servers are told."""


def kinds_of(params: Mapping[str, Any]) -> tuple[str, ...]:
    """The types of results that may answer a request: a task, where it says that it knows them."""
    meta = params.get("_meta")
    capabilities = meta.get(CAPABILITIES_KEY) if isinstance(meta, dict) else None
    knows_tasks = isinstance(capabilities, dict) and EXTENSION in capabilities.get("extensions", {})
    return ("complete", "task") if knows_tasks else ("complete",)


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
