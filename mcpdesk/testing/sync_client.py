"""Client for tests that are plain functions: connects to any server, calls, and answers questions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, TypeVar, Unpack

from mcpdesk.testing.case_files import DEFAULT_TIMEOUT_S, Case, Expectation, checked_answers
from mcpdesk.testing.case_run import CallAnswer, CaseResult, make_call
from mcpdesk.testing.connected_server import ConnectedServer
from mcpdesk.testing.target_opening import ConnectOptions, opened

T = TypeVar("T")
CONNECT_S = 60.0
"""Time limit for starting a server and connecting to it."""


class ServerUnderTest:
    """One server, for the duration of a block. A folder is hosted in this process, with separate state.

    >>> with ServerUnderTest("servers/profiles", revision="2025-11-25") as client:
    ...     client.call("greet", name="Ada").text

    Options are the ones of `ConnectOptions`: mode, revision, headers, token, environment and others.
    """

    def __init__(self, target: Any, **options: Unpack[ConnectOptions]) -> None:
        """Connect to a target.

        `target` is a target as in the commands (a folder, a URL, `-- COMMAND`, a Python or JSON file), or a
        server object of FastMCP or the official SDK, which is served in this process.

        Raises: DeskError if it cannot be hosted, started or reached; TypeError for an unknown option.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="desk-client", daemon=True)
        self._thread.start()
        self._opened: AbstractAsyncContextManager[ConnectedServer] | None = None
        try:
            opening = opened(target, options)
            self._subject = self._run(opening.__aenter__(), CONNECT_S)
            self._opened = opening
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ServerUnderTest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        tool: str,
        given: Mapping[str, Any] | None = None,
        /,
        *,
        answers: Sequence[Mapping[str, Any]] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
        **arguments: Any,
    ) -> CallAnswer:
        """Call a tool, with arguments as keywords or in a mapping; `answers` are as in a case file.

        Never raises for errors of the server: see `error` of the result.
        """
        return self._ask("tool", tool, {**(given or {}), **arguments}, answers, timeout_s)

    def read(self, uri: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> CallAnswer:
        """Read a resource."""
        return self._ask("resource", uri, {}, (), timeout_s)

    def prompt(self, name: str, /, *, timeout_s: float = DEFAULT_TIMEOUT_S, **arguments: str) -> CallAnswer:
        """Get a prompt."""
        return self._ask("prompt", name, arguments, (), timeout_s)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send any request and return its result. Raises: CallError."""
        return self._run(self._subject.connection.result(method, params), DEFAULT_TIMEOUT_S)

    @property
    def revision(self) -> str:
        """Name of the negotiated revision."""
        return self._run(self._subject.connection.open(), CONNECT_S).revision.name

    def run(self, case: Case) -> CaseResult:
        """Run a case of a case file."""
        return self._run(self._subject.run(case), case.timeout_s + CONNECT_S)

    def close(self) -> None:
        """Close the connection, and stop a server that was started for it."""
        opened, self._opened = self._opened, None
        try:
            if opened is not None:
                self._run(opened.__aexit__(None, None, None), CONNECT_S)
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CONNECT_S)
            if not self._thread.is_alive():
                self._loop.close()

    def _ask(
        self,
        kind: str,
        target: str,
        arguments: Mapping[str, Any],
        answers: Sequence[Mapping[str, Any]],
        timeout_s: float,
    ) -> CallAnswer:
        script = checked_answers([dict(each) for each in answers], "answers")
        case = Case(target, kind, target, dict(arguments), script, Expectation(), timeout_s, "")
        subject = self._subject
        answer = self._run(make_call(case, subject.connection, subject.answers), timeout_s + CONNECT_S)
        unanswered = [*subject.answers.failures, *subject.answers.left()]
        assert not unanswered, "\n".join(unanswered)
        return answer

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()
