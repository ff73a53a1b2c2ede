"""The environment of a stdio client, whichever process answers it: real processes, real pipes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stdio_server import PROGRAM

if TYPE_CHECKING:
    from tests.cli.conftest import Service

    Serve = Callable[..., Service]

pytestmark = pytest.mark.process
TOOL = '''
import os

from mcpdesk import Context


async def who(ctx: Context) -> dict:
    """The process that answers, and the tenant."""
    return {"pid": os.getpid(), "context": ctx.context["tenant"], "program": ctx.environment.get("TENANT")}
'''
READS = '''

async def tenant() -> str:
    """The tenant in the environment of the process."""
    return os.environ.get("TENANT", "none")
'''
CONTEXT = 'def create_context(request):\n    return {"tenant": request.environment.get("TENANT")}\n'
INFO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def folder_with(path: Path, tool: str) -> Path:
    (path / "tools").mkdir(parents=True)
    (path / "mcp.json").write_text('{"name": "envs"}')
    (path / "tools" / "tools.py").write_text(tool)
    (path / "context.py").write_text(CONTEXT)
    return path


def asked(folder: Path, *tools: str, **environ: str) -> tuple[list[Any], str]:
    """Results of these tools for a client with additional variables, and the program's stderr."""
    messages: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": INFO},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}
          for number, name in enumerate(tools, 1)),
    ]  # fmt: skip
    lines = b"".join(json.dumps({"jsonrpc": "2.0"} | each).encode() + b"\n" for each in messages)
    done = subprocess.run(
        [*PROGRAM, "stdio", str(folder)], input=lines, capture_output=True, env={**os.environ, **environ},
        timeout=120, check=True,
    )  # fmt: skip
    answers = {each["id"]: each for each in map(json.loads, done.stdout.splitlines()) if "id" in each}
    texts = [answers[number]["result"]["content"][0]["text"] for number in range(1, len(tools) + 1)]
    return texts, done.stderr.decode()


def test_requests_have_the_environment_of_the_client_that_a_desk_serves(tmp_path: Path, serve: Serve) -> None:
    folder = folder_with(tmp_path / "envs", TOOL)
    service = serve(str(folder), "--port", "0")
    service.says("serving envs")
    for tenant in ("acme", "other"):
        (text,), _ = asked(folder, "who", TENANT=tenant, MCPDESK_API_KEY="secret")
        found = json.loads(text)
        assert found == {"pid": service.process.pid, "context": tenant, "program": tenant}


def test_a_client_whose_variables_the_code_reads_is_served_by_a_process_of_its_own(
    tmp_path: Path, serve: Serve
) -> None:
    folder = folder_with(tmp_path / "envs", TOOL + READS)
    service = serve(str(folder), "--port", "0")
    service.says("serving envs")
    texts, said = asked(folder, "tenant", "who", TENANT="acme")
    assert texts[0] == "acme" and json.loads(texts[1])["pid"] != service.process.pid
    assert "served by a separate process: code of envs reads TENANT" in said
    service.says("is served by a separate process: code of envs reads TENANT")
    texts, said = asked(folder, "tenant", "who")
    assert texts[0] == "none" and json.loads(texts[1])["pid"] == service.process.pid and not said
