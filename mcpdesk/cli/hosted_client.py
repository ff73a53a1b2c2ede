"""A client of a server folder that is hosted for as long as a command runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcpdesk.cli.client import Client, can_ask
from mcpdesk.cli.options import server_folder
from mcpdesk.cli.printing import CANNOT_CONNECT, TIMED_OUT, tell
from mcpdesk.cli.reach import refusal
from mcpdesk.errors import DeskUserError, RemoteProtocolError

if TYPE_CHECKING:
    from mcpdesk.cli.terminal_questions import TerminalQuestions
    from mcpdesk.hosting.endpoint import HostedEndpoint
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.desk_call import DeskCall
    from mcpdesk.link.desk_client import DeskClient
    from mcpdesk.link.local_catalogue import ServerCatalogue
    from mcpdesk.link.values import CatalogueItem, Outcome, Progress

LOOK_S = 0.1
STRAYS = ("print", "stdout")
TROUBLE = ("warning", "error", "critical")


class HostedClient(Client):
    """Sends requests within this process."""

    def __init__(
        self, desk: DeskClient, shelf: ServerCatalogue, questions: TerminalQuestions | None = None
    ) -> None:
        """`questions` asks a person at a terminal; None: there is nobody to be asked."""
        super().__init__(lambda: _left_out(shelf))
        self._desk = desk
        self._questions = questions

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request."""
        call = self._desk.request(method, params)
        try:
            outcome = _followed(call, timeout_s, self._questions)
        except (NotInTime, KeyboardInterrupt) as error:
            call.cancel()
            if isinstance(error, KeyboardInterrupt):
                raise
            raise DeskUserError(
                f"No answer to {method} within {timeout_s:g} s.", "See --timeout.", TIMED_OUT
            ) from None
        if outcome.error is not None:
            told = outcome.error
            raise refusal(RemoteProtocolError(told["code"], told["message"], told.get("data")))
        return outcome.result or {}


@contextmanager
def hosted(target: str, mode: str = "", token: str | None = None) -> Iterator[HostedClient]:
    """A client of a server folder, which acts as whom the token is of. What its code prints goes to stderr.

    Raises: DeskError when it cannot be hosted, or the token does not count there.
    """
    from mcpdesk.cli.core_process import claiming
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.host import Host
    from mcpdesk.hosting.host_plan import HostPlan, effective_settings
    from mcpdesk.link.desk_answers import folder_roots
    from mcpdesk.link.desk_client import DeskClient
    from mcpdesk.link.local_catalogue import ServerCatalogue
    from mcpdesk.protocol.revisions import BY_NAME

    folder = server_folder(target)
    settings = effective_settings({}, os.environ, folder).settings
    host = Host(HostPlan((folder,), settings, http=False, meet=False, watch=False, mode=mode))
    with claiming(host, "wire") as claimed:
        # The core's thread imports the folder as well as running it: some objects, like a connection of
        # sqlite3, can be used only by the thread that made them.
        core = CoreThread(host)
        core.start()
        try:
            core.started.result()
            endpoint, revision = host.endpoints()[0], BY_NAME[settings.desk_revision]
            desk = DeskClient(endpoint, host.call_soon, lambda: folder_roots([folder]), revision)
            if token is not None:
                _give(desk, endpoint, token)
            yield HostedClient(desk, ServerCatalogue(endpoint.server), _questions(host, claimed.stdin_fd))
        finally:
            core.stop()
            tell_strays(host)


def _questions(host: Host, stdin_fd: int) -> TerminalQuestions | None:
    if not can_ask(stdin_fd):
        return None
    from mcpdesk.cli.terminal_questions import TerminalQuestions

    questions = TerminalQuestions(host.inbox, host.call_soon, stdin_fd)
    questions.attend()
    return questions


def _give(desk: DeskClient, endpoint: HostedEndpoint, token: str) -> None:
    """Raises: DeskUserError for a token that does not count, or would not be looked at."""
    if endpoint.access.verifier is None:
        hint = "In mcp.json auth.jwt says how tokens are checked."
        raise DeskUserError(f"{endpoint.name} looks at no tokens.", hint)
    try:
        desk.token.give(token).result()
    except ValueError as reason:
        told = f"The token does not count for {endpoint.name}: {reason}."
        raise DeskUserError(told, "See --token-env.", CANNOT_CONNECT) from None


def _left_out(shelf: ServerCatalogue) -> list[CatalogueItem]:
    return [item for item in shelf.catalogue().items if not item.definition]


def _followed(call: DeskCall, timeout_s: float, questions: TerminalQuestions | None) -> Outcome:
    """Wait for the outcome; a person at a terminal is told the progress meanwhile, and asked what tools ask.

    Raises: TimeoutError when it does not come in time, waiting for answers not counted.
    """
    if questions is None and not sys.stderr.isatty():
        return call.outcome.result(timeout_s)
    told: Progress | None = None
    end = time.monotonic() + timeout_s
    while True:
        try:
            return call.outcome.result(min(LOOK_S, max(0.0, end - time.monotonic())))
        except NotInTime:
            if time.monotonic() >= end:
                raise
        if questions is not None and (asked_s := questions.ask_waiting()):
            end += asked_s
            told = call.progress  # it said that somebody is being waited for
        if call.progress is not None and call.progress != told:
            told = call.progress
            tell(progress_line(told))


def progress_line(progress: Progress) -> str:
    """Progress in words: `3/10 reading`."""
    from mcpdesk.tui.render.safe_text import one_line

    of = f"/{progress.total:g}" if progress.total is not None else ""
    return f"{progress.progress:g}{of} {one_line(progress.message)}".rstrip()


def tell_strays(host: Host) -> None:
    """What the folder's code printed, and what is wrong with the folder, on stderr."""
    for line in host.journal.lines():
        if line.source in STRAYS or line.level in TROUBLE:
            place = f"{line.where}: " if line.where else ""
            tell(f"{place}{line.text}")
