"""The client that `call`, `list`, `read` and `prompt` ask a server through: at a URL, or of a folder."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.cli.options import HERE, Reach, folder_needs_no_key, hinted, is_url, refusal, server_folder
from mcpdesk.cli.printing import CANNOT_CONNECT, TIMED_OUT, tell
from mcpdesk.client.connection import CallObserver, ServerConnection
from mcpdesk.errors import DeskUserError, HttpError, RemoteProtocolError, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode

if TYPE_CHECKING:
    from mcpdesk.cli.terminal_questions import TerminalQuestions
    from mcpdesk.client.connection import Questions
    from mcpdesk.hosting.host import Host
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.link.desk_client import DeskClient
    from mcpdesk.link.values import CatalogueItem

T = TypeVar("T")
POLL_S = 0.1
"""Seconds between two checks for questions and progress."""
CLOSE_S = 5.0
STRAYS = ("print", "stdout")
TROUBLE = ("warning", "error", "critical")


def client(target: str, reach: Reach = HERE) -> AbstractContextManager[CommandClient]:
    """A client of the server at a URL, or of a server folder, hosted for as long as the block runs.

    What a folder's code prints goes to stderr. Raises: DeskError when it cannot be hosted, or reached.
    """
    if is_url(target):
        return _remote(target, reach)
    from mcpdesk.cli.core_process import require_unix

    require_unix("Hosting a folder for one request")
    folder_needs_no_key(reach)
    return _hosted(target, reach)


class CommandClient:
    """Sends requests on the loop of another thread; a person at a terminal is asked on this one."""

    def __init__(
        self,
        connection: ServerConnection,
        loop: asyncio.AbstractEventLoop,
        questions: TerminalQuestions | None = None,
        left_out: Callable[[], Sequence[CatalogueItem]] = tuple,
    ) -> None:
        """`questions` asks the person at the terminal; None when there is none."""
        self.left_out = left_out
        """What the server would offer, and does not."""
        self._connection = connection
        self._loop = loop
        self._questions = questions

    def request(self, method: str, params: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The result of one request.

        Raises: RemoteProtocolError for a JSON-RPC error; CallError without an answer; DeskUserError when none
        came in time, or the server wants a key or token.
        """
        progress = _ProgressLines() if sys.stderr.isatty() else None
        work = self._connection.result(method, params, observer=progress)
        return self._run(work, method, timeout_s, progress)

    def request_all(self, method: str, key: str, timeout_s: float) -> list[dict[str, Any]]:
        """The items of all pages of a list; none when the server does not offer this kind."""
        try:
            return self._run(self._connection.list_all(method, key), method, timeout_s)
        except RemoteProtocolError as error:
            if error.code == ErrorCode.METHOD_NOT_FOUND:
                return []
            raise

    def _run(
        self,
        work: Coroutine[Any, Any, T],
        method: str,
        timeout_s: float,
        progress: _ProgressLines | None = None,
    ) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return self._wait(future, timeout_s, progress)
        except TimeoutError:
            raise DeskUserError(
                f"{method}: no answer within {timeout_s:g} s.", "See --timeout.", TIMED_OUT
            ) from None
        except HttpError as error:
            raise hinted(error) from None
        except RpcError as error:
            raise refusal(RemoteProtocolError(error.code, error.message, error.data)) from None
        finally:
            future.cancel()

    def _wait(self, future: Future[T], timeout_s: float, progress: _ProgressLines | None) -> T:
        """Wait for the outcome. Meanwhile ask what tools ask, and print the progress.

        Raises: TimeoutError when it does not come in time, waiting for answers not counted.
        """
        if self._questions is None and progress is None:
            return future.result(timeout_s)
        end = time.monotonic() + timeout_s
        while True:
            try:
                return future.result(min(POLL_S, max(0.0, end - time.monotonic())))
            except TimeoutError:
                if future.done() or time.monotonic() >= end:
                    raise
            if self._questions is not None and (asked_s := self._questions.ask_waiting()):
                end += asked_s
                if progress is not None:
                    progress.latest = ""  # it said that the tool waits for a person
            if progress is not None:
                progress.print()


class _ProgressLines(CallObserver):
    """Prints the latest progress of a call, each once."""

    def __init__(self) -> None:
        self.latest = ""
        self._printed = ""

    def progressed(self, progress: float, total: float | None, message: str) -> None:
        """Keep the latest."""
        self.latest = progress_line(progress, total, message)

    def print(self) -> None:
        """Print what is new."""
        if self.latest and self.latest != self._printed:
            self._printed = self.latest
            tell(self.latest)


