"""`mcpdesk doctor` on real programs, good and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pexpect
import pytest
from msgspec.structs import replace

from mcpdesk.cli.main import run
from mcpdesk.client.config_files import ConfigFile, read_config
from mcpdesk.client.oauth.stored_grants import open_grants
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.client.targets import UrlTarget
from mcpdesk.features.doctor import checkup
from mcpdesk.features.doctor.examination import Examination
from mcpdesk.features.doctor.report import OtherEra, Totals
from mcpdesk.features.doctor.selection import with_connections
from mcpdesk.upstream.target_transport import Reach
from tests.features.doctor.conftest import Home, hostile, odd, write
from tests.support.guarded_server import GuardedServer

ROOT = Path(__file__).parents[3]
SCHEMA = ROOT / "docs" / "doctor.schema.json"
Capture = pytest.CaptureFixture[str]


def report(capfd: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Report of the command as JSON. It must match the schema."""
    capfd.readouterr()
    assert run(["doctor", *arguments, "--json"]) == code, capfd.readouterr()
    content: dict[str, Any] = json.loads(capfd.readouterr().out)
    jsonschema.validate(content, json.loads(SCHEMA.read_text()))
    return content


def by_name(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Servers of a report by the names in their entries."""
    return {each["name"]: each for each in content["servers"]}


def test_untrusted_servers_are_listed_and_not_started(home: Home, capfd: Capture) -> None:
    marker = home.path / "started"
    path = home.cursor(
        {"one": {"command": "touch", "args": [str(marker)]}, "two": {"url": "https://${HOME}.test"}}
    )
    found = report(capfd)
    assert [each["state"] for each in found["servers"]] == ["not trusted", "not trusted"]
    assert {each["hint"] for each in found["servers"]} == {f"mcpdesk trust {path}"}
    assert found["ok"] and not marker.exists()
    assert run(["doctor"]) == 0
    out = capfd.readouterr().out
    assert (
        "not started: not trusted" in out
        and f"mcpdesk trust {path}" in out
        and str(home.path) + ".test" not in out
    )
    refused = report(capfd, "cursor:one", code=2)  # like other commands that name a server of such a file
    assert not refused["ok"] and not marker.exists()


def test_one_command_trusts_all_files_that_are_not_trusted(home: Home, capfd: Capture) -> None:
    files = [home.cursor({"one": odd()}), home.claude({"two": odd()})]
    assert run(["doctor"]) == 0
    (line,) = [each for each in capfd.readouterr().out.splitlines() if "one after the other" in each]
    command = shlex.split(line.partition(": ")[2])
    assert command[:2] == ["mcpdesk", "trust"] and sorted(command[2:]) == sorted(map(str, files))
    assert run([*command[1:], "--yes"]) == 0
    capfd.readouterr()
    assert run(["trust", "--list"]) == 0
    listed = capfd.readouterr().out
    assert all(str(each) in listed for each in files)


def test_without_servers_it_says_so(home: Home, capfd: Capture) -> None:
    assert report(capfd)["servers"] == []
    assert run(["doctor"]) == 0
    assert capfd.readouterr().out == "No client on this machine has a server in its configuration.\n"


def test_broken_file_is_reported_with_its_line_and_others_are_read(home: Home, capfd: Capture) -> None:
    home.claude({"one": odd()})
    path = write(home.path / ".cursor" / "mcp.json", '{"mcpServers": {\n  "a": {"command": \x1b[31m}\n}}')
    found = report(capfd, code=1)
    assert [each["target"] for each in found["servers"]] == ["claude-code:one"]
    assert [(each["client"], each["file"]) for each in found["problems"]] == [("cursor", str(path))]
    assert ":2:" in found["problems"][0]["reason"]
    assert run(["doctor"]) == 1
    assert "\x1b" not in capfd.readouterr().out


@pytest.mark.process
def test_good_servers_are_described(home: Home, capfd: Capture) -> None:
    home.cursor({"old": odd(), "new": odd("late")})
    found = report(capfd, "--trust")
    servers = by_name(found)
    assert found["ok"] and {each["state"] for each in servers.values()} == {"ok"}
    old, new = servers["old"], servers["new"]
    assert (old["era"], old["revision"], old["server"], old["server_version"]) == (
        "handshake", "2025-06-18", "odd", "0.9",
    )  # fmt: skip
    assert old["other_era"] == {
        "era": "stateless", "is_supported": False, "answer": "-32601 no server/discover",
    }  # fmt: skip
    assert (new["era"], new["revision"]) == ("stateless", "2026-07-28")
    assert new["other_era"]["era"] == "handshake" and new["other_era"]["answer"].startswith("-32022")
    assert old["start_s"] > 0 and old["tools"]["count"] == 4 and old["tools"]["tokens"] > 20
    assert old["login"] is None and old["lock"] is None and len(old["remarks"]) == 3
    budget = next(each for each in found["clients"] if each["client"] == "cursor")
    assert budget["servers"] == 2 and budget["uncounted"] == 0
    assert budget["tools"]["tokens"] == old["tools"]["tokens"] + new["tools"]["tokens"]


@pytest.mark.process
def test_table_has_a_row_for_each_server_and_advice_for_each_failure(home: Home, capfd: Capture) -> None:
    home.cursor({"good": odd(), "brief": odd("brief"), "missing": {"command": "no-such-program"}})
    home.claude({"good": odd()})
    assert run(["doctor", "--trust"]) == 1
    out = capfd.readouterr().out
    assert "cursor:good" in out and "stateless: -32601" in out
    assert "cursor:brief: the program ended with exit code 7" in out
    assert "Run the command in a terminal: its output shows the reason." in out
    assert "  stderr: no configuration" in out
    assert "cursor:missing: program 'no-such-program' does not exist" in out
    assert "use its full path" in out
    assert "claude-code:good, cursor:good are the same server" in out and "with equal entries" in out
    assert "4 servers: 2 ok, 2 failed" in out
    assert not any(str(home.path) in line for line in out.splitlines() if "cursor:" in line)
    assert "without 2 that did not answer" in out


@pytest.mark.process
def test_hostile_servers_fail_alone_and_their_output_is_bounded(home: Home, capfd: Capture) -> None:
    home.cursor(
        {
            "silent": odd("silent"),
            "flood": hostile("flood"),
            "garbage": hostile("garbage"),
            "\x1b[31mred\n": hostile("escapes"),
            "good": odd(),
        }
    )
    found = report(capfd, "--trust", "--timeout", "3", code=1)
    servers = by_name(found)
    states = {name: each["state"] for name, each in servers.items()}
    assert states == dict.fromkeys(("silent", "flood", "garbage"), "failed") | {
        "\x1b[31mred\n": "ok", "good": "ok",
    }  # fmt: skip
    assert "no answer to initialize within 3 s" in servers["silent"]["reason"]
    assert "`mcpdesk doctor --timeout SECONDS` allows more time" in servers["silent"]["hint"]
    assert servers["silent"]["stderr"] == ["it begins"]
    assert 0 < len(servers["flood"]["stderr"]) <= 20
    assert max(map(len, servers["flood"]["stderr"])) <= 300
    assert "log to stderr" in servers["garbage"]["hint"]
    assert len(servers["\x1b[31mred\n"]["server_version"]) <= 80
    assert run(["doctor", "--trust", "--timeout", "3"]) == 1
    out = capfd.readouterr().out
    assert "\x1b" not in out and "\x07" not in out
    assert sum("cursor:␛[31mred⏎" in line for line in out.splitlines()) >= 1


class _Echo(BaseHTTPRequestHandler):
    """Refuses every request, and quotes its headers."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = f"bad {self.headers['Authorization']} {self.headers['X-API-Key']} {self.headers['X-Shop']}"
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
        body = json.dumps(error).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *parts: object) -> None:
        """Print nothing."""


