"""Tests of MCP servers: case files, run by `mcpdesk test` and by pytest, and a client for tests in Python.

    def test_greeting(desk_client):
        client = desk_client("servers/profiles")
        assert client.call("greet", name="Ada").text == "Hello, Ada!"

        tea = client.call("order-tea", answers=[{"question": "Which tea", "answer": "Assam"}])
        assert not tea.error

If mcpdesk is installed in the same environment, pytest finds the fixtures `desk_client`,
`desk_client_module`, `desk_client_session` and `desk_snapshot`. Cases in the files that the ini option
`mcpdesk_cases` names become tests.
"""

from __future__ import annotations

from mcpdesk.testing.case_files import Case, Expectation, find_cases, read_cases
from mcpdesk.testing.case_run import CallAnswer, CaseResult
from mcpdesk.testing.sync_client import ServerUnderTest
from mcpdesk.testing.target_opening import ConnectOptions

__all__ = [
    "CallAnswer",
    "Case",
    "CaseResult",
    "ConnectOptions",
    "Expectation",
    "ServerUnderTest",
    "find_cases",
    "read_cases",
]
