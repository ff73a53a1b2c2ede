"""The sample chat program runs whole tool loops, in both APIs, against folders and against servers."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.bridge import Client, format_result
from mcpdesk.paths import sample_servers
from tests.cli.conftest import Service, started_services
from tests.support.folders import write
from tests.support.patience import within
from tests.support.scripted import Seen, http, scripted
from tests.support.scripted import json as json_answer

CHAT = sample_servers() / "chat"
ANSWER = 'I say: Hello, Ada! The word count is {"words":2,"characters":11,"longest":"Hello,"}.\n'
Serve = Callable[..., Service]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts services, and ends them after the test."""
    with started_services() as start:
        yield start


async def chat(*arguments: str, **environ: str) -> tuple[int, str, list[dict[str, Any]], str]:
    """Run the program; return its exit code, its answer, the messages on stderr, and the last line there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(CHAT), *arguments, cwd="/", env={**os.environ, **environ},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with within():
        out, err = await process.communicate()
    lines = err.decode().splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{")]
    return process.returncode or 0, out.decode(), told, lines[-1] if lines else ""


@pytest.mark.process
async def test_loop_of_chat_completions_runs_to_its_end() -> None:
    code, answer, told, _ = await chat("Please greet Ada")
    assert (code, answer) == (0, ANSWER)
    assert [message["role"] for message in told] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert told[1]["tool_calls"][0]["function"] == {"name": "greet", "arguments": '{"name": "Ada"}'}
    assert told[2] == {"role": "tool", "tool_call_id": "call_0", "content": "Hello, Ada!"}


@pytest.mark.process
async def test_loop_of_messages_runs_to_its_end() -> None:
    code, answer, told, _ = await chat("Please greet Ada", "--api", "anthropic")
    assert (code, answer) == (0, ANSWER)
    assert told[1]["content"][1]["name"] == "greet"
    (block,) = told[2]["content"]
    assert block["tool_use_id"] == "toolu_0" and block["content"] == [{"type": "text", "text": "Hello, Ada!"}]


@pytest.mark.slow
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_tools_of_a_server_over_http_are_used_with_its_key(
    serve: Serve, tmp_path: Path, api: str
) -> None:
    code = '''
        async def greet(name: str) -> str:
            """Greet somebody."""
            return f"Good day, {name}."
        '''
    manifest = '{"name": "polite", "builtins": ["Bash"], "modes": {"mute": {"tools": []}}}'
    folder = write(tmp_path / "polite", {"mcp.json": manifest, "tools/greet.py": code})
    service = serve(str(folder), "--port", "0", "--state-dir", str(tmp_path / "state"))
    url = service.says("serving polite at").rpartition(" ")[2]
    service.says("callers send the key")
    key = (tmp_path / "state" / "api-key").read_text().strip()
    asked = ("Greet Ada", "--api", api, "--server", url)
    assert (await chat(*asked, SERVER_KEY=key))[:2] == (0, "I say: Good day, Ada.\n")
    assert (await chat(*asked, "--mode", "mute", SERVER_KEY=key))[1] == "I have no tool that greets.\n"
    status, answer, _, complaint = await chat(*asked)
    assert (status, answer) == (1, "")
    assert complaint.startswith("chat: ") and "HTTP 403" in complaint and key not in complaint


@pytest.mark.process
async def test_model_of_ones_own_is_spoken_to_with_its_key() -> None:
    def answer(seen: Seen) -> bytes:
        message = {"role": "assistant", "content": "Good day."}
        return json_answer({"choices": [{"index": 0, "message": message}]})

    async with scripted(answer) as model:
        base = model.url.removesuffix("/mcp")
        code, told, _, _ = await chat("Hello", "--model-url", base, "--model", "m-1", MODEL_KEY="k3y")
    assert (code, told) == (0, "Good day.\n")
    (seen,) = model.seen
    assert (seen.path, seen.headers["authorization"]) == ("/v1/chat/completions", "Bearer k3y")
    assert seen.message["model"] == "m-1"
    assert {tool["function"]["name"] for tool in seen.message["tools"]} >= {"greet", "word-count"}


@pytest.mark.slow
async def test_model_that_refuses_or_never_ends_is_told() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "greet", "arguments": '{"name": "x"}'}}
    endless = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}
    for answer, told in (
        (http(429, "slow down"), "HTTP 429: slow down"),
        (json_answer(endless), "no answer after"),
        (json_answer({"choices": []}), "the answer has no value choices.0.message"),
        (http(200, "<html>"), "sent an answer that is not JSON"),
    ):

        def script(seen: Seen, answer: bytes = answer) -> bytes:
            return answer

        async with scripted(script) as model:
            code, _, _, complaint = await chat("Hello", "--model-url", model.url.removesuffix("/mcp"))
        assert code == 1 and told in complaint


@pytest.mark.process
async def test_model_or_server_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:  # but without a listener
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        code, _, _, complaint = await chat("Hello", "--model-url", url)
    assert code == 1 and complaint.startswith(f"chat: {url}") and "cannot be reached" in complaint
    code, _, _, complaint = await chat("Hello", "--server", str(tmp_path / "nowhere"))
    assert code == 1 and complaint.startswith("chat: ") and "nowhere" in complaint


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_loop_runs_as_a_tool_too(api: str) -> None:
    async with Client(CHAT) as client:
        result = await client.call_tool("ask", {"question": "Please greet Ada", "api": api})
    assert format_result(result) + "\n" == ANSWER
