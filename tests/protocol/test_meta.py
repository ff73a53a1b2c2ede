"""Names in `_meta` that authors choose."""

from __future__ import annotations

import pytest

from mcpdesk.protocol.meta import check_names

NAMES = ["colour", "a", "9", "a.b-c_d", "example.org/colour", "com.example.mcp/", "ui", "x-y.z1/n", "mcp/x"]


def test_ordinary_names_pass() -> None:
    check_names(NAMES)


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a b", "a/b/c", "/a", "1a/b", "a..b/c", "a-/b", "grün", "a\n", ".a", "a."]
)
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        check_names([*NAMES, name])


RESERVED = """
    io.modelcontextprotocol/own dev.mcp/x com.mcp.tools/ mcp.dev/x modelcontextprotocol.io/x progressToken
    traceparent
"""


@pytest.mark.parametrize("name", RESERVED.split())
def test_names_of_the_protocol_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="belongs to the protocol"):
        check_names([name])
