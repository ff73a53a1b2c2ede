"""Servers that others have published, on a desk. What no registry gives here is skipped with the reason."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from mcpdesk.cli.desk_targets import desk_targets
from mcpdesk.client.targets import command_text
from mcpdesk.upstream.target_transport import Reach
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.registries import FETCH_S, needs_package, needs_python_package, why_not
from tests.support.trusting import agree

pytestmark = pytest.mark.slow

START_S = 60.0
"""Seconds that the start of a newly downloaded program may take."""
FASTMCP = """\
# /// script
# dependencies = ["{needs}"]
# ///
from {module} import {name}

server = {name}("published")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


@server.resource("data://greeting")
def greeting() -> str:
    return "hello"


@server.prompt()
def ask(topic: str) -> str:
    return f"What is {{topic}}?"
"""
FILES = {
    "fastmcp-2": ("fastmcp>=2,<3", "fastmcp", "FastMCP"),
    "fastmcp-4": ("fastmcp>=4,<5", "fastmcp", "FastMCP"),
    "sdk-1": ("mcp>=1,<2", "mcp.server.fastmcp", "FastMCP"),
    "sdk-2": ("mcp>=2,<3", "mcp.server.mcpserver", "MCPServer"),
}
EVERYTHING = "@modelcontextprotocol/server-everything"


class Case(Struct, frozen=True):
    """A published program, and a call with a part of the expected answer."""

    package: str
    arguments: tuple[str, ...]
    tool: str
    sent: dict[str, Any]
    answered: str


PROGRAMS = [
    Case(EVERYTHING, ("stdio",), "echo", {"message": "hi"}, "Echo: hi"),
    Case(
        "@modelcontextprotocol/server-filesystem",
        ("{folder}",),
        "list_directory",
        {"path": "{folder}"},
        "note",
    ),
    Case("@modelcontextprotocol/server-memory", (), "read_graph", {}, "entities"),
]


@asynccontextmanager
async def desk_with(*targets: str) -> AsyncIterator[RunningDesk]:
    """A desk on targets as they are typed, once every one of them is connected."""
    found = desk_targets(targets, Reach(), agree=agree)
    async with running_desk(*found.folders, upstreams=found.upstreams) as desk:
        await until(lambda: all(state != "connecting" for state in states(desk)), START_S)
        assert states(desk) == ["ready"] * len(targets), [one.problems for one in desk.view().servers]
        yield desk


def states(desk: RunningDesk) -> list[str]:
    """State of each upstream server."""
    return [one.upstream.state for one in desk.view().servers if one.upstream is not None]


async def call(desk: RunningDesk, server: str, method: str, **params: Any) -> str:
    """The result, as text, of a request of the desk's."""
    return str(await desk.answer_of(server, method, params))


@pytest.mark.parametrize("case", PROGRAMS, ids=lambda case: case.package.rpartition("/")[2])
async def test_a_published_program_is_called_from_the_desk(case: Case, tmp_path: Path) -> None:
    needs_package(case.package)
    (tmp_path / "note").touch()
    filled = [word.format(folder=tmp_path) for word in case.arguments]
    async with desk_with(command_text(["npx", "-y", case.package, *filled])) as desk:
        [server] = desk.view().servers
        assert not server.problems
        sent = {name: value.format(folder=tmp_path) for name, value in case.sent.items()}
        assert case.answered in await call(desk, server.name, "tools/call", name=case.tool, arguments=sent)


