"""Invalid input of every kind over HTTP and stdio: the answer names the error, and the process continues."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from tests.support.features import having
from tests.support.folders import save
from tests.support.messages import said
from tests.support.official import ROOT
from tests.support.patience import WITHIN_S, within
from tests.support.rough import REPORTED, rough

MCPDESK = [sys.executable, "-m", "mcpdesk"]
HELLO = ROOT / "sample_servers" / "hello"
LIMIT = 16 << 20
CALL = b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"%b","_meta":%b,"arguments":%b}}'
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Wire:
    """A client that sends any bytes."""

    process: subprocess.Popen[bytes]
    status = 0
    """HTTP status of the last answer; 0 if a pipe carried it."""

    def exchange(self, frame: bytes) -> Any:
        """Send a frame and return the answer."""
        raise NotImplementedError

    def request(self, method: str, params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
        return self.exchange(json.dumps(message).encode())

    def call(self, name: str, **arguments: Any) -> Any:
        return self.request("tools/call", {"name": name, "arguments": arguments})["result"]

    def goes_on(self) -> bool:
        """Whether the same process still answers."""
        return self.process.poll() is None and said(self.call("who")) == str(self.process.pid)


class OverHttp(Wire):
    """`mcpdesk serve`."""

    def __init__(self, folder: Path) -> None:
        self.process = started("serve", str(folder), "--port", "0")
        self.lines = lines_until(self.process, r"serving rough at (\S+)")
        found = re.search(r"serving rough at (\S+)", self.lines[-1])
        assert found
        self.url, self.session = found[1], ""

    def shake_hands(self, revision: str) -> None:
        status, headers, _ = asyncio.run(self.post(handshake(revision)))
        assert status == 200
        self.session = headers["Mcp-Session-Id"]

    def exchange(self, frame: bytes) -> Any:
        self.status, _, body = asyncio.run(self.post(frame))
        return json.loads(body)

    def request(self, method: str, params: Any) -> Any:
        message = super().request(method, params)
        assert self.status == 200
        return message

    async def post(self, frame: bytes) -> tuple[int, Any, bytes]:
        named = HEADERS | ({"Mcp-Session-Id": self.session} if self.session else {})
        async with (
            aiohttp.ClientSession() as client,
            within(),
            client.post(self.url, data=BytesIO(frame), headers=named) as answer,
        ):
            return answer.status, answer.headers, await answer.read()


class OverStdio(Wire):
    """`mcpdesk stdio`, with a separate core."""

    def __init__(self, folder: Path) -> None:
        self.process = started("stdio", str(folder), "--alone")

    def shake_hands(self, revision: str) -> None:
        assert "result" in self.exchange(handshake(revision))

    def exchange(self, frame: bytes) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(frame + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def started(*arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*MCPDESK, *arguments], cwd=ROOT, env={**os.environ, **environ},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def lines_until(process: subprocess.Popen[bytes], pattern: str) -> list[str]:
    """Lines of a program's stderr, up to one that matches or the end."""
    assert process.stderr
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.decode().rstrip())
        if re.search(pattern, lines[-1]):
            return lines
    raise AssertionError(f"never said {pattern!r}: {lines}")


def handshake(revision: str) -> bytes:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode()


