"""Checks of logins in a core. A front end requests the checks, and reads their results.

A lane is the sequence of checks of one server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from msgspec import Struct

from mcpdesk.hosting.host_part import HostPart
from mcpdesk.link.feature_part import FeaturePart, FeatureStates, Intent

if TYPE_CHECKING:
    from mcpdesk.client.targets import UrlTarget
    from mcpdesk.hosting.host_part import StartedCore
    from mcpdesk.upstream.upstream import Upstream

NO_LOGIN = "has no login, because it is not a remote server"
_LOG = logging.getLogger(__name__)


class CheckLogin(Intent[bool], frozen=True):
    """Check the login at one upstream server. The result is in `LoginLanes`.

    Returns False if a check of this server is already running. Raises: ValueError for a server without a
    login.
    """

    for_one_core: ClassVar[bool] = True
    server: str
    renews: bool = False
    """True to renew the token, even if it is valid."""

    def is_possible(self, core: FeatureStates) -> bool:
        """Return True if the core has the server."""
        return self.server in core.feature_part(LoginLanes).servers

    @property
    def key(self) -> None:
        """None, because the request sets nothing."""


class LoginLane(Struct, frozen=True):
    """Newest check of the login at one server."""

    server: str
    number: int
    """Number of checks that have ended."""
    lines: tuple[str, ...] = ()
    """Report of the newest check that has ended. The lines contain no unsafe characters."""


class LoginLanes(FeaturePart, frozen=True):
    """Checks of logins in a core."""

    part_name: ClassVar[str] = "login_lanes"
    intents: ClassVar[Sequence[type[Intent[Any]]]] = (CheckLogin,)

    servers: tuple[str, ...] = ()
    """Servers that may have a login."""
    lanes: tuple[LoginLane, ...] = ()

    def of(self, server: str) -> LoginLane:
        """Return the checks of one server."""
        return next((each for each in self.lanes if each.server == server), LoginLane(server, 0))

    @classmethod
    def merged(cls, parts: Sequence[Self]) -> Self:
        """Return the checks of all cores."""
        return cls(
            tuple(name for part in parts for name in part.servers),
            tuple(lane for part in parts for lane in part.lanes),
        )


def _url_target(upstream: Upstream) -> UrlTarget | None:
    """Return the target of a remote server, or None for any other server."""
    from mcpdesk.client.targets import UrlTarget

    target = upstream.plan.target
    return target if isinstance(target, UrlTarget) else None


class LoginChecks(HostPart):
    """Checks the logins of one core."""

    def __init__(self, core: StartedCore) -> None:
        self._core = core
        self._lanes: dict[str, LoginLane] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def link_part(self) -> LoginLanes:
        """Servers with a login, and their checks."""
        upstreams = list(self._core.upstreams.items())
        names = tuple(name for name, each in upstreams if _url_target(each) is not None)
        return LoginLanes(names, tuple(self._lanes.values()))

    def do(self, intent: Intent[Any]) -> bool:
        """Begin a check. Return False if one of the same server is running. Raises: ValueError."""
        assert isinstance(intent, CheckLogin)
        upstream = self._core.upstreams.get(intent.server)
        target = None if upstream is None else _url_target(upstream)
        if upstream is None or target is None:
            raise ValueError(f"{intent.server} {NO_LOGIN}")
        task = self._tasks.get(intent.server)
        if task is not None and not task.done():
            return False
        check = self._check(upstream, target, intent.renews)
        self._tasks[intent.server] = asyncio.get_running_loop().create_task(check)
        return True

    async def _check(self, upstream: Upstream, target: UrlTarget, renews: bool) -> None:
        from mcpdesk.client.oauth.stored_grants import open_grants
        from mcpdesk.features.doctor.login_check import LoginPlan, check_login
        from mcpdesk.features.doctor.login_text import login_lines
        from mcpdesk.upstream.target_transport import login_options

        plan = upstream.plan
        try:
            options = login_options(target, plan.reach)
            store = await asyncio.to_thread(open_grants, self._core.settings.state_dir, plan.account)
            report = await check_login(
                LoginPlan(target.url, target.url, options, store, renews, account=plan.account)
            )
            lines = tuple(login_lines(report))
        except Exception:  # the page must not wait forever
            _LOG.exception("the login could not be checked")
            lines = ("mcpdesk has a bug: the login could not be checked.",)
        number = self._lanes.get(plan.name, LoginLane(plan.name, 0)).number + 1
        self._lanes[plan.name] = LoginLane(plan.name, number, lines)

    async def stop(self) -> None:
        """End the running checks."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
