"""Builds the client transport for a server from its target and connection options."""

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
"""Terminal width for a program's log, unless its environment sets one. Rich would draw tracebacks into
part of its default of 80 columns."""


class Reach(NamedTuple):
    """Connection options from the command line. Secrets come from environment variables."""

    mode: str = ""
    token: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Additional headers of every HTTP request."""
    revision: str = ""
    """Revision to speak; empty for the newest that both sides know."""
    packages: tuple[str, ...] = ()
    """Packages that a Python file needs in addition to those it declares."""
    account: str = ""
    """Account whose login is used, if a person has several for one URL."""
    login: LoginOptions = NO_OPTIONS
    """Login options for a URL."""
    trusts_files: bool = False
    """True if the person trusts the named configuration files."""

    @property
    def is_remote(self) -> bool:
        """True if any option is set that applies only to servers that are not folders."""
        given = (self.key, self.headers, self.revision, self.packages, self.account)
        return any(given) or self.login != NO_OPTIONS


def login_options(target: UrlTarget, reach: Reach) -> LoginOptions:
    """Return the login options for a URL: from the command line, else from the configuration file."""
    return target.login if reach.login == NO_OPTIONS else reach.login


class ClientPlace(NamedTuple):
    """Folder in which a client stores its logins, and the name of the header for its key."""

    state_dir: Path
    key_header: str


class ProgramEvents(NamedTuple):
    """Callbacks for the output and the end of a program."""

    on_log: Callable[[str], None]
    """Receives each line of its stderr."""
    on_stray: Callable[[bytes], None]
    """Receives each line of its stdout that is not a message."""
    on_ended: Callable[[ProgramEnded], None] = lambda ended: None


class Unusable(ClientTransport):
    """Transport of a target that cannot be used."""

    def __init__(self, problem: str) -> None:
        self.target = ""
        self._problem = problem

    async def open(self, receive: Receive) -> None:
        """Raises: CallError with the reason."""
        raise CallError(self._problem)

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Raises: CallError with the reason."""
        raise CallError(self._problem)

    async def send(self, message: JSONObject) -> None:
        """Raises: CallError with the reason."""
        raise CallError(self._problem)

    async def close(self) -> None:
        """Do nothing: no connection was opened."""


def target_transport(
    target: RemoteTarget, reach: Reach, place: ClientPlace, events: ProgramEvents
) -> ClientTransport:
    """Return the transport to a server. Raises: DeskUserError for invalid options."""
    if isinstance(target, BrokenTarget):
        return Unusable(target.problem)
    if isinstance(target, CommandTarget):
        return _program(target, reach, events)
    return _url(target, reach, place)


def _url(target: UrlTarget, reach: Reach, place: ClientPlace) -> ClientTransport:
    """Return the transport to a server behind a URL, with the tokens of an earlier login."""
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
    """Return the transport to a program, which ends with this process.

    Raises: DeskUserError for options that programs do not support.
    """
    from mcpdesk.client.child_process import ChildProcess
    from mcpdesk.jobs.child import GUARD

    if reach.mode or reach.token or reach.key or reach.headers:
        message = "A program cannot receive a mode, token, key or header."
        raise DeskUserError(message, "Use its arguments or its environment instead.")
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
    """Return the command of a target, marked for the guard that ends it after we exit."""
    from mcpdesk.client.child_process import ProgramCommand
    from mcpdesk.jobs.child import GUARD
    from mcpdesk.jobs.process_table import with_mark

    width = {"COLUMNS": str(LOG_WIDTH)}
    environment = with_mark({**width, **os.environ, **target.environment}, GUARD.mark())
    return ProgramCommand(target.argv, environment, target.folder)
