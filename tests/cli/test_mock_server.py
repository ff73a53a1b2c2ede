"""A capture replaces the server in it: over stdio and over HTTP, for clients of its era."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import orjson
import pytest

from mcpdesk.recorder.capture.recording import Recording
from tests.cli.conftest import Run, Service
from tests.support.traffic import IN, OUT, call, connection, error, request, result, text

pytestmark = pytest.mark.process

TOOL = {"name": "add", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
SERVER = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "real", "version": "3"},
}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Recorded answers of a server."""
    recording = Recording(tmp_path / "real.jsonl")
    recording.start()
    recording.connect(connection(1, server="real"))
    frames = [
        (IN, request(0, "initialize", {"protocolVersion": "2025-11-25"})),
        (OUT, result(0, SERVER)),
        (IN, request(1, "tools/list", {})),
        (OUT, result(1, {"tools": [TOOL]})),
    ]
    for number, (sum_, said) in enumerate([(1, "first"), (1, "second"), (2, "other")], 2):
        frames += [(IN, call(number, "add", {"a": sum_})), (OUT, text(number, said))]
    frames += [(IN, call(9, "fail")), (OUT, error(9, -32000, "as it was"))]
    for direction, data in frames:
        recording.frame(1, direction, data, True)
    recording.close()
    return tmp_path / "real.jsonl"


def test_the_same_request_gets_the_same_answers_in_their_order(mcpdesk: Run, capture: Path) -> None:
    asked = [
        call("a", "add", {"a": 1}), call("b", "add", {"a": 1}), call("c", "add", {"a": 1}),
        call("d", "add", {"a": 2}), call("e", "fail"), call("f", "none"), request("g", "ping"),
        request("h", "prompts/list"),
    ]  # fmt: skip
    ran = mcpdesk("stdio", "--mock", str(capture), stdin="\n".join(map(bytes.decode, asked)) + "\n")
    answers = {answer["id"]: answer for answer in map(orjson.loads, ran.stdout.splitlines())}
    said = [answers[id]["result"]["content"][0]["text"] for id in "abcd"]
    assert said == ["first", "second", "second", "other"]
    assert answers["e"]["error"]["message"] == "as it was" and answers["g"]["result"] == {}
    assert "no answer to tools/call none; it has add, fail" in answers["f"]["error"]["message"]
    assert answers["h"]["error"]["code"] == -32601 and ran.returncode == 0


def test_a_mock_is_called_through_mcpdesk_serve(
    mcpdesk: Run, serve: Callable[..., Service], capture: Path
) -> None:
    url = serve("--mock", str(capture), "--port", "0", "--no-auth").says("passing real through").split()[-1]
    listed = mcpdesk("list", url)
    assert "add" in listed.stdout, listed.stderr
    called = mcpdesk("call", url, "add", "a=2")
    assert (called.returncode, called.stdout.strip()) == (0, "other"), called.stderr


@pytest.mark.parametrize("version", ["", "2026-07-28"], ids=["handshake", "stateless"])
def test_a_capture_without_a_greeting_is_a_mock_for_clients_with_and_without_a_session(
    mcpdesk: Run, serve: Callable[..., Service], tmp_path: Path, version: str
) -> None:
    terms = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": terms} if version else {}
    recording = Recording(tmp_path / "bare.jsonl")
    recording.start()
    recording.connect(connection(1, server="bare"))
    listed = {"tools": [TOOL]} | (
        {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if version else {}
    )
    for direction, data in [(IN, request(1, "tools/list", params)), (OUT, result(1, listed))]:
        recording.frame(1, direction, data, True)
    recording.close()
    service = serve("--mock", str(tmp_path / "bare.jsonl"), "--port", "0", "--no-auth")
    url = service.says("passing bare through").split()[-1]
    through = mcpdesk("list", url)
    assert through.returncode == 0 and "add" in through.stdout, through.stderr
    if version:
        return
    for address in (url, url.removesuffix("/bare")):  # the first server is the only one
        plain = Request(address, request(5, "tools/list"), {"Content-Type": "application/json"})
        with urlopen(plain) as answer:
            assert orjson.loads(answer.read()) == {"jsonrpc": "2.0", "id": 5, "result": listed}


def test_what_is_no_capture_or_leaves_a_choice_is_said(mcpdesk: Run, capture: Path, tmp_path: Path) -> None:
    refused = mcpdesk("serve", "--mock", str(capture), "--server", "nobody")
    assert "No server is called 'nobody'" in refused.stderr and "real" in refused.stderr
    assert "is not a capture" in mcpdesk("serve", "--mock", "pyproject.toml").stderr
    assert "Missing argument" in mcpdesk("serve").stderr
    assert "Missing argument" in mcpdesk("stdio").stderr