def close(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(WITHIN_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream
        with suppress(BrokenPipeError):
            stream.close()


@pytest.fixture(scope="module", params=[OverHttp, OverStdio], ids=["http", "stdio"])
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One program for the whole module: it has to survive all of this."""
    wire = request.param(rough(tmp_path_factory.mktemp("place") / "rough"))
    wire.shake_hands("2025-11-25")
    yield wire
    assert wire.goes_on()
    close(wire.process)


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def saying(arguments: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"say","arguments":%b}}' % arguments
    )


FRAMES: list[tuple[str, bytes, int, int, str]] = [
    ("no JSON", b"hello", 400, -32700, "Parse error"),
    ("half a message", b'{"jsonrpc":"2.0","id":5,', 400, -32700, "Parse error"),
    ("invalid UTF-8", saying(b'{"text":"\xff\xfe"}'), 400, -32700, "Parse error"),
    ("a lone surrogate", saying(b'{"text":"\\ud800"}'), 400, -32700, "Parse error"),
    ("100,000 deep", nested(100_000), 400, -32700, "Parse error"),
    ("arguments 100,000 deep", saying(b'{"deep":%b}' % nested(100_000)), 400, -32700, "Parse error"),
    ("a batch", b'[{"jsonrpc":"2.0","id":5,"method":"ping"}]', 400, -32600, "2025-03-26"),
    ("an empty batch", b"[]", 400, -32600, "2025-03-26"),
    ("a number", b"5", 400, -32600, "object"),
    ("no version", b'{"id":5,"method":"ping"}', 400, -32600, "jsonrpc"),
    ("a null id", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600, "id"),
    ("a fraction as id", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600, "id"),
    ("a huge id", b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', 400, -32600, "id"),
    ("a boolean as id", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600, "id"),
    ("an object as id", b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', 400, -32600, "id"),
    ("an endless id", b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', 400, -32700, "Parse error"),
    ("a list as params", b'{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}', 400, -32600, "params"),
    ("a number as method", b'{"jsonrpc":"2.0","id":5,"method":7}', 400, -32600, "method"),
    ("an unknown method", b'{"jsonrpc":"2.0","id":5,"method":"tools/dance"}', 200, -32601, "tools/dance"),
    ("arguments as a list", saying(b"[1]"), 200, -32602, "arguments"),
    ("30 MB", saying(b'{"text":"%b"}' % (b"x" * 30_000_000)), 413, -32600, str(LIMIT)),
]


@pytest.mark.process
@pytest.mark.parametrize(
    ("frame", "status", "code", "words"), [each[1:] for each in FRAMES], ids=[each[0] for each in FRAMES]
)
def test_a_bad_frame_is_answered_and_the_next_one_served(
    wire: Wire, frame: bytes, status: int, code: int, words: str
) -> None:
    error = wire.exchange(frame)["error"]
    assert wire.status == (status if isinstance(wire, OverHttp) else 0)
    assert error["code"] == code and words in error["message"], error["message"][:500]
    assert wire.goes_on()


ARGUMENTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ("text",)),
    ({"text": 5}, ("text", "string")),
    ({"text": "a", "times": "many"}, ("times", "integer")),
    ({"text": "a", "times": 1.5}, ("times", "integer")),
    ({"text": "a", "colour": "red"}, ("colour",)),
    ({"text": "a", "deep": [{"a": 1}, {"b": "x"}]}, ("deep[1].b", "integer")),
    ({"text": None, "times": None, "shape": 1}, ("text", "times", "shape")),
]


@pytest.mark.process
@pytest.mark.requirement("6.3")
@pytest.mark.parametrize(("arguments", "words"), ARGUMENTS)
def test_wrong_arguments_are_named_one_by_one(
    wire: Wire, arguments: dict[str, Any], words: tuple[str, ...]
) -> None:
    result = wire.call("say", **arguments)
    assert result["isError"]
    assert [word for word in words if word not in said(result)] == [], said(result)


@pytest.mark.process
@pytest.mark.requirement("6.4")
def test_output_that_violates_its_schema_is_an_error_that_says_so(wire: Wire) -> None:
    assert wire.call("lying", sum=3)["structuredContent"] == {"sum": 3}
    for arguments, words in (({"sum": "three"}, "sum"), ({}, "returned nothing")):
        result = wire.call("lying", **arguments)
        assert result["isError"] and words in said(result) and "schema" in said(result)


@pytest.mark.process
def test_the_rest_of_a_folder_with_mistakes_serves(wire: Wire) -> None:
    names = {tool["name"] for tool in wire.request("tools/list", {})["result"]["tools"]}
    assert names == {"say", "who", "noisy", "forever", "seen-end", "lying", "twice", "plain", "not-async"}
    assert said(wire.call("twice")) == "first"
    assert said(wire.call("plain")) == "plain" and said(wire.call("not-async")) == "from a thread"
    assert said(wire.call("say", text="ab", times=2)) == "abab"


@pytest.mark.process
def test_mistakes_of_a_folder_are_reported_once_with_file_and_line(tmp_path: Path) -> None:
    folder = rough(tmp_path / "rough")
    served = OverHttp(folder)
    try:
        for place, word in REPORTED.items():
            assert any(place in line and word in line for line in served.lines), (place, served.lines)
        save(folder / "tools" / "more.py", "async def more() -> str:\n    return 'more'\n")
        told = [*served.lines, *lines_until(served.process, "reloaded in .* 1 added: more")]
        assert sum("syntax.py cannot be read" in line for line in told) == 1
        assert not any("importlib" in line for line in told)
    finally:
        close(served.process)


@pytest.mark.process
@pytest.mark.requirement("3.1")
def test_nothing_but_protocol_is_written_to_stdout(wire: Wire) -> None:
    assert said(wire.call("noisy")) == "said"
    assert said(wire.call("say", text="next")) == "next"
    if isinstance(wire, OverHttp):
        told = lines_until(wire.process, "another child")
        assert any("a stray print" in line and "working.py:" in line for line in told)
        assert wire.process.stdout
        os.set_blocking(wire.process.stdout.fileno(), False)
        assert wire.process.stdout.read() is None


@pytest.mark.process
def test_a_client_that_vanishes_mid_answer_ends_its_call_only(wire: Wire) -> None:
    if not isinstance(wire, OverHttp):
        return
    wire.session, kept = "", wire.session
    host, port = wire.url.removeprefix("http://").partition("/")[0].split(":")
    meta = request_meta(V2026_07_28, {"name": "gone", "version": "1"}) | {"progressToken": 1}
    body = CALL % (b"forever", json.dumps(meta).encode(), b"{}")
    with socket.create_connection((host, int(port)), WITHIN_S) as client:
        client.sendall(
            b"POST /mcp/rough HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"MCP-Protocol-Version: %b\r\nMcp-Method: tools/call\r\nMcp-Name: forever\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (V2026_07_28.name.encode(), len(body), body)
        )
        seen = b""
        while b"notifications/progress" not in seen:
            seen += client.recv(65536)
    assert said(wire.call("seen-end")) == "true"
    wire.session = kept
    assert wire.goes_on()


@pytest.mark.slow
@pytest.mark.parametrize("leaving", ["stdin", "stdout"])
def test_stdio_ends_when_its_client_vanishes_mid_answer(tmp_path: Path, leaving: str) -> None:
    wire = OverStdio(rough(tmp_path / "rough"))
    process = wire.process
    try:
        wire.shake_hands("2025-11-25")
        assert process.stdin and process.stdout and process.stderr
        if leaving == "stdin":
            process.stdin.write(
                b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"forever"}}\n'
            )
        else:
            process.stdout.close()
            process.stdin.write(saying(b'{"text":"%b"}' % (b"x" * 5_000_000)) + b"\n")
        process.stdin.close()
        process.wait(WITHIN_S)
        told = process.stderr.read().decode()
        assert "Traceback" not in told and process.returncode == 0
    finally:
        process.kill()
        process.wait(WITHIN_S)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def ends(*arguments: str, **environ: str) -> tuple[int, str]:
    """Exit code and stderr of a program that must end without output on stdout."""
    process = started(*arguments, **environ)
    out, err = process.communicate(timeout=WITHIN_S)
    assert out == b"" and b"Traceback" not in err
    return process.returncode, err.decode()


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "error", "hint"),
    [
        (("serve",), "No folder or file '{}'.", "A server is a folder, a URL, "),
        ((), "No folder or file '{}'.", "A server is a folder, a URL, "),
        (("stdio",), "Folder '{}' does not exist.", "A server folder has tools/, "),
        (("stdio", "--alone"), "Folder '{}' does not exist.", "A server folder has tools/, "),
    ],
)
def test_a_missing_folder_is_named(command: tuple[str, ...], error: str, hint: str, tmp_path: Path) -> None:
    missing = tmp_path / "nobody" / "here"
    code, told = ends(*command, str(missing))
    assert code == 2 and told.startswith(f"mcpdesk: {error.format(missing)}\n  {hint}")


MANIFESTS: list[tuple[bytes, tuple[str, ...]]] = [
    (b'{\n  "name": "x",\n  "version": 1.0.0\n}', ("mcp.json:3:17", "not JSON")),
    (b'{"name": "x", "vesion": "1"}', ("mcp.json:1:15", "vesion", "version")),
    (b'{"name": "x", "settings": {"prot": 3}}', ("mcp.json:1:28", "prot", "port")),
    (b'{"name": "x", "settings": {"port": "many"}}', ("mcp.json:1:28", "many", "0 to 65535")),
    (b"[1]", ("mcp.json:1:1", "object")),
    (b'{"name": "\xff"}', ("mcp.json", "utf-8", "position 10")),
    (b'{"name": 5}', ("mcp.json", "name")),
    (b"", ("mcp.json", "JSON")),
    (nested(100_000), ("mcp.json",)),
]


@pytest.mark.process
@pytest.mark.parametrize("number", range(len(MANIFESTS)))
def test_a_bad_manifest_is_told_with_line_and_column(number: int, tmp_path: Path) -> None:
    text, words = MANIFESTS[number]
    (tmp_path / "mcp.json").write_bytes(text)
    commands = (*having("contract", "check"), "stdio")
    code, told = ends(commands[number % len(commands)], str(tmp_path))
    assert code == 2 and [word for word in words if word not in told] == [], told


@pytest.mark.process
def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, told = ends("serve", str(HELLO), "--port", port)
    assert code != 0 and f"port {port}" in told and "--port" in told


@pytest.mark.process
def test_a_desk_without_a_terminal_says_what_to_do_instead() -> None:
    code, told = ends(str(HELLO))
    assert code == 2 and "needs a terminal" in told and "mcpdesk serve" in told


@pytest.mark.process
@pytest.mark.parametrize("way", [OverHttp, OverStdio])
def test_a_state_folder_that_cannot_be_written_costs_the_capture_only(
    way: Callable[[Path], Wire], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path / "file"))
    wire: Any = way(rough(tmp_path / "rough"))
    try:
        wire.shake_hands("2025-11-25")
        assert wire.goes_on()
        wire.process.send_signal(signal.SIGTERM)
        told = "\n".join([*getattr(wire, "lines", ()), wire.process.stderr.read().decode()])
        assert "Not captured to disk" in told and str(tmp_path / "file") in told and "Traceback" not in told
        assert wire.process.wait(WITHIN_S) == 0
    finally:
        close(wire.process)


@pytest.mark.process
def test_a_key_that_cannot_be_kept_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    desk = str(ROOT / "sample_servers" / "desk")
    process = started("serve", desk, "--port", "0", MCPDESK_STATE_DIR=str(tmp_path / "file"))
    try:
        told = lines_until(process, "callers send the key")
        assert "set MCPDESK_API_KEY" in told[-1]
        assert any("the key cannot be stored" in line and str(tmp_path / "file") in line for line in told)
    finally:
        close(process)
