"""From what was named as a server, and how it is to be reached, to the transport that leads there."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions
from mcpdesk.client.targets import BrokenTarget, CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.client.transport import ClientTransport, Receive, ServerReply
from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.protocol.jsonrpc import JSONObject

if TYPE_CHECKING:
    from mcpdesk.client.child_process import ProgramCommand, ProgramEnded


LOG_WIDTH = 120
"""Columns that a program is told to have for its log, unless it is told otherwise: rich would draw its
tracebacks into a third of the 80 it takes for granted."""


class Reach(NamedTuple):
    """How to reach a server, from the command line. Secrets come from environment variables."""

    mode: str = ""
    token: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers of every HTTP request."""
    revision: str = ""
    """The revision to speak; empty: the newest both know."""
    packages: tuple[str, ...] = ()
    """What a Python file needs besides what it says itself."""
    account: str = ""
    """Whose login is used, where a person has several for one URL."""
    login: LoginOptions = NO_OPTIONS
    """How to log in to a URL."""
    trusts_files: bool = False
    """The person agrees to the configuration files that are named."""

    @property
    def is_remote(self) -> bool:
        """Whether anything was said that only counts for a server that is not a folder."""
        given = (self.key, self.headers, self.revision, self.packages, self.account)
        return any(given) or self.login != NO_OPTIONS


def login_options(target: UrlTarget, reach: Reach) -> LoginOptions:
    """How to log in to a URL: as flags say, else as its entry in a configuration file says."""
    return target.login if reach.login == NO_OPTIONS else reach.login


class ClientPlace(NamedTuple):
    """Where a client keeps its logins, and the header in which it sends a key."""

    state_dir: Path
    key_header: str


class ProgramEvents(NamedTuple):
    """Who is told what a program that is a server does."""

    on_log: Callable[[str], None]
    """Gets each line of its stderr."""
    on_stray: Callable[[bytes], None]
    """Gets each line of its stdout that is no message."""
    on_ended: Callable[[ProgramEnded], None] = lambda ended: None


class Unusable(ClientTransport):
    """A way to a server that there is not."""

    def __init__(self, problem: str) -> None:
        self.target = ""
        self._problem = problem

    async def open(self, receive: Receive) -> None:
        """Raises: CallError saying why."""
        raise CallError(self._problem)

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Raises: CallError saying why."""
        raise CallError(self._problem)

    async def send(self, message: JSONObject) -> None:
        """Raises: CallError saying why."""
        raise CallError(self._problem)

    async def close(self) -> None:
        """There is nothing to close."""


def target_transport(
    target: RemoteTarget, reach: Reach, place: ClientPlace, events: ProgramEvents
) -> ClientTransport:
    """The transport to a server. Raises: DeskUserError for what cannot be used."""
    if isinstance(target, BrokenTarget):
        return Unusable(target.problem)
    if isinstance(target, CommandTarget):
        return _program(target, reach, events)
    return _url(target, reach, place)


def _url(target: UrlTarget, reach: Reach, place: ClientPlace) -> ClientTransport:
    """The transport to a server behind a URL; tokens of an earlier login are used."""
    from mcpdesk.client.credentials import credential_headers
    from mcpdesk.client.http_transports import HttpRequests, HttpSse, StreamableHttp
    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.stored_grants import open_grants
    from mcpdesk.client.web_socket import WebSocket

    more = dict(target.headers) | dict(reach.headers)
    headers = credential_headers(reach.token, reach.key, place.key_header, more)
    if target.kind == "ws":
        return WebSocket(target.url, headers)
    authorizer = None
    if not any(name.lower() == "authorization" for name in headers):
        grants = open_grants(place.state_dir, target.account or reach.account)
        authorizer = Authorizer(target.url, login_options(target, reach), grants)
    if target.kind == "sse":
        return HttpSse(HttpRequests(target.url, headers, reach.mode, authorizer=authorizer))
    return StreamableHttp(target.url, headers, reach.mode, authorizer=authorizer)


def _program(target: CommandTarget, reach: Reach, events: ProgramEvents) -> ClientTransport:
    """The transport to a program, which ends with this process.

    Raises: DeskUserError for options that mean nothing to a program.
    """
    from mcpdesk.client.child_process import ChildProcess
    from mcpdesk.jobs.child import GUARD

    if reach.mode or reach.token or reach.key or reach.headers:
        message = "A program gets no mode, no token, no key and no header."
        raise DeskUserError(message, "Give it what it needs in its arguments or its environment.")
    groups: list[int] = []

    def started(group: int) -> None:
        groups.append(group)
        GUARD.watch(group)

    def ended(how: ProgramEnded) -> None:
        GUARD.release(groups.pop())
        events.on_ended(how)

    return ChildProcess(
        guarded_program(target),
        on_log=events.on_log,
        on_stray=events.on_stray,
        on_started=started,
        on_ended=ended,
    )


def guarded_program(target: CommandTarget) -> ProgramCommand:
    """The program of a target, marked so that the guard ends it and what it started when we are gone."""
    from mcpdesk.client.child_process import ProgramCommand
    from mcpdesk.jobs.child import GUARD
    from mcpdesk.jobs.process_table import with_mark

    width = {"COLUMNS": str(LOG_WIDTH)}
    environment = with_mark({**width, **os.environ, **target.environment}, GUARD.mark())
    return ProgramCommand(target.argv, environment, target.folder)
