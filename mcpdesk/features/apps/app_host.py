"""Opens the apps of one core, and ends apps whose page was closed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from mcpdesk.features.apps.open_apps import AppView, CloseApps, EndCall, OpenApp, OpenApps
from mcpdesk.hosting.host_part import HostPart

if TYPE_CHECKING:
    from mcpdesk.features.apps.app_pages import AppPages
    from mcpdesk.features.apps.app_session import AppSession
    from mcpdesk.hosting.host_part import StartedCore
    from mcpdesk.link.feature_part import Intent

MAX_APPS = 8
"""Maximum number of open apps of a core."""
MAX_CALL_BYTES = 16 << 20
"""Maximum total size in bytes of the arguments and the result that an app gets."""
UNUSED_S = 60.0
"""Seconds after which an app ends if its page was not opened, or was closed and not loaded again."""
_log = logging.getLogger(__name__)


class AppHost(HostPart):
    """Opens apps at the request of a front end."""

    def __init__(self, core: StartedCore) -> None:
        self._core = core
        self._apps: tuple[AppSession, ...] = ()
        self._pages: AppPages | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._unused_timers: dict[AppSession, asyncio.TimerHandle] = {}
        """Timers that end the apps whose page was not opened or was closed, by app."""

    @property
    def link_part(self) -> OpenApps:
        """Servers, and open apps."""
        servers = (*tuple(self._core.endpoints), *tuple(self._core.upstreams))
        return OpenApps(servers, tuple(AppView(each.server, each.uri, each.opened) for each in self._apps))

    def do(self, intent: Intent[Any]) -> str | bool | int:
        """Open an app, give it a result, or close all apps. Raises: ValueError."""
        match intent:
            case OpenApp():
                return self._open(intent)
            case EndCall(url, result, reason):
                session = self._pages.session(url) if self._pages is not None else None
                if session is None:
                    return False
                if len(result) > MAX_CALL_BYTES:
                    result = ""
                    reason = f"the result has more than {MAX_CALL_BYTES >> 20} MiB"
                if not result and not reason:
                    reason = "the call has no result"
                session.end_call(_parsed_object(result), reason)
                return True
            case _:
                assert isinstance(intent, CloseApps)
                count = len(self._apps)
                for each in self._apps:
                    self._start_task(self._close(each, "closed at the desk"))
                return count

    async def stop(self) -> None:
        """End all apps and their pages."""
        apps, self._apps = self._apps, ()
        for timer in self._unused_timers.values():
            timer.cancel()
        await asyncio.gather(*(each.close("the desk ends") for each in apps), return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._pages is not None:
            await self._pages.close()

    def _open(self, intent: OpenApp) -> str:
        """Open an app, and return the URL of its page. Raises: ValueError with the reason."""
        from mcpdesk.features.apps.app_pages import AppPages, loopback_sockets
        from mcpdesk.features.apps.app_resource import is_app_uri
        from mcpdesk.features.apps.app_session import AppSession, ToolRun
        from mcpdesk.features.apps.server_access import access_to

        if not is_app_uri(intent.uri):
            raise ValueError(f"{intent.uri[:200]} is not the URI of an app; it must begin with ui://")
        if len(self._apps) >= MAX_APPS:
            raise ValueError(f"{MAX_APPS} apps are already open; close the page of one")
        if len(intent.arguments) + len(intent.result) > MAX_CALL_BYTES:
            raise ValueError(f"The call has more than {MAX_CALL_BYTES >> 20} MiB")
        name = intent.tool or intent.uri.removeprefix("ui://")
        run = ToolRun(intent.tool, _parsed_object(intent.arguments), _parsed_object(intent.result))
        if self._pages is None:
            try:
                self._pages = AppPages(*loopback_sockets(), self._start_unused_timer, self._closed_by_person)
            except OSError as error:
                raise ValueError(f"The page cannot be served: {error.strerror}") from None
            self._start_task(self._pages.start())
        access = access_to(self._core, intent.server, f"app {name}"[:80])
        core = self._core
        session = AppSession(
            intent.server, intent.uri, run, access, core.recording, core.interceptor, core.journal
        )
        self._apps = (*self._apps, session)
        self._start_task(session.load())
        self._start_unused_timer(session)
        return self._pages.add(session)

    def _start_unused_timer(self, session: AppSession) -> None:
        """End an app if no page uses it for a while."""
        if session in self._apps:
            if session in self._unused_timers:
                self._unused_timers[session].cancel()
            loop = asyncio.get_running_loop()
            self._unused_timers[session] = loop.call_later(UNUSED_S, partial(self._end_if_unused, session))

    def _end_if_unused(self, session: AppSession) -> None:
        if session.link is None:
            self._start_task(self._close(session, "its page was closed"))

    def _closed_by_person(self, session: AppSession) -> None:
        self._start_task(self._close(session, "closed by the person"))

    async def _close(self, session: AppSession, reason: str) -> None:
        if session in self._apps:
            self._apps = tuple(each for each in self._apps if each is not session)
            self._unused_timers.pop(session).cancel()
            if self._pages is not None:
                self._pages.remove(session)
            await session.close(reason)

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._run_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_logged(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            _log.exception("an app failed")


def _parsed_object(text: str) -> dict[str, Any] | None:
    """Parse a JSON object. Return None if the text is empty, or is another JSON value.

    Raises: ValueError if the text is not JSON or is nested too deeply.
    """
    try:
        value = json.loads(text) if text else None
    except RecursionError:
        raise ValueError("The call is nested too deeply for an app") from None
    return value if isinstance(value, dict) else None