@pytest.mark.parametrize(("way", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_a_published_listener_is_found_by_its_url(way: str, path: str) -> None:
    needs_package(EVERYTHING)
    port = free_port()
    async with (
        listening(["npx", "-y", EVERYTHING, way], port),
        desk_with(f"http://127.0.0.1:{port}{path}") as desk,
    ):
        [server] = desk.view().servers
        assert not server.problems
        sent = {"name": "echo", "arguments": {"message": "hi"}}
        assert "Echo: hi" in await call(desk, server.name, "tools/call", **sent)
        assert "architecture" in await call(desk, server.name, "resources/list")
        assert "messages" in await call(desk, server.name, "prompts/get", name="simple-prompt")


@pytest.mark.parametrize("kind", FILES)
async def test_a_python_file_of_either_framework_runs_in_what_it_requires(kind: str, tmp_path: Path) -> None:
    needs, module, name = FILES[kind]
    needs_python_package(needs)
    file = tmp_path / "published.py"
    file.write_text(FASTMCP.format(needs=needs, module=module, name=name))
    async with desk_with(str(file)) as desk:
        [server] = desk.view().servers
        assert not server.problems
        assert "5" in await call(desk, server.name, "tools/call", name="add", arguments={"a": 2, "b": 3})
        assert "hello" in await call(desk, server.name, "resources/read", uri="data://greeting")
        assert "What is rain?" in await call(
            desk, server.name, "prompts/get", name="ask", arguments={"topic": "rain"}
        )


async def test_two_desks_on_one_url_are_two_clients_and_one_leaves_without_the_other() -> None:
    needs_package(EVERYTHING)
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    sent = {"name": "echo", "arguments": {"message": "hi"}}
    async with listening(["npx", "-y", EVERYTHING, "streamableHttp"], port), desk_with(url) as first:
        name = first.view().servers[0].name
        async with desk_with(url) as second:
            both = await asyncio.gather(*(call(desk, name, "tools/call", **sent) for desk in (first, second)))
            assert all("Echo: hi" in answer for answer in both)
        assert "Echo: hi" in await call(first, name, "tools/call", **sent)


# The clients of the other SDK, through the tap

CLIENTS = {
    "@modelcontextprotocol/sdk@1": ("client/index.js", "client/stdio.js"),
    "@modelcontextprotocol/client@2": ("", "stdio"),
}
CONVERSATION = """\
import {{ Client }} from "{client}";
import {{ StdioClientTransport }} from "{stdio}";
const [command, ...args] = process.argv.slice(2);
const client = new Client({{ name: "conversation", version: "1" }}, {{ capabilities: {{}} }});
await client.connect(new StdioClientTransport({{ command, args, env: process.env, stderr: "ignore" }}));
const {{ tools }} = await client.listTools();
const echoed = await client.callTool({{ name: "echo", arguments: {{ message: "\\u2028 and \\u00e6" }} }});
const {{ resources }} = await client.listResources();
await client.readResource({{ uri: resources[0].uri }});
await client.getPrompt({{ name: "simple-prompt" }});
await client.callTool({{ name: "no such tool", arguments: {{}} }}).catch(() => undefined);
console.log(JSON.stringify({{ tools: tools.length, echoed }}));
await client.close();
"""


@pytest.mark.parametrize("package", CLIENTS)
def test_the_conversation_of_a_typescript_client_is_the_same_on_both_sides_of_the_tap(
    package: str, tmp_path: Path
) -> None:
    needs_package(EVERYTHING)
    install = ("npm", "install", "--silent", "--no-save", "--prefix", str(tmp_path), package)
    if reason := why_not(*install):
        pytest.skip(f"{package}: {reason}")
    name = package.rpartition("@")[0]
    client, stdio = ("/".join(filter(None, (name, path))) for path in CLIENTS[package])
    script = tmp_path / "conversation.mjs"
    script.write_text(CONVERSATION.format(client=client, stdio=stdio))
    tee = [sys.executable, str(Path(__file__).parents[1] / "support/tee_pipe.py")]
    tap = [sys.executable, "-m", "mcpdesk", "stdio", "--"]
    server = ["npx", "-y", EVERYTHING, "stdio"]
    passed = [*tee, str(tmp_path / "outer"), *tap, *tee, str(tmp_path / "inner"), *server]
    done = subprocess.run(
        ["node", str(script), *passed],
        capture_output=True,
        text=True,
        timeout=FETCH_S,
        env=os.environ,
        check=True,
    )
    assert "\\u2028" in done.stdout.encode("unicode_escape").decode() and "Echo" in done.stdout
    for side in ("in", "out"):
        outer, inner = (tmp_path / f"{place}.{side}" for place in ("outer", "inner"))
        assert len(outer.read_bytes()) > 500 and outer.read_bytes() == inner.read_bytes()


def answers(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def listening(command: Sequence[str], port: int) -> AsyncIterator[None]:
    """A program that listens on a port, and ends with the block."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PORT": str(port)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await until(lambda: process.returncode is not None or answers(port), START_S)
        assert process.returncode is None
        yield
    finally:
        os.killpg(process.pid, 9)
        await process.wait()
