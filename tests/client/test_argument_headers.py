"""Headers that repeat arguments, from the client's side."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcpdesk.client.flows import argument_headers, without_invalid_headers
from mcpdesk.protocol.headers import check_parameters, mirrored

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "place": {"type": "object", "properties": {"floor": {"type": "integer", "x-mcp-header": "Floor"}}},
        "fast": {"type": "boolean", "x-mcp-header": "Fast"},
    },
}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "eu"}, {"mcp-param-region": "eu"}),
        ({"region": " x "}, {"mcp-param-region": "=?base64?IHgg?="}),
        ({"region": None, "fast": False}, {"mcp-param-fast": "false"}),
        ({"place": {"floor": -7}}, {"mcp-param-floor": "-7"}),
        ({"place": "upstairs"}, {}),
        ({}, {}),
    ],
)
def test_arguments_become_headers_a_server_accepts(arguments: Any, headers: dict[str, str]) -> None:
    assert argument_headers(SCHEMA, arguments) == headers
    check_parameters(mirrored(SCHEMA), arguments, headers)


def test_tool_with_a_wrong_mark_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    wrong = {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
    tools = [{"name": "good", "inputSchema": SCHEMA}, {"name": "bad", "inputSchema": wrong}]
    with caplog.at_level(logging.WARNING, "mcpdesk.client"):
        assert without_invalid_headers(tools) == tools[:1]
    assert "'bad' is left out" in caplog.text
