"""Verdicts of `era-bench` about clients of one or both eras, over HTTP and stdio."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.cli.main import run
from mcpdesk.features.client_bench.bench_report import Check, CheckVerdict
from mcpdesk.features.client_bench.era_servers import SERVER_NAMES, EraRecorder
from mcpdesk.protocol.jsonrpc import JSONObject
from mcpdesk.protocol.revisions import LATEST, REVISIONS
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, VERSION_KEY
from tests.support.patience import within

BENCH_S = 150.0
"""Limit for a bench, which starts a client several times."""
CLIENT = str(Path(__file__).with_name("official_client.py"))
ACCEPT = "application/json, text/event-stream"


class _Client:
    """Client that sends exactly what a test wants to one recorder."""

    def __init__(self, served: str, *, is_http: bool = True) -> None:
        self.recorder = EraRecorder(served, is_http=is_http)
        self._is_http = is_http
        self._id = 0

    def send(self, method: str, params: JSONObject | None = None, **headers: str) -> JSONObject:
        return self._send(method, params, headers)

    def _send(self, method: str, params: JSONObject | None, headers: dict[str, str]) -> JSONObject:
        message: JSONObject = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not method.startswith("notifications/"):
            self._id += 1
            message["id"] = self._id
        given = {"accept": ACCEPT, **{key.replace("_", "-"): value for key, value in headers.items()}}
        reply = self.recorder.server.reply(message, given if self._is_http else {})
        self.recorder.observe(message, reply, given if self._is_http else None)
        return (reply.message or {}) | ({"session": reply.session} if reply.session else {})

    def stateless(self, method: str, **headers: str) -> JSONObject:
        meta = {"_meta": {VERSION_KEY: LATEST.name, CAPABILITIES_KEY: {}}}
        named = {"mcp_protocol_version": LATEST.name, "mcp_method": method}
        return self._send(method, meta, named | headers)

    def initialize(self, version: str = "2025-11-25", **more: Any) -> str:
        answer = self.send("initialize", {"protocolVersion": version, **more})
        return str(answer.get("session", ""))

    @property
    def checks(self) -> dict[str, Check]:
        return {each.name: each for each in self.recorder.result().checks}


def test_client_of_both_eras_falls_back() -> None:
    client = _Client("2025-06-18")
    assert client.stateless("server/discover")["error"]["code"] == -32600
    session = client.initialize()
    headers = {"mcp_session_id": session, "mcp_protocol_version": "2025-06-18"}
    client.send("notifications/initialized", None, **headers)
    assert not client.recorder.is_decided
    client.send("tools/list", None, **headers)
    assert client.recorder.is_decided
    found = client.checks
    assert found["offers"].observed == "server/discover with 2026-07-28; later 2025-11-25"
    assert found["speaks"].observed == "uses 2025-06-18"
    assert found["falls-back"].observed == "yes: `initialize` with 2025-11-25"
    found.pop("offers")
    assert {each.verdict for each in found.values()} == {CheckVerdict.PASS}


def test_client_of_the_handshake_era_changes_the_era_or_ends() -> None:
    client = _Client(LATEST.name)
    client.initialize()
    assert client.checks["speaks"].observed == "does not use it: ended after the error -32022"
    assert client.checks["changes-era"].observed == "no: it ended"
    client.stateless("tools/list")
    assert client.checks["changes-era"].observed == "yes: to 2026-07-28"
    assert client.checks["speaks"].observed == "uses 2026-07-28"


def test_client_must_not_fall_back_from_a_stateless_server() -> None:
    client = _Client(LATEST.name)
    client.stateless("server/discover")
    client.initialize()
    assert client.checks["stays-stateless"].verdict is CheckVerdict.FAIL


def test_handshake_has_no_stateless_metadata() -> None:
    client = _Client("2025-11-25")
    client.stateless("server/discover")
    client.initialize(_meta={VERSION_KEY: LATEST.name})
    assert client.checks["falls-back"].verdict is CheckVerdict.FAIL


def test_wrong_headers_are_named() -> None:
    client = _Client("all")
    client.stateless("tools/list", mcp_method="", accept="application/json")
    found = client.checks
    assert found["routing-headers"].observed == "missing or different: Mcp-Method"
    assert found["accept-header"].verdict is CheckVerdict.FAIL
    client = _Client("all")
    client.initialize()
    client.send("tools/list")
    found = client.checks
    assert found["version-header"].verdict is CheckVerdict.FAIL
    assert found["session-header"].verdict is CheckVerdict.FAIL
    assert found["initialized"].observed == "not sent"


def test_ping_does_not_replace_the_notification_after_the_handshake() -> None:
    client = _Client("2025-11-25")
    headers = {"mcp_session_id": client.initialize(), "mcp_protocol_version": "2025-11-25"}
    client.send("ping", None, **headers)
    assert "initialized" not in client.checks
    client.send("tools/list", None, **headers)
    assert client.checks["initialized"].observed == "not sent"
    client.send("notifications/initialized", None, **headers)
    assert client.checks["initialized"].observed == "tools/list came first"


def test_client_may_do_several_handshakes() -> None:
    client = _Client("all")
    for version in ("2025-11-25", "2025-06-18"):
        headers = {"mcp_session_id": client.initialize(version), "mcp_protocol_version": version}
        client.send("notifications/initialized", None, **headers)
        client.send("tools/list", None, **headers)
    found = client.checks
    assert found["version-header"].observed == found["session-header"].observed == "right in 4 requests"
    assert found["initialized"].verdict is CheckVerdict.PASS


def test_client_that_refuses_the_revision_of_the_server_is_no_fault() -> None:
    client = _Client("2024-11-05")
    client.initialize()
    found = client.checks
    assert found["speaks"].observed == "does not use it: ended after the server answered with 2024-11-05"
    assert CheckVerdict.FAIL not in {each.verdict for each in found.values()}


def _nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"id": _nested(300)}, -32600),
        ({"id": None}, -32600),
        ({"method": _nested(900)}, -32600),
        ({"method": "tools/list", "params": {"_meta": {VERSION_KEY: _nested(300)}}}, -32602),
        ({"params": {"protocolVersion": LATEST.name, "clientInfo": {"name": _nested(900)}}}, None),
    ],
)
def test_invalid_member_is_answered_and_not_repeated(change: JSONObject, code: int | None) -> None:
    recorder = EraRecorder("all", is_http=True)
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}} | change
    reply = recorder.server.reply(message, {})
    recorder.observe(message, reply, {})
    answer = orjson.loads(orjson.dumps(reply.message))
    assert answer.get("error", {}).get("code") == code
    assert recorder.result().client.name == ""


def test_there_is_a_server_for_each_revision() -> None:
    assert ("all", *(each.name for each in reversed(REVISIONS))) == SERVER_NAMES


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--", "client"], "{url} or {command}"),
        (["--stdio", "all", "--revision", "all"], "cannot be combined"),
        (["--output", "x"], "only for --stdio"),
    ],
)
def test_wrong_options_are_refused(
    capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["era-bench", *arguments]) == 2
    assert words in capfd.readouterr().err


async def _report(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mcpdesk", "era-bench", "--json", "--timeout", "30", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        async with within(within_s=BENCH_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None and out, err
    runs = json.loads(out)["runs"]
    return process.returncode, {each["name"]: each for each in runs}


def _observed(found: dict[str, Any], name: str) -> str:
    return next(str(each["observed"]) for each in found["checks"] if each["name"] == name)


@pytest.mark.slow
@pytest.mark.parametrize("server", ["{url}", "{command}"])
async def test_official_client_speaks_both_eras(server: str) -> None:
    chosen = ("all", "2026-07-28", "2025-06-18")
    options = [word for name in chosen for word in ("--revision", name)]
    code, runs = await _report(*options, "--", sys.executable, CLIENT, "auto", "1", server)
    assert code == 0, runs
    used = {name: _observed(each, "speaks") for name, each in runs.items()}
    expected = ("2026-07-28", "2026-07-28", "2025-06-18")
    assert used == {name: f"uses {revision}" for name, revision in zip(chosen, expected, strict=True)}
    assert _observed(runs["2025-06-18"], "falls-back").startswith("yes")


@pytest.mark.slow
async def test_official_client_of_the_handshake_era_does_not_use_a_stateless_server() -> None:
    client = (sys.executable, CLIENT, "legacy", "1", "{url}")
    code, runs = await _report("--revision", "2026-07-28", "--", *client)
    assert code == 0, runs
    assert _observed(runs["2026-07-28"], "speaks") == "does not use it: ended after the error -32022"
    assert runs["2026-07-28"]["client_exit"] != 0


@pytest.mark.process
def test_server_over_stdio_prints_its_verdict_when_the_client_ends(tmp_path: Path) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
    output = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "era-bench", "--stdio", "2025-11-25", "--output", str(output)],
        input=f"{json.dumps(message)}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
    assert "initialize with 2025-11-25" in done.stderr
    assert json.loads(output.read_bytes())["messages"][0]["sent"] == "initialize (2025-11-25)"
