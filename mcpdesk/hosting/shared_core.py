"""Base class for the connection of a core to other cores, with which it shares servers, clients, jobs and
questions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.journal import Journal
    from mcpdesk.hosting.kept.kept_jobs import StoredJobs
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.link.link import Link
    from mcpdesk.link.welcome import Welcome
    from mcpdesk.server.calls.services import Services
    from mcpdesk.server.state.server_state import SharedState
    from mcpdesk.settings import Settings
    from mcpdesk.transports.metric import MetricFamily


class SharingCore(NamedTuple):
    """Members of a core that shares its state."""

    settings: Settings
    journal: Journal
    services: Services
    folders: Callable[[], Mapping[str, Path]]
    """Returns the hosted folders, by name of the server."""
    reload_state: Callable[[str], None]
    """Reads the stored state of a server again, because another core has written it."""
    start_chore: Callable[[Coroutine[Any, Any, None]], None]


class SharedCore(ABC):
    """Connection of one core to the others that share its state. Used on the core's loop."""

    id: str
    """Identity of this core among the others. Ids of jobs and sessions contain it."""

    @property
    @abstractmethod
    def api_key(self) -> str:
        """API key that callers of all cores send, or "" until it is known."""

    @property
    @abstractmethod
    def signing_keys(self) -> Sequence[bytes]:
        """Keys for `requestState`. The first one signs, and all verify. Empty until they are known."""

    @property
    @abstractmethod
    def away(self) -> str:
        """Reason why shared state cannot be written now, or "" if it can be written."""

    @property
    @abstractmethod
    def outage(self) -> str:
        """Reason in `away`, without addresses, so that any caller may read it."""

    @property
    @abstractmethod
    def unready(self) -> str:
        """Reason why new clients should not be sent to this core, without addresses, or "" if none."""

    @property
    @abstractmethod
    def greeting(self) -> str:
        """Line about the other cores, for the output at the start."""

    @property
    @abstractmethod
    def figures(self) -> list[MetricFamily]:
        """Metrics about the shared state and the other cores."""

    @abstractmethod
    def health(self) -> dict[str, Any]:
        """Return the members of `/health` about the other cores."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Return the members of `/status` about the other cores, for a known caller."""

    @abstractmethod
    def state_of(self, server: str) -> SharedState:
        """Return the shared state of a server."""

    @abstractmethod
    def kept_jobs(
        self, endpoints: Mapping[str, HostedEndpoint], is_draining: Callable[[], bool]
    ) -> StoredJobs:
        """Return the stored jobs of this core, which the others can show and continue."""

    @abstractmethod
    def publish(
        self, welcome: Callable[[], Welcome], make_link: Callable[[int], Link]
    ) -> AbstractContextManager[object]:
        """Let screens on other machines show this core during the block.

        `make_link` creates a link with a number of viewers. `make_link` is called on other threads.
        """

    @abstractmethod
    def front_end(self, attach_point: Callable[[], str]) -> FrontEnd:
        """Return a link to all cores. `attach_point` returns the path of this core's socket."""

    @abstractmethod
    async def start(self) -> None:
        """Join the other cores. They may be unreachable at this moment."""

    @abstractmethod
    async def describe(self, address: str) -> None:
        """Report the address and the folders of this core to the others."""

    @abstractmethod
    async def describe_folders(self) -> None:
        """Report the folders of this core to the others, because they may have changed."""

    @abstractmethod
    async def announce_end(self) -> None:
        """Report to the others that this core will end."""

    @abstractmethod
    def stop_waiting(self) -> None:
        """Stop waiting for a shared store that is unreachable, because this core ends."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the other cores."""