def progress_line(progress: float, total: float | None, message: str) -> str:
    """Progress in words: `3/10 reading`."""
    from mcpdesk.tui.render.safe_text import one_line

    of = f"/{total:g}" if total is not None else ""
    return f"{progress:g}{of} {one_line(message)}".rstrip()


@contextmanager
def _remote(url: str, reach: Reach) -> Iterator[CommandClient]:
    """A client of the server at `url`. Raises: DeskUserError for no URL."""
    from mcpdesk.client.http_transports import StreamableHttp, credential_headers
    from mcpdesk.inbox.inbox import Inbox
    from mcpdesk.link.desk_answers import DeskAnswers
    from mcpdesk.plain_text import clean
    from mcpdesk.settings import resolve
    from mcpdesk.version import __version__

    settings, inbox = resolve({}, os.environ).settings, Inbox()
    headers = credential_headers(reach.token, reach.key, settings.api_key_header)
    transport = StreamableHttp(url, headers, reach.mode)
    answers = DeskAnswers(clean(transport.target), inbox, lambda: settings.question_timeout_ms / 1000)
    questions: Questions = {"elicitation/create": answers.elicit} if can_ask() else {}
    identity = {"name": "mcpdesk", "version": __version__}
    connection = ServerConnection(transport, identity, questions=lambda: questions)
    with _loop_in_thread() as loop:
        try:
            yield CommandClient(connection, loop, _terminal(inbox, loop.call_soon_threadsafe, 0))
        finally:
            asyncio.run_coroutine_threadsafe(connection.close(), loop).result(CLOSE_S)


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop on a thread of its own, while the block runs."""
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), ended))
        await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="mcpdesk-client", daemon=True)
    thread.start()
    loop, ended = started.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(CLOSE_S)


@contextmanager
def _hosted(target: str, reach: Reach) -> Iterator[CommandClient]:
    """A client of a server folder, acting as the owner of the token. What its code prints goes to stderr.

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
    host = Host(HostPlan((folder,), settings, http=False, meet=False, watch=False, mode=reach.mode))
    with claiming(host, "wire") as claimed:
        # The core's thread imports the folder as well as running it: some objects, like a connection of
        # sqlite3, can be used only by the thread that made them.
        core = CoreThread(host)
        core.start()
        try:
            core.started.result()
            endpoint, revision = host.endpoints()[0], BY_NAME[settings.desk_revision]
            desk = DeskClient(endpoint, host.call_soon, lambda: folder_roots([folder]), revision)
            if reach.token is not None:
                _give_token(desk, endpoint.name, endpoint.access.verifier is not None, reach.token)
            loop: Future[asyncio.AbstractEventLoop] = Future()
            host.call_soon(lambda: loop.set_result(asyncio.get_running_loop()))
            catalogue = ServerCatalogue(endpoint.server)
            yield CommandClient(
                desk.server,
                loop.result(),
                _terminal(host.inbox, host.call_soon, claimed.stdin_fd),
                lambda: [item for item in catalogue.catalogue().items if not item.definition],
            )
        finally:
            core.stop()
            tell_strays(host)


def _give_token(desk: DeskClient, server: str, checks_tokens: bool, token: str) -> None:
    """Raises: DeskUserError for an invalid token, or a server that checks none."""
    if not checks_tokens:
        hint = "In mcp.json auth.jwt says how tokens are checked."
        raise DeskUserError(f"{server} looks at no tokens.", hint)
    try:
        desk.token.give(token).result()
    except ValueError as reason:
        message = f"The token does not count for {server}: {reason}."
        raise DeskUserError(message, "See --token-env.", CANNOT_CONNECT) from None


def can_ask(stdin_fd: int = 0) -> bool:
    """Whether a person at a terminal can be asked: they read stderr and type into `stdin_fd`."""
    return os.isatty(stdin_fd) and sys.stderr is not None and sys.stderr.isatty()


def _terminal(
    inbox: Inbox, run: Callable[[Callable[[], object]], object], stdin_fd: int
) -> TerminalQuestions | None:
    """What asks the person at this terminal, if there is one."""
    if not can_ask(stdin_fd):
        return None
    from mcpdesk.cli.terminal_questions import TerminalQuestions

    questions = TerminalQuestions(inbox, run, stdin_fd)
    questions.attend()
    return questions


def tell_strays(host: Host) -> None:
    """Print on stderr what the folder's code printed, and what is wrong with the folder."""
    for line in host.journal.lines():
        if line.source in STRAYS or line.level in TROUBLE:
            place = f"{line.where}: " if line.where else ""
            tell(f"{place}{line.text}")
