"""Upstream servers of a core, and the pass-throughs with which clients reach them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mcpdesk.features import client_extensions
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.server.calls.services import Services
from mcpdesk.settings import Settings
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.client.connection import Questions
    from mcpdesk.client.roots import DeskRoots
    from mcpdesk.recorder.exchange_watch import ExchangeWatch
    from mcpdesk.recorder.interceptor import Interceptor
    from mcpdesk.recorder.record import ConnectionInfo
    from mcpdesk.upstream.channel_pass_through import ChannelPassThrough
    from mcpdesk.upstream.channels import Channels
    from mcpdesk.upstream.pass_through import UrlPassThrough
    from mcpdesk.upstream.upstream import Upstream, UpstreamPlan, UpstreamSite


class HostedUpstreams:
    """Upstream servers of one core. Used on the core's loop."""

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        recording: Recording,
        services: Services,
        roots: Callable[[], DeskRoots],
        interceptor: Callable[[], Interceptor],
        watch: Callable[[], ExchangeWatch | None],
        is_served: bool,
    ) -> None:
        """Create an empty set of upstream servers.

        `interceptor` returns the interceptor of messages, and creates it if necessary. `watch` returns the
        current observer of upstream exchanges, or None. `is_served` is True if the core listens for HTTP, so
        that clients can reach these servers.
        """
        self.by_name: dict[str, Upstream] = {}
        self.pass_throughs: dict[str, UrlPassThrough | ChannelPassThrough] = {}
        """Pass-throughs for clients, by name of the server."""
        self._settings = settings
        self._journal = journal
        self._recording = recording
        self._services = services
        self._roots = roots
        self._interceptor = interceptor
        self._watch = watch
        self._is_served = is_served
        self.wrap_questions: Callable[[str, Callable[[], Questions]], Callable[[], Questions]]
        self.wrap_questions = lambda name, questions: questions
        """Function that may replace the handlers of the questions of a server. Its arguments are the name of
        the server, and the function that returns the handlers of the inbox. Set it before servers are loaded.
        """
        self._logged_in: set[str] = set()
        """Names of servers for which a token of an earlier login is stored."""
        self._chores: set[asyncio.Task[None]] = set()

    @property
    def down_servers(self) -> list[str]:
        """Names of pass-through servers whose latest connection attempt failed."""
        return [name for name in self.pass_throughs if self.by_name[name].is_down]

    def unready(self, *, is_all: bool) -> str:
        """Return the reason why new clients should not be sent to the pass-through servers, or "" if no such
        reason exists.

        One reason is a server that has not completed its first connection attempt. Another is that all
        servers are down and the core serves nothing else (`is_all`). While a server reconnects, the result of
        its latest attempt counts.
        """
        if starting := [name for name in self.pass_throughs if self.by_name[name].is_down is None]:
            return f"{', '.join(starting)} is not connected yet"
        down = self.down_servers
        are_all_down = len(down) == len(self.pass_throughs) > 0
        return f"not connected: {', '.join(down)}" if is_all and are_all_down else ""

    def has_login(self, plan: UpstreamPlan) -> bool:
        """True if a token of an earlier login is stored, with which clients reach the server.

        Reads files. While the core serves, call it on a worker thread.
        """
        from mcpdesk.client.targets import UrlTarget
        from mcpdesk.upstream.pass_through import has_stored_login

        target = plan.target
        if not (self._is_served and isinstance(target, UrlTarget)):
            return False
        return has_stored_login(target, plan.reach, self._site.location)

    def load(self, plan: UpstreamPlan, has_login: bool) -> Upstream:
        """Add a server without connecting to it."""
        from mcpdesk.upstream.upstream import Upstream

        upstream = self.by_name[plan.name] = Upstream(plan, self._site)
        self._remember_login(plan.name, has_login)
        if self._is_served:
            self._create_pass_through(plan)
        return upstream

    async def log_in(self, name: str, on_change: Callable[[], None], token: str = "") -> None:
        """Start the login to a server at the screen, or use a token that the person entered.

        `on_change` is called when clients can reach the server with the new token.
        """
        if (upstream := self.by_name.get(name)) is None:
            return  # the server was removed in the meantime
        await (upstream.set_token(token) if token else upstream.log_in())
        if name not in self.pass_throughs:
            return
        has_login = await asyncio.to_thread(self.has_login, upstream.plan)
        if self.by_name.get(name) is not upstream:
            return  # removed in the meantime; another server may have its name
        self._remember_login(name, has_login)
        if (old_pass_through := self.pass_throughs.get(name)) is not None:
            self._create_pass_through(upstream.plan)
            on_change()
            await old_pass_through.close()

    def _remember_login(self, name: str, has_login: bool) -> None:
        """Store whether a login to a server exists."""
        if has_login:
            self._logged_in.add(name)
        else:
            self._logged_in.discard(name)

    def _create_pass_through(self, plan: UpstreamPlan, *, is_sse: bool = False) -> None:
        """Create the pass-through of a server. The pass-through uses the token of a login if a token is
        stored.
        """
        from mcpdesk.client.targets import CommandTarget, UrlTarget
        from mcpdesk.hosting.channel import next_connection
        from mcpdesk.upstream.pass_through import UrlPassThrough, UrlRequests, own_headers
        from mcpdesk.upstream.target_transport import guarded_program

        target, location = plan.target, self._site.location
        upstream = self.by_name[plan.name]
        has_login = plan.name in self._logged_in
        if isinstance(target, CommandTarget):
            from mcpdesk.upstream.channels import ProgramChannels

            channels: Channels = ProgramChannels(guarded_program(target), upstream.program_output)
        elif not isinstance(target, UrlTarget):
            return
        elif target.kind == "ws":
            from mcpdesk.upstream.channels import SocketChannels

            channels = SocketChannels(target.url, own_headers(target, plan.reach, location))
        elif target.kind == "sse" or is_sse:
            from mcpdesk.upstream.channels import SseChannels

            channels = SseChannels(UrlRequests(target, plan.reach, location, has_login))
        else:
            requests = UrlRequests(target, plan.reach, location, has_login)
            url_pass_through = UrlPassThrough(plan.name, requests, next_connection, upstream.offered)
            url_pass_through.leads = plan.leads
            self.pass_throughs[plan.name] = url_pass_through
            return
        from mcpdesk.upstream.channel_pass_through import ChannelPassThrough

        channel_pass_through = ChannelPassThrough(
            plan.name,
            channels,
            next_connection,
            self._settings.session_ttl_s,
            upstream.program_output.on_stray,
            upstream.input_schema,
            upstream.offered,
            allows_sessionless=plan.is_mock,
        )
        channel_pass_through.leads = plan.leads
        self.pass_throughs[plan.name] = channel_pass_through

    def _on_transport(self, info: ConnectionInfo) -> None:
        """Use the transport that connected also for clients, because some URLs support only HTTP+SSE."""
        from mcpdesk.upstream.pass_through import UrlPassThrough

        pass_through = self.pass_throughs.get(info.server)
        if info.transport == "sse" and isinstance(pass_through, UrlPassThrough):
            self._create_pass_through(self.by_name[info.server].plan, is_sse=True)
            self._start_chore(pass_through.close())

    def _on_restart(self, name: str) -> None:
        """Connect the clients of a program to its new process after a restart."""
        from mcpdesk.client.targets import CommandTarget
        from mcpdesk.upstream.channel_pass_through import ChannelPassThrough

        pass_through = self.pass_throughs.get(name)
        upstream = self.by_name.get(name)
        is_program = upstream is not None and isinstance(upstream.plan.target, CommandTarget)
        if is_program and isinstance(pass_through, ChannelPassThrough):
            self._start_chore(pass_through.restart())

    def _start_chore(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    @cached_property
    def _site(self) -> UpstreamSite:
        """Members of this core that upstream servers use."""
        from mcpdesk.hosting.channel import next_connection
        from mcpdesk.upstream.target_transport import ClientPlace
        from mcpdesk.upstream.upstream import UpstreamSite

        journal = self._journal
        return UpstreamSite(
            self._recording,
            ClientPlace(self._settings.state_dir, self._settings.api_key_header),
            {"name": "mcpdesk", "version": __version__},
            next_connection,
            self._questions_of,
            self._log,
            lambda text, failed: journal.notify(text, Severity.ERROR if failed else Severity.INFO),
            self._services.inbox,
            self._settings.connect_timeout_s,
            self._interceptor(),
            self._on_transport,
            self._on_restart,
            self._watch,
            client_extensions(),
        )

    def _log(self, level: str, source: str, text: str, server: str, at: float | None = None) -> None:
        self._journal.log(level, source, text, "", server, at=at)

    def _questions_of(self, name: str) -> Callable[[], Questions]:
        """Return the function that creates the handlers of a server's questions.

        A person answers the questions in the inbox.
        """
        from mcpdesk.client.person_answers import PersonAnswers

        timeout_s = self._settings.question_timeout_ms / 1000
        answers = PersonAnswers(name, self._services.inbox, lambda: timeout_s, self._roots().offered)
        return self.wrap_questions(name, answers.offered)
