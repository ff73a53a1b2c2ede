"""A client for tests that are plain functions: connects to any server, calls, and answers questions."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from mcpdesk.errors import DeskUserError
from mcpdesk.testing.case_files import DEFAULT_TIMEOUT_S, Case, Expectation, checked_answers
from mcpdesk.testing.case_run import CallAnswer, CaseResult, make_call
from mcpdesk.testing.connected_server import ConnectedServer, connected, in_memory

if TYPE_CHECKING:
    from mcpdesk.client.config_files import ConfigFile
    from mcpdesk.client.configs.servers import InputVariable

T = TypeVar("T")
CONNECT_S = 60.0
"""How long a server may take to be started and reached."""


class ServerUnderTest:
    """One server, for as long as the block runs; a folder is hosted in this process, with a state of its own.

    >>> with ServerUnderTest("servers/profiles") as client:
    ...     client.call("greet", name="Ada").text
    """

    def __init__(self, target: str | os.PathLike[str], *, mode: str = "") -> None:
        """`target` is whatever the commands take: a folder, a URL, `-- COMMAND`, a Python or JSON file.

        Raises: DeskError when it cannot be hosted, started or reached.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="desk-client", daemon=True)
        self._thread.start()
        self._opened: AbstractAsyncContextManager[ConnectedServer] | None = None
        place = os.fspath(target)
        try:
            opening = in_memory(Path(place), mode) if Path(place).is_dir() else _elsewhere(place, mode)
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
        """Call a tool, with arguments as keywords or in an object; `answers` are as in a case file.

        Never raises for what the server does: see `error` of what is returned.
        """
        return self._ask("tool", tool, {**(given or {}), **arguments}, answers, timeout_s)

    def read(self, uri: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> CallAnswer:
        """Read a resource."""
        return self._ask("resource", uri, {}, (), timeout_s)

    def prompt(self, name: str, /, *, timeout_s: float = DEFAULT_TIMEOUT_S, **arguments: str) -> CallAnswer:
        """Get a prompt."""
        return self._ask("prompt", name, arguments, (), timeout_s)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of any request. Raises: CallError without one."""
        return self._run(self._subject.connection.result(method, params), DEFAULT_TIMEOUT_S)

    def run(self, case: Case) -> CaseResult:
        """Run a case of a case file."""
        return self._run(self._subject.run(case), case.timeout_s + CONNECT_S)

    def close(self) -> None:
        """End the connection, and a server that runs for it."""
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


def _elsewhere(target: str, mode: str) -> AbstractAsyncContextManager[ConnectedServer]:
    from mcpdesk.client.targets import CommandTarget, FolderTarget, find_target
    from mcpdesk.settings import resolve
    from mcpdesk.upstream.target_transport import ClientPlace, ProgramEvents, Reach, target_transport

    command = target.removeprefix("-- ")
    found = (
        CommandTarget(tuple(shlex.split(command)))
        if command != target
        else find_target(target, os.environ, _no_input, _agree)
    )
    assert not isinstance(found, FolderTarget)
    settings, lines = resolve({}, os.environ).settings, list[str]()
    events = ProgramEvents(lines.append, lambda line: lines.append(line.decode("utf-8", "replace")))
    place = ClientPlace(settings.state_dir, settings.api_key_header)
    return connected(target_transport(found, Reach(mode), place, events), lambda: lines)


def _agree(config: ConfigFile) -> None:
    """Nobody can be asked while tests run. Raises: UntrustedFileError for a content without agreement."""
    from mcpdesk.client.trust import TrustStore, UntrustedFileError, untrusted
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    if not settings.trust and not TrustStore(settings.state_dir).is_trusted(config.path, config.sha256):
        raise UntrustedFileError(untrusted(config))


def _no_input(variable: InputVariable) -> str:
    raise DeskUserError(f"${{input:{variable.name}}} has to be typed in, and nobody is there.")
