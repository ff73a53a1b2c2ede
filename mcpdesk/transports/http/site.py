"""Interface of the core for the HTTP transport: its servers, rules and state."""

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
    from mcpdesk.hosting.endpoint import DialectEndpoint
    from mcpdesk.hosting.hosted_jobs import HostedJobs
    from mcpdesk.hosting.shared_core import SharedCore
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.protocol.catalogue.publication import Publication
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.interceptor import Interceptor
    from mcpdesk.recorder.record import CaptureHealth, Recorder
    from mcpdesk.server.calls.dialect import Dialect
    from mcpdesk.transports.base import PassThrough, Rules
    from mcpdesk.transports.metric import MetricFamily


class Endpoint(Protocol):
    """One server, as a transport uses it."""

    @property
    def name(self) -> str:
        """Name of the server, as in its URL."""

    @property
    def key(self) -> str:
        """Name of the server with its mode, such as `profiles?mode=review`. Unique within a core."""

    @property
    def unique_key(self) -> str:
        """Key that also differs between servers of one name in different folders."""

    def in_dialect(self, dialect: type[Dialect]) -> DialectEndpoint:
        """Return this server for clients that use a dialect."""

    @property
    def access(self) -> Access:
        """Access rules for callers of the server."""

    @property
    def refusal(self) -> str:
        """Message to every caller while the server is withheld, or "" if the server is served."""

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
        is_connected: Callable[[], bool] | None = None,
    ) -> HostedDialogue:
        """Open a dialogue.

        `push` is called with messages that belong to no request. `is_connected` returns True if this dialogue
        must send change notifications to the client. If it is None, this dialogue always sends them.
        """

    def channel(
        self,
        transport: str,
        peer: str,
        write: Callable[[Sequence[bytes]], None],
        opening: Mapping[str, str] | None = None,
        principal: Principal = OPEN,
    ) -> FrameChannel:
        """Open a dialogue over frames.

        `write` is called with frames that are sent together, and must not block. `opening` has the headers of
        the HTTP request that opened the dialogue, or is None without HTTP.
        """


class Site(Protocol):
    """A core, as the HTTP transport uses it."""

    @property
    def shared(self) -> SharedCore | None:
        """Connection to other cores with the same state, or None if this core shares nothing."""

    @property
    def recorder(self) -> Recorder:
        """Recorder of all frames."""

    @property
    def rules(self) -> Rules:
        """Rules in effect now."""

    def endpoint(self, name: str, mode: str = "") -> Endpoint | None:
        """Return the server with that name in a mode, or the first server if the name is empty.

        Raises: UnknownMode, which lists the server's modes.
        """

    @property
    def interceptor(self) -> Interceptor:
        """Interceptor of the messages of upstream servers."""

    @property
    def watch(self) -> ExchangeWatch | None:
        """Observer of exchanges with upstream servers, or None."""

    @property
    def pass_throughs(self) -> Mapping[str, PassThrough]:
        """Pass-through servers, by name."""

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the hosted servers, in order."""

    @property
    def state_dir(self) -> Path | None:
        """State folder, or None if no state is kept on disk."""

    @property
    def jobs(self) -> HostedJobs:
        """Asynchronous calls of the core's clients."""

    @property
    def uptime_s(self) -> float:
        """Seconds since the core started."""

    @property
    def operator(self) -> Operator:
        """The operator's key, and the browsers that signed in with it."""

    @property
    def unready(self) -> str:
        """Reason why new clients should not be sent here, or "" if the core is ready.

        The reason contains no address.
        """

    @property
    def down_servers(self) -> Sequence[str]:
        """Pass-through servers whose latest connection attempt failed."""

    @property
    def capture(self) -> CaptureHealth:
        """State of the capture file."""

    def figures(self) -> Callable[[], Sequence[MetricFamily]]:
        """Return a function that computes the metrics. Call it on a worker thread."""

    @property
    def feature_options(self) -> Mapping[str, str]:
        """Values of the command line options of features, by name. An option without a value is empty."""

    @property
    def front_end(self) -> Callable[[], FrontEnd] | None:
        """Function that opens a link for a front end, on any thread. None if the core has no front ends."""

    @property
    def own_front_end(self) -> Callable[[str], FrontEnd] | None:
        """Like `front_end`, but the link shows only this core and no other replicas.

        The argument is the name of the client whose requests the front end sends.
        """
