"""Servers that do not do as they should: exit code, one sentence and a hint, on stderr and as JSON."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
import sys
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mcpdesk.cli.command_client import STDOUT_HINT, TIMEOUT_HINT
from mcpdesk.client import hints
from mcpdesk.errors import InvalidAnswer
from tests.support.features import having
from tests.support.odd_server import PROGRAM
from tests.support.patience import WITHIN_S
from tests.support.scripted import Seen, http, scripted, stream

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.cli.conftest import Run

ANSWERING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    method, cursor = asked["method"], asked.get("params", {}).get("cursor", "")
    about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "a"}}
    said = {"jsonrpc": "2.0", "id": asked["id"]}
    if method == "server/discover":
        said["error"] = {"code": -32601, "message": "no"}
    else:
        said["result"] = about if method == "initialize" else {"tools": []}
    HABIT
    print(json.dumps(said), flush=True)
"""
FLOOD = "import sys\nwhile True: sys.stderr.write('log ' * 1000 + chr(10))"
LEAVES = "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(60)"
slow = partial(pytest.param, marks=pytest.mark.slow)
HABITS = {
    "another id": "said['id'] = 99",
    "refuses": "said = {'jsonrpc': '2.0', 'id': None, 'error': {'code': -32000, 'message': 'not today'}}",
    "other cursors": "said.get('result', {})['nextCursor'] = cursor + 'x'",
    "large pages": "said.get('result', {}).update(nextCursor=cursor + 'x', filling='x' * 9_000_000)",
    "no list": "said['result'] = about if method == 'initialize' else {'tools': 3}",
    "a key twice": """if method == "tools/list":
        print('{"id": %d, "result": {"tools": 1, "tools": 2}}' % said["id"], flush=True)
        continue""",
}
PROGRAMS: list[Any] = [
    (["no-such-program"], 3, "program 'no-such-program' does not exist", hints.NOT_STARTED),
    ([PROGRAM], 3, "is not executable", hints.NOT_STARTED),
    (
        [sys.executable, PROGRAM, "brief"],
        3,
        "ended with exit code 7: it begins / no configuration",
        hints.ENDED,
    ),
    ([sys.executable, PROGRAM, "silent"], 3, "no answer to initialize within 3 s", "CONNECT_TIMEOUT_S"),
    (
        [sys.executable, "-c", "print('hi', flush=True); [*open(0)]"],
        3,
        "no answer to initialize",
        STDOUT_HINT,
    ),
    slow([sys.executable, "-c", FLOOD], 3, "no answer to initialize within 3 s", "CONNECT_TIMEOUT_S"),
    ([sys.executable, "-c", LEAVES], 3, "ended with exit code 0", hints.ENDED),
    (["another id"], 4, "the answer is to request 99, not to", hints.OTHER_ID),
    (["refuses"], 4, "not today (-32000)", hints.UNKNOWN_PROTOCOL),
    slow(["other cursors"], 4, "the pages have no end: more than 10,000 pages", hints.TOO_LARGE),
    slow(["large pages"], 4, "tools/list: the list has more than 64 MiB", hints.TOO_LARGE),
    (
        ["no list"],
        4,
        'tools/list: the result has no list called tools. It sent: {"tools": 3}',
        hints.BAD_BYTES,
    ),
    slow(["a key twice"], 4, "given more than once in one object", hints.BAD_BYTES),
]
ANSWERS: dict[str, tuple[Callable[[], bytes | None], int, str, str]] = {
    "/page": (lambda: http(200, "<html>", "text/html"), 4, "HTTP 200 with no JSON-RPC answer", hints.PAGE),
    "/nowhere": (lambda: http(404, "<html>", "text/html"), 3, "HTTP 404", hints.WRONG_PATH),
    "/moved": (
        lambda: http(302, "", location="https://login.example/?next=secret"),
        3,
        "it redirects to https://login.example/, and such redirects are not followed",
        hints.REDIRECT,
    ),
    "/broken": (lambda: http(500, "boom"), 3, "HTTP 500: boom", hints.FAILED),
    "/proxy": (
        lambda: http(502, "<html><head><title>502 Bad &amp; Gateway</title></head>", "text/html"),
        3,
        "HTTP 502: a page for people, '502 Bad & Gateway'",
        hints.SERVER_DOWN,
    ),
    "/slow": (lambda: http(524, "<!DOCTYPE html><h1>Too slow</h1>", ""), 3, "'Too slow'", hints.TOO_SLOW),
    "/often": (
        lambda: http(429, '{"error": "calm"}', Retry_After="7"),
        3,
        "calm; Retry-After: 7",
        hints.TOO_MANY,
    ),
    "/misdirected": (
        lambda: http(421, "Invalid Host header", "text/plain"),
        3,
        "HTTP 421: Inv",
        hints.WRONG_HOST,
    ),
    "/guarded": (
        lambda: http(403, "<title>Wait</title>", "text/html", cf_mitigated="challenge"),
        3,
        "'Wait'",
        hints.CHALLENGE,
    ),
    "/picky": (
        lambda: http(
            406, '{"jsonrpc": "2.0", "id": "x", "error": {"code": -32600, "message": "accept both"}}'
        ),
        3,
        "HTTP 406: accept both (-32600)",
        hints.REFUSED_REQUEST,
    ),
    "/old": (lambda: http(400, "Unsupported protocol version", "text/plain"), 3, "HTTP 400", hints.REVISION),
    "/app": (
        lambda: http(200, "<!doctype html><title>App</title>", ""),
        4,
        "text/html: a page for",
        hints.PAGE,
    ),
    "/locked": (lambda: http(401), 3, "HTTP 401", "--token-env"),
    "/key": (lambda: http(401, '{"detail": "no key"}'), 3, "no key", "--token-env"),
    "/forbidden": (lambda: http(403, "no"), 3, "HTTP 403: no", "--token-env"),
    "/hangs": (lambda: None, 3, "no answer to initialize within 3 s", "CONNECT_TIMEOUT_S"),
    "/closes": (lambda: b"", 3, "the connection broke", hints.CLOSED),
    "/cut": (
        lambda: http(200, "{....", connection="close")[:-4],
        3,
        "the connection broke before the answer was complete",
        hints.CLOSED,
    ),
    "/ends": (lambda: stream(": hello", ""), 4, "event stream that ended without", hints.NO_ANSWER),
    "/garbage": (lambda: http(200, "{no"), 4, "the answer is not JSON", hints.UNKNOWN_PROTOCOL),
    "/large": (lambda: http(200, b" " * (17 << 20)), 4, "more than 16777216 bytes", hints.TOO_LARGE),
}


