"""Commands that use a folder already hosted by a process: they connect to it, except with `--alone`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.transports import rendezvous
from tests.cli.conftest import Service
from tests.support.features import having
from tests.support.folders import write
from tests.support.patience import WITHIN_S
from tests.support.stdio_server import PROGRAM, Server

if TYPE_CHECKING:
    from tests.cli.conftest import Run

pytestmark = pytest.mark.slow
FILES = {
    "mcp.json": """
        {"name": "tea", "builtins": ["SetCallback", "BackgroundBash", "ReadBgOutput"],
         "modes": {"look": {"tools": ["who"]}}}
        """,
    "tools/tools.py": '''
        import os

        from mcpdesk import Context, tool

        @tool(read_only=True)
        async def who() -> str:
            """The process that answers."""
            return str(os.getpid())

        @tool(requires_env="NO_SUCH_VARIABLE")
        async def closed() -> str:
            """Not offered."""
            return ""

        @tool
        async def sure(ctx: Context) -> str:
            """Ask the client."""
            schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
            return str(await ctx.elicit("Sure?", schema))
        ''',
    "resources/place.py": '''
        import os

        from mcpdesk import resource

        @resource("tea://place", mime_type="text/plain")
        async def place() -> str:
            """The process that answers."""
            return str(os.getpid())
        ''',
    "prompts/where.py": '''
        import os

        from mcpdesk import prompt

        @prompt
        async def where() -> str:
            """The process that answers."""
            return str(os.getpid())
        ''',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tea", FILES)


@pytest.fixture
def service(folder: Path, serve: Callable[..., Service]) -> Service:
    """The process that hosts the folder."""
    started = serve(str(folder), "--port", "0", "--no-auth")
    started.says("serving tea")
    return started


def test_every_request_is_answered_by_the_process_that_hosts_the_folder(
    mcpdesk: Run, folder: Path, service: Service
) -> None:
    for command in (["call", "{}", "who"], ["read", "{}", "tea://place"], ["prompt", "{}", "where"]):
        words = [each.format(folder) for each in command]
        there, alone = mcpdesk(*words), mcpdesk(*words, "--alone")
        assert (there.stdout.strip(), there.stderr, there.returncode) == (str(service.process.pid), "", 0)
        assert alone.returncode == 0 and alone.stdout.strip().isdigit()
        assert alone.stdout != there.stdout
    listed = mcpdesk("list", str(folder))
    assert "\n  who " in listed.stdout and "tool closed" in listed.stdout
    assert "needs NO_SUCH_VARIABLE" in listed.stdout
    found = json.loads(mcpdesk("list", str(folder), "--mode", "look", "--json").stdout)
    assert [each["name"] for each in found["tools"]] == ["who"]
    unknown = mcpdesk("call", str(folder), "who", "--mode", "wild")
    alone = mcpdesk("call", str(folder), "who", "--mode", "wild", "--alone")
    assert unknown.returncode == alone.returncode == 2
    assert "has no mode 'wild'" in unknown.stderr and unknown.stderr.splitlines()[0] in alone.stderr
    with_token = mcpdesk("call", str(folder), "who", "--token-env", "TOKEN", TOKEN="x.y.z")
    assert with_token.returncode == 2 and "tea does not accept tokens" in with_token.stderr
    asked = mcpdesk("call", str(folder), "sure")
    assert asked.returncode == 4 and "elicitation" in asked.stderr
    for checking in having("contract", "check"):
        checked = mcpdesk(checking, str(folder))
        assert f"process {service.process.pid} hosts the folder now" in checked.stderr


def test_what_a_call_begins_goes_on_in_the_process_that_hosts_the_folder(
    mcpdesk: Run, folder: Path, service: Service
) -> None:
    begun = mcpdesk("call", str(folder), "BackgroundBash", "command=echo steeping; sleep 600")
    assert begun.returncode == 0, begun.stderr
    read = mcpdesk("call", str(folder), "ReadBgOutput", "task_id=1", "--json")
    task = json.loads(read.stdout)["structuredContent"]["task"]
    assert task["status"] == "running" and Path(task["output_file"]).exists()
    called = mcpdesk(
        "call", str(folder), "SetCallback", "action=set", "message=tea is ready", "delay_seconds=1"
    )
    assert called.returncode == 0 and called.stderr == ""
    service.says("callback: tea is ready")


def test_the_host_fires_what_another_process_set_and_both_say_that_the_other_one_is_there(
    mcpdesk: Run, folder: Path, service: Service
) -> None:
    called = mcpdesk(
        "call", str(folder), "SetCallback", "action=set", "message=tea is ready", "delay_seconds=1", "--alone"
    )
    pid = service.process.pid
    assert called.returncode == 0
    assert f"1 callback waits in the state folder; process {pid}, which also hosts {folder}" in called.stderr
    service.says("also hosts the folder")
    service.says("callback: tea is ready")


def test_alone_a_callback_waits_and_a_program_is_refused_instead_of_ended(mcpdesk: Run, folder: Path) -> None:
    called = mcpdesk("call", str(folder), "SetCallback", "action=set", "message=x", "delay_seconds=1")
    assert f"1 callback waits in the state folder until a process hosts {folder}" in called.stderr
    refused = mcpdesk("call", str(folder), "BackgroundBash", "command=sleep 600")
    assert refused.returncode == 1 and "would end with this call" in refused.stdout
    listed = mcpdesk("call", str(folder), "SetCallback", "action=list", "--json")
    [callback] = json.loads(listed.stdout)["structuredContent"]["callbacks"]
    assert callback["fired"] == 0 and "callback" not in listed.stderr
    assert mcpdesk("call", "http://127.0.0.1:9/mcp", "who", "--alone").returncode == 3


@pytest.fixture
def clients(folder: Path) -> Iterator[list[Server]]:
    """Two stdio clients, each with a separate process."""
    started = [Server(folder, "--alone") for _ in range(2)]
    yield started
    for each in started:
        each.close()


def test_two_stdio_processes_notice_each_other_and_the_end(folder: Path, clients: list[Server]) -> None:
    first, second = clients
    first.shake_hands()
    second.shake_hands()
    told = f"process {second.process.pid} also hosts the folder".encode()
    assert any(told in line for line in iter(first.stderr.readline, b""))
    assert second.end()[0] == 0
    gone = f"process {second.process.pid} no longer uses the state files".encode()
    assert any(gone in line for line in iter(first.stderr.readline, b""))


def test_a_process_that_does_not_answer_is_told_and_the_call_is_made_alone(
    mcpdesk: Run, folder: Path
) -> None:
    place = rendezvous.listen_for_folder(folder)  # accepts connections into its backlog, and reads nothing
    assert place is not None
    try:
        called = mcpdesk("call", str(folder), "who")
    finally:
        place.leave()
    assert called.returncode == 0 and called.stdout.strip().isdigit()
    assert "served by a separate process: the process that hosts the folder does not answer" in called.stderr


def test_watch_follows_the_process_that_hosts_the_folder(
    mcpdesk: Run, folder: Path, service: Service
) -> None:
    watch = subprocess.Popen(
        [*PROGRAM, "watch", str(folder), "--json", "--resource", "callback://1"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdout is not None and watch.stderr is not None
    try:
        assert watch.stderr.readline() == "watching; ctrl+c ends it\n"
        mcpdesk("call", str(folder), "SetCallback", "action=set", "message=tea is ready", "delay_seconds=1")
        assert any("callback://1" in line for line in watch.stdout)
    finally:
        watch.terminate()
        watch.wait(WITHIN_S)
        watch.stdout.close()
        watch.stderr.close()