def test_secrets_of_an_open_connection_are_masked(tmp_path: Path) -> None:
    reach = Reach(token="word-in-token", key="word-in-key", headers=(("X-Shop", "word-in-header"),))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        opened = {"shop": (UrlTarget(f"http://127.0.0.1:{server.server_port}/mcp"), reach)}
        plan = checkup.CheckupPlan(tmp_path, lambda config: None, lambda variable: "", connections=opened)
        found = checkup.check_up(with_connections([], opened), plan)
        server.shutdown()
    (shop,) = found.servers
    assert "bad Bearer •••• •••• ••••" in shop.reason
    assert "word-in" not in msgspec.json.encode(found).decode()


@pytest.mark.process
def test_secrets_are_masked_in_every_output(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = (
        "word-in-argument",
        "word-in-variable",
        "word-in-address",
        "word-in-query",
        "word-in-password" * 120,
    )
    monkeypatch.setenv("OUTER_TOKEN", "word-in-argument")
    leaking = hostile("leak", "--token", "${OUTER_TOKEN}", env={
        "SHOP_PASSWORD": secrets[1], "SHOP_ADDRESS": f"postgres://me:{secrets[2]}@db/x"})  # fmt: skip
    home.cursor({"leak": leaking, "url": {"url": f"http://127.0.0.1:9/mcp?api_key={secrets[3]}"}})
    home.claude({"leak": {**leaking, "env": {"SHOP_PASSWORD": secrets[4]}}})
    found = report(capfd, "--trust", code=1)
    assert run(["doctor", "--trust"]) == 1
    shown = capfd.readouterr()
    for secret in secrets:
        assert secret[:16] not in json.dumps(found) + shown.out + shown.err
    leak = next(each for each in found["servers"] if each["target"] == "cursor:leak")
    assert "starting with --token ••••" in leak["stderr"][0]
    assert [each["kind"] for each in leak["unsafe"]] == ["key in arguments"]
    [duplicate] = found["duplicates"]
    assert [each["kind"] for each in duplicate["differences"]] == ["variables", "variables"]


@pytest.mark.process
def test_a_long_token_on_stderr_is_masked_as_a_whole(home: Home, capfd: Capture) -> None:
    home.cursor({"token": hostile("token")})
    assert by_name(report(capfd, "--trust", code=1))["token"]["stderr"] == ["got •••• from the vault"]


@pytest.mark.slow
async def test_servers_at_urls_need_a_login_or_do_not_answer(home: Home, capfd: Capture) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        closed.set()

    closed = asyncio.Event()
    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with GuardedServer().running() as guarded, listener:
        home.cursor({"guarded": {"url": guarded.url}, "silent": {"url": f"http://127.0.0.1:{port}/mcp"}})
        found = await asyncio.to_thread(report, capfd, "--trust", "--timeout", "2", code=1)
        await closed.wait()
    servers = by_name(found)
    assert "HTTP 401" in servers["guarded"]["reason"]
    assert "Log in: mcpdesk login cursor:guarded" in servers["guarded"]["hint"]
    assert servers["guarded"]["login"]["state"] == "none" and servers["guarded"]["unsafe"] == []
    assert "within 2 s" in servers["silent"]["reason"] and "--timeout" in servers["silent"]["hint"]


@pytest.mark.process
def test_thirty_servers_of_which_one_hangs(home: Home, capfd: Capture) -> None:
    names = [f"server-{number}" for number in range(29)]
    home.cursor({"hangs": odd("silent"), **{name: odd() for name in names}})
    servers = by_name(report(capfd, "--trust", "--timeout", "6", code=1))
    assert servers["hangs"]["state"] == "failed"
    assert {servers[name]["state"] for name in names} == {"ok"}


@pytest.mark.process
def test_differences_to_the_lock_file_are_reported(home: Home, capfd: Capture) -> None:
    home.cursor({"git": odd(), "same": hostile("escapes"), "none": odd()})
    locks = home.path / "locks"
    locks.mkdir()
    file = locks / "git.lock.json"
    tools = {"echo": {"name": "echo", "inputSchema": {"type": "object"}}, "gone": {"name": "gone"}}
    write(file, {"version": 1, "server": "odd", "tool": tools})
    write(locks / "same.lock.json", {"version": 1})
    servers = by_name(report(capfd, "--trust", "--locks", str(locks), code=1))
    assert servers["none"]["lock"] is None and servers["same"]["lock"]["verdict"] == "same"
    lock = servers["git"]["lock"]
    assert (lock["file"], lock["verdict"]) == (str(file), "breaking")
    assert {"verdict": "breaking", "subject": "tool gone", "message": "was removed"} in lock["changes"]
    assert run(["doctor", "--trust", "--locks", str(locks)]) == 1
    assert "cursor:git: breaking: tool gone: was removed" in capfd.readouterr().out
    write(home.project / "git.lock.json", "no JSON")
    assert by_name(report(capfd, "--trust", code=1))["git"]["lock"]["verdict"] == "unreadable"


def test_lock_of_a_served_folder_is_that_of_its_first_word_in_the_folder_of_the_entry(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(*_: object) -> Examination:
        return Examination(start_s=0.1)

    def served(*words: str, **more: str) -> dict[str, Any]:
        return {"command": "mcpdesk", "args": ["stdio", *words], **more}

    monkeypatch.setattr(checkup, "examine", answered)
    locks = [
        write(home.path / folder / "mcp.lock.json", {"version": 1})
        for folder in ("work/read", "work/tools", "shop/other", "work/other")
    ]
    home.cursor(
        {
            "unknown-user": served("~no-such-user/x"),
            "long": served("x" * 300),
            "tools": served("--mode", "read", "tools", "other", cwd=str(home.path / "work")),
            "unknown-folder": odd(cwd="~no-such-user/x"),
        }
    )
    servers = by_name(report(capfd, "--trust", code=1))
    assert servers["tools"]["lock"] == {"file": str(locks[1]), "verdict": "same", "changes": []}
    assert servers["unknown-user"]["state"] == servers["long"]["state"] == "ok"
    assert servers["unknown-user"]["lock"] is servers["long"]["lock"] is None
    assert servers["unknown-folder"]["state"] == "unusable"
    assert "a path in it cannot be used" in servers["unknown-folder"]["reason"]


def test_error_in_the_report_of_a_server_does_not_hide_the_others(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered(*_: object) -> Examination:
        return Examination(start_s=0.1)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(checkup, "examine", answered)
    monkeypatch.setattr(checkup, "open_grants", broken)
    home.cursor({"bad": {"url": "https://mcp.example.test"}, "good": odd()})
    servers = by_name(report(capfd, "--trust", code=1))
    assert (servers["bad"]["state"], servers["good"]["state"]) == ("failed", "ok")
    assert servers["bad"]["reason"] == "mcpdesk has a bug that this server triggers"


@pytest.mark.process
def test_budget_of_a_client_can_be_limited(home: Home, capfd: Capture) -> None:
    home.cursor({"git": odd()})
    assert report(capfd, "--trust", "--max-tokens", "10", code=1)["over_budget"] == ["cursor"]
    assert report(capfd, "--trust", "--max-tokens", "1000")["over_budget"] == []


def test_budget_of_an_open_connection_can_be_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def examine(*_: object) -> Examination:
        return Examination(era="handshake", tools=Totals(1, 100, 25))

    monkeypatch.setattr(checkup, "examine", examine)
    opened = {"shop": (UrlTarget("http://127.0.0.1:9/mcp"), Reach())}
    plan = checkup.CheckupPlan(tmp_path, lambda config: None, lambda variable: "", connections=opened)
    for max_tokens, over in ((24, ["shop"]), (25, [])):
        found = checkup.check_up(with_connections([], opened), replace(plan, max_tokens=max_tokens))
        assert (found.over_budget, found.ok, found.clients) == (over, not over, [])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("expires", "refresh", "state"),
    [(3600.0, "", "valid"), (-60.0, "again", "renewable"), (-60.0, "", "expired"), (None, "", "none")],
)
def test_state_of_a_login_is_reported(
    home: Home,
    capfd: Capture,
    monkeypatch: pytest.MonkeyPatch,
    expires: float | None,
    refresh: str,
    state: str,
) -> None:
    async def answered(*_: object) -> Examination:
        return Examination(start_s=0.1)

    monkeypatch.setattr(checkup, "examine", answered)
    url = "https://mcp.example.test/mcp"
    home.cursor(
        {"remote": {"url": url}, "own": {"url": url, "headers": {"authorization": "Bearer abcdefgh"}}}
    )
    if expires is not None:
        grant = OAuthGrant(
            "https://login.test",
            url,
            ClientRegistration("me"),
            "the-token",
            ("read",),
            refresh,
            time.time() + expires,
        )
        open_grants(home.state).store(url, grant)
    servers = by_name(report(capfd, "--trust"))
    assert servers["remote"]["login"]["state"] == state
    assert servers["remote"]["login"]["scopes"] == ([] if expires is None else ["read"])
    assert servers["own"]["login"]["state"] == "header"
    assert run(["doctor", "--trust"]) == 0
    assert "the-token" not in capfd.readouterr().out


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("entry", "cores", "expected"),
    [(odd(), 8, 8), (odd(), 2, 4), ({"url": "https://mcp.example.test"}, 1, 8)],
)
def test_at_most_eight_are_examined_at_once(
    home: Home,
    capfd: Capture,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, Any],
    cores: int,
    expected: int,
) -> None:
    running, most = 0, 0

    async def slow(*_: object) -> Examination:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _turn in range(20):
            await asyncio.sleep(0)
        running -= 1
        return Examination(start_s=0.1)

    monkeypatch.setattr(checkup, "examine", slow)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    home.cursor({f"server-{number}": entry for number in range(30)})
    assert len(report(capfd, "--trust")["servers"]) == 30
    assert most == expected


