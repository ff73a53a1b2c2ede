"""Sign-in and sign-out of browsers, at the request of a front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mcpdesk.hosting.host_part import HostPart
from mcpdesk.link.feature_part import FeaturePart, FeatureStates, Intent

if TYPE_CHECKING:
    from mcpdesk.hosting.host_part import StartedCore

NOT_SERVED = "The dashboard is not served on TCP here."


class SignInLink(Intent[str], frozen=True):
    """Return a URL of the dashboard. A one-time code in the URL signs in one browser.

    Raises: ValueError if the core does not serve the dashboard on TCP.
    """

    for_one_core: ClassVar[bool] = True

    def is_possible(self, core: FeatureStates) -> bool:
        """Return True if the core serves the dashboard on TCP."""
        return core.feature_part(BrowserView).is_served

    @property
    def key(self) -> None:
        """None, because cores that join later must not repeat the request."""


class SignOutBrowsers(Intent[int], frozen=True):
    """Sign out all browsers, and invalidate all unused links. The result is the number of browsers."""

    @classmethod
    def combined(cls, results: Sequence[int]) -> int:
        """Return the number of browsers of all cores."""
        return sum(results)

    @property
    def key(self) -> None:
        """None, because cores that join later have no browsers to sign out."""


class BrowserView(FeaturePart, frozen=True):
    """State of the dashboard of a core."""

    part_name: ClassVar[str] = "dashboard"
    intents: ClassVar[Sequence[type[Intent[Any]]]] = (SignInLink, SignOutBrowsers)

    is_served: bool = False
    """True if the core serves the dashboard on TCP, where browsers can sign in."""

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Return a state whose `is_served` is True if it is True for any core."""
        return cls(any(part.is_served for part in parts))


class BrowserAccess(HostPart):
    """Signs browsers of one core in and out."""

    def __init__(self, core: StartedCore) -> None:
        self._core = core

    @property
    def link_part(self) -> BrowserView:
        """Current state of the dashboard."""
        return BrowserView(self._core.sign_in() is not None)

    def do(self, intent: Intent[Any]) -> str | int:
        """Return a link that signs in a browser, or sign out all browsers. Raises: ValueError."""
        if isinstance(intent, SignOutBrowsers):
            return self._core.operator.revoke_all()
        if (make_link := self._core.sign_in()) is None:
            raise ValueError(NOT_SERVED)
        return make_link()
