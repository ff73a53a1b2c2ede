"""Interface of the core that the HTTP transport serves: its servers, rules and state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from mcpdesk.auth.principal import OPEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from mcpdesk.auth.access import Access
    from mcpdesk.auth.operator import Operator
    from mcpdesk.auth.principal import Principal
    from mcpdesk.hosting.channel import FrameChannel, HostedDialogue
    from mcpdesk.hosting.endpoint import GatewayEndpoint
    from mcpdesk.hosting.holding.holds import Holds
    from mcpdesk.hosting.hosted_jobs import HostedJobs
    from mcpdesk.hosting.replicas.replica_group import ReplicaGroup
    from mcpdesk.link.link_board import LinkBoard
    from mcpdesk.protocol.catalogue.publication import Publication
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.record import CaptureHealth, Recorder
    from mcpdesk.transports.base import PassThrough, Rules
    from mcpdesk.transports.figure import Figure


class Endpoint(Protocol):
    """One server as a transport sees it."""

    @property
    def name(self) -> str:
        """Name of the server, as in its URL."""

    @property
    def key(self) -> str:
        """Name of the server with its mode, such as `profiles?mode=review`; unique within a core."""

    @property
    def place(self) -> str:
        """Key that also differs between servers of the same name in different folders."""

    @property
    def gateway(self) -> GatewayEndpoint:
        """The same server for clients of the gateway dialect."""

    @property
    def access(self) -> Access:
        """Authentication that the server requires of callers."""

    @property
    def refusal(self) -> str:
        """Error message for all callers while the server is not served; empty if it is served."""

    @property
    def publication(self) -> Publication:
        """Published metadata of the server."""

    def facts(self) -> dict[str, Any]:
        """Name, version and counts for the status page."""

    def open(
        self,
        transport: str,
        peer: str,
        push: Callable[[bytes], None] | None = None,
        principal: Principal = OPEN,
        is_heard: Callable[[], bool] | None = None,
    ) -> HostedDialogue:
        """Begin a dialogue.

        `push` receives messages that belong to no request. `is_heard` returns True while the client receives
        change notifications on this dialogue; None means always.
        """

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
    ) -> FrameChannel:
        """Begin a dialogue over frames.

        `write` receives the frames that are sent together and must not block. `opening` holds the headers of
        the HTTP request that began the dialogue; None without HTTP.
        """


class Site(Protocol):
    """A core as the HTTP transport sees it."""

    @property
    def replicas(self) -> ReplicaGroup | None:
        """Replicas that this core belongs to, or None if it shares no state."""

    @property
    def recorder(self) -> Recorder:
        """Recorder of all frames."""

    @property
    def rules(self) -> Rules:
        """Rules in effect now."""

    def endpoint(self, name: str, mode: str = "") -> Endpoint | None:
        """Return the server with that name, seen in a mode; the first server for an empty name.

        Raises: UnknownMode, which lists the server's modes.
        """

    @property
    def holds(self) -> Holds:
        """Holds for exchanges with upstream servers that wait for a person."""

    @property
    def watch(self) -> ExchangeWatch | None:
        """Observer of exchanges with upstream servers, or None."""

    @property
    def passed(self) -> Mapping[str, PassThrough]:
        """Pass-through servers, by name."""

    def endpoints(self) -> Sequence[Endpoint]:
        """Hosted servers, in order."""

    @property
    def state_dir(self) -> Path | None:
        """State folder, or None if no state outlives this process."""

    @property
    def jobs(self) -> HostedJobs:
        """Asynchronous calls of the core's clients."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the core started."""

    @property
    def operator(self) -> Operator:
        """Credential of the operator, and the browsers that signed in with it."""

    @property
    def unready(self) -> str:
        """Reason why a load balancer should send no new clients here, without an address.

        Empty if the core is ready.
        """

    @property
    def down(self) -> Sequence[str]:
        """Pass-through servers whose latest connection attempt failed."""

    @property
    def capture(self) -> CaptureHealth:
        """State of the capture: whether recorded frames reach a file."""

    def figures(self) -> Callable[[], Sequence[Figure]]:
        """Return a blocking function that counts the figures. Call it on a worker thread."""

    @property
    def board(self) -> Callable[[], LinkBoard] | None:
        """Function that builds the dashboard's data on any thread, or None without a dashboard."""
