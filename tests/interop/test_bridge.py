"""The bridge with servers of the official SDK: stateless, in a session, and over the first transport."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.bridge import Client, client_tools, format_result
from tests.bridge.conftest import HANDSHAKE

pytestmark = pytest.mark.slow
SERVER = Path(__file__).parents[1] / "support" / "official_server.py"


@contextmanager
def official(way: str, path: str) -> Iterator[str]:
    """The URL of a server that runs until the block ends."""
    process = subprocess.Popen(
        [sys.executable, str(SERVER), way],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}{path}"
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def streamable() -> Iterator[str]:
    """A server over Streamable HTTP."""
    with official("http", "/mcp") as url:
        yield url


@pytest.fixture(scope="module")
def sessions() -> Iterator[str]:
    """URL of a server that supports only handshakes."""
    with official("session", "/mcp") as url:
        yield url


@pytest.fixture(scope="module")
def older() -> Iterator[str]:
    """One over the transport of 2024-11-05."""
    with official("sse", "/sse") as url:
        yield url


@pytest.fixture(params=["2026-07-28", "2025-11-25", "2024-11-05"])
async def client(request: pytest.FixtureRequest, streamable: str, older: str) -> AsyncIterator[Client]:
    """A client that speaks a revision of each kind with it."""
    async with Client(older if request.param == "2024-11-05" else streamable) as made:
        if request.param == "2025-11-25":
            made._reach = HANDSHAKE
        assert (await made.connect())["revision"] == request.param
        yield made


async def test_official_server_says_what_it_is(client: Client) -> None:
    told = await client.connect()
    assert (told["name"], told["instructions"]) == ("official", "Be official.")


async def test_its_tools_are_listed_and_called(client: Client) -> None:
    assert [tool["name"] for tool in await client.list_tools()] == ["add", "steps", "refuse", "ask"]
    assert (await client.call_tool("add", {"a": 1, "b": 2}))["structuredContent"] == {"sum": 3}
    assert format_result(await client.call_tool("steps")) == "done"


async def test_its_failures_are_results(client: Client) -> None:
    assert (await client.call_tool("refuse"))["isError"]
    assert (await client.call_tool("add", {"a": "x"}))["isError"]


async def test_its_tools_are_functions_for_a_model(client: Client) -> None:
    tools = await client_tools(client)
    assert '"sum": 3' in await tools["add"](a=1, b=2)
    assert tools.schemas.remarks == []


@pytest.mark.parametrize(
    ("action", "told"), [("accept", "accept Ada"), ("decline", "decline"), ("cancel", "cancel")]
)
@pytest.mark.parametrize(("fixture", "revision"), [("streamable", "2026-07-28"), ("sessions", "2025-11-25")])
async def test_what_its_tools_ask_is_answered(
    request: pytest.FixtureRequest, fixture: str, revision: str, action: str, told: str
) -> None:
    asked = []

    async def elicit(params: Mapping[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return {"action": action} | ({"content": {"name": "Ada"}} if action == "accept" else {})

    async with Client(request.getfixturevalue(fixture), on_elicit=elicit) as client:
        assert (await client.connect())["revision"] == revision
        assert format_result(await client.call_tool("ask")) == told
    assert asked == ["Who are you?"]