def check(run: Run, words: list[str], code: int, told: str, hint: str) -> None:
    """Run `mcpdesk list --json`, which must fail in these words, on both streams."""
    patience_s = 3 if told.startswith("no answer") else WITHIN_S
    done = run("list", "--json", *words, MCPDESK_CONNECT_TIMEOUT_S=f"{patience_s:g}")
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["code"] == code and told in error["message"] and hint in error["hint"]
    lines = [f"mcpdesk: {error['message']}", *([f"  {error['hint']}"] if hint else [])]
    assert done.stderr.splitlines()[-len(lines) :] == lines
    assert bool(error["hint"]) == bool(hint)


@pytest.mark.parametrize(("argv", "code", "told", "hint"), PROGRAMS)
def test_programs(argv: list[str], code: int, told: str, hint: str, mcpdesk: Run, tmp_path: Path) -> None:
    if argv[0] in HABITS:
        path = tmp_path / "server.py"
        path.write_text(ANSWERING.replace("HABIT", HABITS[argv[0]]))
        argv = [sys.executable, str(path)]
    check(mcpdesk, ["--", *argv], code, told, hint)


def test_a_malformed_list_hides_no_other_one(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    habit = """result = said.get("result") or {}
    if method == "tools/list": result["tools"] = {"a": {}}
    if method == "resources/list":
        result["resources"] = [{"uri": "a://1", "name": "first"}]
        result["nextCursor"] = "2"
        if cursor:
            del said["result"]
            said["error"] = {"code": -32602, "message": "no such page"}
    if method == "prompts/list": result["prompts"] = None
    if method == "resources/templates/list": result["resourceTemplates"] = []"""
    path.write_text(ANSWERING.replace("HABIT", habit))
    done = mcpdesk("list", "--", sys.executable, str(path))
    assert done.returncode == 4 and "a://1" in done.stdout
    assert "tools/list: the result has no list called tools" in done.stderr
    assert "resources/list: page 2: no such page (-32602); the list ends there" in done.stderr
    assert "prompts is null; it was read as an empty list" in done.stderr


def test_the_timeout_of_a_command_also_limits_the_connection(mcpdesk: Run) -> None:
    done = mcpdesk("list", "--timeout", "0.5", "--", sys.executable, str(PROGRAM), "silent")
    assert done.returncode == 3
    assert "no answer to initialize within 0.5 s" in done.stderr and TIMEOUT_HINT in done.stderr


@pytest.mark.parametrize("path", ANSWERS)
async def test_urls(path: str, mcpdesk: Run) -> None:
    answer, code, told, hint = ANSWERS[path]

    def answering(seen: Seen) -> bytes | None:
        return answer() if seen.path == path else http(404)

    async with scripted(answering) as server:
        url = server.url.removesuffix("/mcp") + path
        await asyncio.to_thread(check, mcpdesk, [url], code, told, hint)


async def test_certificates_and_addresses(mcpdesk: Run, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path / "own.pem"))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        await asyncio.to_thread(check, mcpdesk, [url], 3, "certificate is not trusted", hints.CERTIFICATE)
    closed = url.replace("https", "http")
    await asyncio.to_thread(check, mcpdesk, [closed], 3, "Connection refused", hints.NOT_REACHABLE)


