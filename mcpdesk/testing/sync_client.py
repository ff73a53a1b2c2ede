"""Client for tests that are plain functions: connects to any server, calls, and answers questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Unpack

from mcpdesk.connect import blocking
from mcpdesk.testing.case_files import DEFAULT_TIMEOUT_S, Case, Expectation, checked_answers
from mcpdesk.testing.case_run import CallAnswer, CaseResult, make_call
from mcpdesk.testing.connected_server import CONNECT_S
from mcpdesk.testing.target_opening import ConnectOptions, opened


class ServerUnderTest:
    """One server, for the duration of a block. A folder is hosted in this process, with separate state.

    >>> with ServerUnderTest("servers/profiles", revision="2025-11-25") as client:
    ...     client.call("greet", name="Ada").text

    The options are the members of `ConnectOptions`: mode, revision, headers, token, environment and others.
    """

    def __init__(self, target: Any, **options: Unpack[ConnectOptions]) -> None:
        """Connect to a target.

        `target` is a target as in the commands (a folder, a URL, `-- COMMAND`, a Python or JSON file), or a
        server object of FastMCP or the official SDK, which is served in this process.

        Raises: DeskError if the server cannot be hosted, started or reached; TypeError for an unknown option.
        """
        self._exit_stack = ExitStack()
        self._blocking = self._exit_stack.enter_context(blocking(opened(target, options), limit_s=CONNECT_S))
        self._connected_server = self._blocking.server

    def __enter__(self) -> ServerUnderTest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(
        self,
        tool: str,
        argument_mapping: Mapping[str, Any] | None = None,
        /,
        *,
        answers: Sequence[Mapping[str, Any]] = (),
        timeout_s: float = DEFAULT_TIMEOUT_S,
        **arguments: Any,
    ) -> CallAnswer:
        """Call a tool. Arguments are given as keywords or in a mapping. `answers` has the same form as in a
        case file.

        Never raises for errors of the server: see `error` of the result.
        """
        return self._ask("tool", tool, {**(argument_mapping or {}), **arguments}, answers, timeout_s)

    def read(self, uri: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> CallAnswer:
        """Read a resource."""
        return self._ask("resource", uri, {}, (), timeout_s)

    def prompt(self, name: str, /, *, timeout_s: float = DEFAULT_TIMEOUT_S, **arguments: str) -> CallAnswer:
        """Get a prompt."""
        return self._ask("prompt", name, arguments, (), timeout_s)

    def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send any request and return its result. Raises: CallError."""
        return self._blocking.run(self._connected_server.connection.result(method, params), DEFAULT_TIMEOUT_S)

    @property
    def revision(self) -> str:
        """Name of the negotiated revision."""
        return self._blocking.run(self._connected_server.connection.open(), CONNECT_S).revision.name

    def run(self, case: Case) -> CaseResult:
        """Run a case of a case file."""
        return self._blocking.run(self._connected_server.run(case), case.timeout_s + CONNECT_S)

    def close(self) -> None:
        """Close the connection, and stop a server that was started for it."""
        self._exit_stack.close()

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
        server = self._connected_server
        call = make_call(case, server.connection, server.answers)
        answer = self._blocking.run(call, timeout_s + CONNECT_S)
        unanswered = [*server.answers.failures, *server.answers.unused_answers()]
        assert not unanswered, "\n".join(unanswered)
        return answer
