"""Creation of the client transport for a server, from its target and the connection options."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions
from mcpdesk.client.targets import BrokenTarget, CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.client.child_process import ProgramCommand, ProgramEnded
    from mcpdesk.client.transport import ClientTransport


LOG_WIDTH = 120
"""Terminal width for the log of a program, unless its environment sets one.

With the default of 80 columns, the library rich would leave too little space for tracebacks.
"""


class Reach(NamedTuple):
    """Connection options from the command line. Secrets come from environment variables."""

    mode: str = ""
    token: str | None = None
    key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Additional headers of every HTTP request."""
    revision: str = ""
    """Protocol revision to use. Empty for the newest that both sides support."""
    packages: tuple[str, ...] = ()
    """Packages that a Python file needs in addition to those that the file declares."""
    account: str = ""
    """Account whose login is used, if the person has several for one URL."""
    login: LoginOptions = NO_OPTIONS
    """Login options for a URL."""
    trusts_files: bool = False
    """True if the person trusts the configuration files that were named."""

    @property
    def is_remote(self) -> bool:
        """True if an option is set that has an effect only on upstream servers, not on server folders."""
        options = (self.key, self.headers, self.revision, self.packages, self.account)
        return any(options) or self.login != NO_OPTIONS


def login_options(target: UrlTarget, reach: Reach) -> LoginOptions:
    """Return the login options for a URL. Options of the command line replace those of the configuration
    file.
    """
    return target.login if reach.login == NO_OPTIONS else reach.login


class ClientPlace(NamedTuple):
    """Folder where a client stores its logins, and name of the header for its API key."""

    state_dir: Path
    key_header: str


class ProgramEvents(NamedTuple):
    """Functions that are called with the output of a program."""

    on_log: Callable[[str], None]
    """Function that is called with each line of stderr."""
    on_stray: Callable[[bytes], None]
    """Function that is called with each line of stdout that is not a message."""
    on_ended: Callable[[ProgramEnded], None] = lambda ended: None
    """Function that is called when the program has ended."""


def target_transport(
    target: RemoteTarget, reach: Reach, client_place: ClientPlace, events: ProgramEvents
) -> ClientTransport:
    """Return the transport to a server. Raises: DeskUserError for invalid options."""
    if isinstance(target, BrokenTarget):
        from mcpdesk.upstream.unusable import Unusable

        return Unusable(target.problem)
    if isinstance(target, CommandTarget):
        return _program_transport(target, reach, events)
    return _url_transport(target, reach, client_place)


def _url_transport(target: UrlTarget, reach: Reach, client_place: ClientPlace) -> ClientTransport:
    """Return the transport to a URL. It uses the tokens of an earlier login."""
    from mcpdesk.client.credentials import credential_headers
    from mcpdesk.client.http_transports import HttpRequests, HttpSse, StreamableHttp
    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.stored_grants import open_grants
    from mcpdesk.client.web_socket import WebSocket

    extra_headers = dict(target.headers) | dict(reach.headers)
    headers = credential_headers(reach.token, reach.key, client_place.key_header, extra_headers)
    if target.kind == "ws":
        return WebSocket(target.url, headers)
    authorizer = None
    if not any(name.lower() == "authorization" for name in headers):
        grants = open_grants(client_place.state_dir, target.account or reach.account)
        authorizer = Authorizer(target.url, login_options(target, reach), grants)
    if target.kind == "sse":
        return HttpSse(
            HttpRequests(target.url, headers, reach.mode, authorizer=authorizer, keeps_cookies=True)
        )
    return StreamableHttp(target.url, headers, reach.mode, authorizer=authorizer)


def _program_transport(target: CommandTarget, reach: Reach, events: ProgramEvents) -> ClientTransport:
    """Return the transport to a program. The program ends when this process ends.

    Raises: DeskUserError for options that programs do not support.
    """
    from mcpdesk.client.child_process import ChildProcess
    from mcpdesk.jobs.child import GUARD

    if reach.mode or reach.token or reach.key or reach.headers:
        message = "A program cannot receive a mode, token, key or header."
        raise DeskUserError(message, "Use its arguments or its environment instead.")
    guarded_groups: list[int] = []  # process groups that the guard process will end if this process dies

    def on_started(group: int) -> None:
        guarded_groups.append(group)
        GUARD.watch(group)

    def on_ended(program_end: ProgramEnded) -> None:
        GUARD.release(guarded_groups.pop())
        events.on_ended(program_end)

    return ChildProcess(
        guarded_program(target),
        on_log=events.on_log,
        on_stray=events.on_stray,
        on_started=on_started,
        on_ended=on_ended,
    )


def guarded_program(target: CommandTarget) -> ProgramCommand:
    """Return the command of a target. A guard process will end it after this process has ended."""
    from mcpdesk.client.child_process import ProgramCommand
    from mcpdesk.jobs.child import GUARD
    from mcpdesk.jobs.process_table import with_mark

    variables = {"COLUMNS": str(LOG_WIDTH), **os.environ, **target.environment}
    environment = with_mark(variables, GUARD.new_mark())
    return ProgramCommand(target.argv, environment, target.folder)