def certificate(path: Path) -> Path:
    """Write a self-signed certificate with its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    made = builder.add_extension(names, critical=True).sign(key, hashes.SHA256())
    no_password = serialization.NoEncryption()
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password
    path.write_bytes(key.private_bytes(*kinds) + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_mistake_of_usage_is_json_as_well(mcpdesk: Run) -> None:
    for words in (["call", "--json"], ["nonsense", "--json"], ["list", "nowhere", "--json"]):
        done = mcpdesk(*words)
        error = json.loads(done.stdout)["error"]
        assert done.returncode == error["code"] == 2 and error["message"] in done.stderr
    folder = "sample_servers/hello"
    refused = json.loads(mcpdesk("call", folder, "Greet", "--json").stdout)["error"]
    assert (refused["code"], refused["rpc_code"]) == (4, -32602)


def test_what_a_server_adds_to_an_error_is_printed(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    link = "https://example.test/connect?state=7"
    data = {"elicitations": [{"mode": "url", "elicitationId": "7", "url": link, "message": "Connect"}]}
    error = {"code": -32042, "message": "a link must be opened", "data": data}
    habit = f"if method == 'tools/call': said = {{'jsonrpc': '2.0', 'id': asked['id'], 'error': {error!r}}}"
    path.write_text(ANSWERING.replace("HABIT", habit))
    done = mcpdesk("call", "t", "--json", "--", sys.executable, str(path))
    assert done.returncode == 4
    told = json.loads(done.stdout)["error"]
    assert told["rpc_code"] == -32042 and told["data"] == data and told["hint"] == hints.OPEN_LINK
    assert link in done.stderr


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ({"code": -32042, "message": "a link"}, hints.NO_LINK),
        ({"code": -32042, "message": "a link", "data": {"elicitations": "x"}}, hints.NO_LINK),
        (
            {"code": -32021, "message": "no", "data": {"requiredCapabilities": {"elicitation": {}}}},
            hints.NEEDS_PERSON,
        ),
        ({"code": -32021, "message": "no", "data": {"requiredCapabilities": {"tasks": {}}}}, ""),
    ],
)
def test_an_error_about_a_question_gets_advice_that_fits(error: dict[str, Any], hint: str) -> None:
    assert hints.error_hint(error["code"], error["message"], error.get("data")) == hint


@pytest.mark.parametrize(
    "fault",
    [
        "the result is of type 'input_required', which was not offered",
        "'r' asks for 'roots/list', which was not offered",
    ],
)
def test_a_question_that_nobody_can_answer_is_no_broken_protocol(fault: str) -> None:
    assert hints.hint(InvalidAnswer(fault)) == hints.NEEDS_PERSON


def test_lists_are_read_with_the_same_capabilities_where_nobody_can_be_asked(
    mcpdesk: Run, tmp_path: Path
) -> None:
    path, seen = tmp_path / "server.py", tmp_path / "seen"
    habit = f"if method == 'initialize': open({str(seen)!r}, 'w').write(json.dumps(asked['params']))"
    path.write_text(ANSWERING.replace("HABIT", habit))
    for words in (["list"], *having("contract", ["check"]), ["schemas"]):
        mcpdesk(*words, "--", sys.executable, str(path))
        assert {"elicitation", "sampling"} <= set(json.loads(seen.read_text())["capabilities"]), words
    mcpdesk("call", "t", "--", sys.executable, str(path))
    assert json.loads(seen.read_text())["capabilities"] == {}


@pytest.mark.parametrize(
    "said",
    [
        "Server-initiated requests are unavailable on 2026-07-28 connections.",
        "Cannot send 'elicitation/create': this transport has no back-channel for server-initiated requests",
    ],
)
def test_a_tool_that_cannot_ask_gets_a_hint(said: str, mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    failed = {"content": [{"type": "text", "text": said}], "isError": True}
    for answer in (
        f"said['result'] = {failed!r}",
        f"said = said | dict(error=dict(code=-1, message={said!r}))",
    ):
        habit = f"if method == 'tools/call': said.pop('result'); {answer}"
        path.write_text(ANSWERING.replace("HABIT", habit))
        done = mcpdesk("call", "t", "--", sys.executable, str(path))
        assert "--revision 2025-11-25" in done.stderr