def test_all_servers_are_connected_before_one_is_connected_again_for_the_other_era(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = list[str]()

    async def examine(*_: object) -> Examination:
        order.append("first")
        await asyncio.sleep(0)
        return Examination(era="stateless", start_s=0.1)

    async def with_handshake(result: Examination, *_: object) -> Examination:
        order.append("again")
        return replace(result, other_era=OtherEra("handshake", True, "2025-11-25"))

    monkeypatch.setattr(checkup, "examine", examine)
    monkeypatch.setattr(checkup, "with_handshake", with_handshake)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    home.cursor({f"server-{number}": odd() for number in range(6)})
    servers = report(capfd, "--trust")["servers"]
    assert order == ["first"] * 6 + ["again"] * 6
    assert {each["other_era"]["answer"] for each in servers} == {"2025-11-25"}


@pytest.mark.process
def test_advice_for_a_silent_server_names_a_busy_machine(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (4.0 * (os.cpu_count() or 1), 1.0, 1.0))
    home.cursor({"silent": odd("silent")})
    hint = by_name(report(capfd, "--trust", "--timeout", "0.3", code=1))["silent"]["hint"]
    assert "`mcpdesk doctor --timeout SECONDS` allows more time" in hint
    assert hint.endswith("This machine is busy, with 4 running processes for each core.")


def test_bug_of_ours_does_not_hide_the_other_servers(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(_target: object, name: str, *_: object) -> Examination:
        if name == "cursor:bad":
            raise ZeroDivisionError
        return Examination(start_s=0.1)

    monkeypatch.setattr(checkup, "examine", examine)
    home.cursor({"bad": odd(), "good": odd()})
    servers = by_name(report(capfd, "--trust", code=1))
    assert (servers["bad"]["state"], servers["good"]["state"]) == ("failed", "ok")


def test_invalid_entries_and_those_of_the_client_alone_are_told_apart(home: Home, capfd: Capture) -> None:
    write(
        home.path / "xdg" / "goose" / "config.yaml",
        "extensions:\n  developer: {type: builtin}\n  unset: {type: stdio, cmd: '${NOT_SET_X}'}\n",
    )
    servers = by_name(report(capfd, "--trust", code=1))
    assert servers["developer"]["state"] == "only in client"
    assert servers["unset"]["state"] == "unusable" and "NOT_SET_X" in servers["unset"]["reason"]
    assert report(capfd, "goose:developer", "--trust")["ok"]


def test_entries_that_are_switched_off_are_not_started(home: Home, capfd: Capture) -> None:
    started = home.path / "started"
    trap = {"command": sys.executable, "args": ["-c", f"open({str(started)!r}, 'w')"]}
    home.cursor({"off": {**trap, "disabled": True}, "quiet": {**trap, "enabled": False}})
    servers = by_name(report(capfd, "--trust"))
    assert {name: each["state"] for name, each in servers.items()} == {"off": "disabled", "quiet": "disabled"}
    assert all(each["disabled"] for each in servers.values()) and not started.exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arguments", [(), ("--trust",), ("cursor:one",)])
def test_a_file_that_cannot_be_read_after_the_search_is_an_error(
    home: Home, capfd: Capture, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    path = home.cursor({"one": odd()})

    def removed(path: Path) -> ConfigFile:
        path.unlink()
        return read_config(path)

    monkeypatch.setattr("mcpdesk.client.config_files.read_config", removed)
    [server] = report(capfd, *arguments, code=1)["servers"]
    assert (server["state"], server["hint"]) == ("unusable", "Check the path.")
    assert server["reason"] == f"{path}: No such file or directory."


@pytest.mark.process
def test_a_person_is_asked_only_about_the_file_of_a_named_server(home: Home) -> None:
    home.cursor({"good": odd()})
    home.claude({"other": odd()})
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def doctor(*targets: str) -> pexpect.spawn[str]:
        command = ["-m", "mcpdesk", "doctor", *targets]
        return pexpect.spawn(
            sys.executable, command, env=environment, timeout=120, encoding="utf-8", dimensions=(50, 200)
        )

    plain = doctor()
    plain.expect("2 servers: 2 not trusted")
    plain.expect(pexpect.EOF)
    named = doctor("cursor:good")
    named.expect("Do you trust this content")
    named.sendline("y")
    named.expect("1 server: 1 ok")
    named.expect(pexpect.EOF)
    plain = doctor()
    plain.expect("2 servers: 1 ok, 1 not trusted")
    plain.expect(pexpect.EOF)
    refused = doctor("claude-code:other")
    refused.expect("Do you trust this content")
    refused.sendline("n")
    refused.expect("1 server: 1 not trusted")
    refused.expect(pexpect.EOF)
