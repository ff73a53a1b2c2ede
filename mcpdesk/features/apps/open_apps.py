"""State of the open apps of a core, and requests to open and close them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from msgspec import Struct

from mcpdesk.link.feature_part import FeaturePart, FeatureStates, Intent


def json_text(value: Any) -> str:
    """Return the JSON of the arguments or the result of a call. Raises: ValueError."""
    from mcpdesk.errors import ProtocolError
    from mcpdesk.protocol import codec

    try:
        return codec.encode(value).decode()
    except ProtocolError:
        raise ValueError("the call is nested too deeply for an app") from None


class OpenApp(Intent[str], frozen=True):
    """Open an app. The result is the URL of its page.

    Raises: ValueError if the server does not exist, or too many apps are open.
    """

    for_one_core: ClassVar[bool] = True

    server: str
    uri: str
    tool: str = ""
    """Tool whose result the app shows. Empty if the app was opened without a tool."""
    arguments: str = ""
    """Arguments of the call as JSON, or "" if the tool was not called."""
    result: str = ""
    """Result of the call as JSON, or "" if it has not ended."""

    def is_possible(self, core: FeatureStates) -> bool:
        """Return True if the core has the server."""
        return self.server in core.feature_part(OpenApps).servers

    @property
    def key(self) -> None:
        """None, because the request sets nothing."""


class EndCall(Intent[bool], frozen=True):
    """Give the result of a call to an app that was opened while the call ran."""

    url: str
    """URL of the app's page."""
    result: str
    """Result as JSON, or "" if the call failed or was cancelled."""
    reason: str = ""
    """Reason why the call has no result."""

    @classmethod
    def combined(cls, results: Sequence[bool]) -> bool:
        """Return True if one of the cores has the app."""
        return any(results)

    @property
    def key(self) -> None:
        """None, because the request sets nothing."""


class CloseApps(Intent[int], frozen=True):
    """Close all apps. The result is their number."""

    @classmethod
    def combined(cls, results: Sequence[int]) -> int:
        """Return the number of apps of all cores."""
        return sum(results)

    @property
    def key(self) -> None:
        """None, because cores that join later have no apps to close."""


class AppView(Struct, frozen=True):
    """One open app."""

    server: str
    uri: str
    opened: float
    """Unix time in seconds."""


class OpenApps(FeaturePart, frozen=True):
    """Apps of a core."""

    part_name: ClassVar[str] = "apps"
    intents: ClassVar[Sequence[type[Intent[Any]]]] = (OpenApp, EndCall, CloseApps)

    servers: tuple[str, ...] = ()
    """Servers whose apps can be opened."""
    apps: tuple[AppView, ...] = ()

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Return the servers and apps of all cores."""
        servers = tuple(each for part in parts for each in part.servers)
        return cls(servers, tuple(each for part in parts for each in part.apps))
