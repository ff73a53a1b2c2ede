"""`mcpdesk up`, `ps` and `down`, and other commands on an open connection, as real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jsonschema
import msgspec
import pexpect
import psutil
import pytest

from mcpdesk.cli.main import run
from mcpdesk.features.open_connections import sockets, start
from mcpdesk.features.open_connections.report import ConnectionDescription, ConnectionReport, ConnectionState
from mcpdesk.link.remote import RemoteLink, running_cores
from mcpdesk.transports import rendezvous
from tests.cli.test_windows import on_windows
from tests.features.open_connections.conftest import ROOT, SERVER, TEA, Shell
from tests.support.folders import write
from tests.support.patience import WITHIN_S, wait_until
from tests.support.processes import gone
from tests.support.terminal import Desk

FOLDER = {
    "mcp.json": '{"name": "pot", "version": "2"}',
    "tools/tea.py": """
        from mcpdesk import Context

        count = 0

        async def inc() -> int:
            global count
            count += 1
            return count

        async def ask(ctx: Context) -> str:
            fields = {"tea": {"type": "string"}}
            answer = await ctx.elicit("Which tea?", {"type": "object", "properties": fields})
            return f"{answer.action} {answer.content}"
        """,
}
pytestmark = pytest.mark.slow


def test_calls_share_the_state_of_a_program_by_name_and_by_target(shell: Shell) -> None:
    opened = shell.run("up", "--name", "tea", *SERVER)
    assert opened.returncode == 0, opened
    assert "tea is connected" in opened.stdout and "mcpdesk call tea" in opened.stdout
    assert (shell.succeed("call", "tea", "inc"), shell.succeed("call", "tea", "inc")) == ("1", "2")
    assert shell.succeed("call", "inc", *SERVER) == "3"
    assert shell.succeed("call", "--alone", "inc", *SERVER) == "1"
    assert "inc" in shell.succeed("list", "tea")
    assert '"tools"' in shell.succeed("send", "tea", "tools/list")
    listed = json.loads(shell.succeed("ps", "--json"))
    jsonschema.validate(listed, json.loads((ROOT / "docs" / "ps.schema.json").read_text()))
    (row,) = listed["connections"]
    known = {"name": "tea", "state": "ready", "revision": "2025-06-18", "transport": "stdio", "calls": 3}
    assert row.items() >= known.items() and row["tools"] == 7
    assert shell.succeed("down", "tea") == "tea has ended."
    assert shell.connections() == []
    refused = shell.run("call", "tea", "inc")
    assert refused.returncode == 2 and "No folder or file 'tea'" in refused.stderr


def test_sockets_are_private_and_those_of_killed_and_stopped_processes_cause_no_wait(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    (row,) = shell.connections()
    runtime = Path(rendezvous.runtime_folder())
    mark = rendezvous.state_mark(shell.environ["MCPDESK_STATE_DIR"])
    (path,) = runtime.glob(f"*{mark}.open")
    assert stat.S_IMODE(runtime.stat().st_mode) == 0o700 and stat.S_IMODE(path.stat().st_mode) == 0o600
    core = psutil.Process(row["pid"])
    programs = core.children(recursive=True)
    core.kill()
    assert gone([core, *programs])
    assert shell.connections() == [] and not path.exists()
    shell.succeed("up", "--name", "tea", *SERVER)
    assert shell.succeed("call", "tea", "inc") == "1"
    stopped = psutil.Process(shell.connections()[0]["pid"])
    stopped.suspend()
    try:
        assert json.loads(shell.succeed("ps", "--json"))["not_answering"] == [stopped.pid]
        refused = shell.run("call", "tea", "inc")
        assert refused.returncode == 3 and f"kill -9 {stopped.pid}" in refused.stderr
    finally:
        stopped.resume()


def test_a_server_that_ended_is_listed_with_the_reason_and_started_again_by_up(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    shell.succeed("call", "tea", "inc")
    died = shell.run("call", "tea", "die")
    assert died.returncode == 3 and "exit code 7" in died.stderr and "out of water" in died.stderr
    (row,) = shell.connections()
    assert row["state"] == "ended" and "out of water" in row["reason"] and "mcpdesk up" in row["hint"]
    shown = shell.run("ps")
    assert "ended" in shown.stdout and "out of water" in shown.stderr
    refused = shell.run("call", "tea", "inc", "--json")
    assert refused.returncode == 3
    assert "mcpdesk up" in json.loads(refused.stdout)["error"]["hint"]
    again = shell.run("up", "--name", "tea", *SERVER)
    assert again.returncode == 0 and "started again" in again.stderr
    assert shell.succeed("call", "tea", "inc") == "1"


def test_a_used_name_and_an_open_server_are_errors(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    for arguments, words in (
        (("up", "--name", "tea", *SERVER, "other"), "The name 'tea' is in use"),
        (("up", *SERVER), "already open as 'tea'"),
        (("up", "--name", "a/b", *SERVER), "not a valid name"),
        (("call", "tea", "inc", "--revision", "2025-06-18"), "cannot get other options"),
        (("down", "teapot"), "Did you mean 'tea'?"),
        (("down",), "use --all"),
    ):
        ended = shell.run(*arguments)
        assert ended.returncode == 2 and words in ended.stderr, (arguments, ended)
    shell.succeed("up", "--name", "second", *SERVER)
    assert (shell.succeed("call", "tea", "inc"), shell.succeed("call", "second", "inc")) == ("1", "1")
    several = shell.run("call", "inc", *SERVER)
    assert several.returncode == 2 and "2 open connections: tea, second" in several.stderr
    assert json.loads(shell.succeed("down", "--all", "--json"))["ended"] == ["tea", "second"]


@pytest.mark.process
def test_down_ends_all_that_it_can_and_reports_each_of_the_others(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("stopped", "tea"):
        shell.succeed("up", "--name", name, *SERVER)
    stopped = psutil.Process(shell.connections()[0]["pid"])
    monkeypatch.setenv("MCPDESK_STATE_DIR", shell.environ["MCPDESK_STATE_DIR"])
    monkeypatch.setattr(start, "END_S", 0.2)
    stopped.suspend()
    try:
        with endless("endless"):
            assert run(["down", "--all", "--json"]) == 1
            outcome = json.loads(capfd.readouterr().out)
            assert outcome["ended"] == ["tea"] and shell.connections()[0]["name"] == "endless"
            messages = [each["message"] for each in outcome["failed"]]
            assert messages == [
                f"The open connection 'endless' does not end (process {os.getpid()}).",
                f"process {stopped.pid} keeps a connection open, but does not answer",
            ]
            shell.succeed("up", "--name", "tea", *SERVER)
            assert run(["down", "stopped", "endless", "tea"]) == 1
            shown = capfd.readouterr()
            assert shown.out == "tea has ended.\n" and f"kill -9 {stopped.pid}" in shown.err
            assert f"does not end (process {os.getpid()})" in shown.err
    finally:
        stopped.resume()


@contextmanager
def endless(name: str) -> Iterator[None]:
    """An open connection of this process, which answers requests but does not end."""
    listening = sockets.occupy(name)
    assert listening is not None
    report = ConnectionReport(
        name, "x", "stdio", ConnectionState.READY, "", "", "x", "1", "", 0, os.getpid(), 9e9, 0, 0, 0.0, 1, ""
    )
    answer = msgspec.json.encode(ConnectionDescription(report, name)) + b"\n"
    visitors = list[socket.socket]()

    def serve() -> None:
        with suppress(OSError):
            while True:
                visitors.append(listening.listener.accept()[0])
                with suppress(BrokenPipeError):  # the visitor only checked that a process listens
                    visitors[-1].sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listening.listener.shutdown(socket.SHUT_RDWR)
        listening.leave()
        thread.join()
        for each in visitors:
            each.close()


def test_secrets_of_a_target_are_masked(shell: Shell) -> None:
    target = (*SERVER, "--api-key", "k-4711-secret")
    outputs = [
        shell.succeed("up", "--name", "tea", *target),
        shell.succeed("ps"),
        shell.succeed("ps", "--json"),
    ]
    assert not any("4711" in each for each in outputs)
    assert "4711" not in shell.run("up", *target).stderr
    assert shell.succeed("call", "inc", *target) == "1"  # the target is still recognized


def test_a_server_that_cannot_start_leaves_no_process(shell: Shell) -> None:
    failed = shell.run("up", "--name", "tea", *SERVER, "--broken")
    assert failed.returncode == 3 and "no kettle" in failed.stderr and "exit code 3" in failed.stderr
    nowhere = shell.run("up", "http://127.0.0.1:1/mcp")
    assert nowhere.returncode == 3 and "cannot be reached" in nowhere.stderr
    missing = shell.run("up", "nowhere")
    assert missing.returncode == 2
    assert shell.connections() == []


def test_an_interrupted_up_leaves_no_process(shell: Shell) -> None:
    typed = shell.terminal("up", "--name", "tea", *SERVER, "--slow")
    (row,) = wait_until(shell.connections)
    assert row["state"] == ConnectionState.CONNECTING
    typed.sendintr()
    typed.expect(pexpect.EOF)
    typed.close()
    assert typed.exitstatus == 130
    wait_until(lambda: not shell.connections())


def test_a_question_is_asked_in_the_terminal_of_the_call(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    declared = json.loads(shell.succeed("call", "tea", "capabilities"))
    assert {"elicitation", "roots", "sampling"} <= set(declared)
    typed = shell.terminal("call", "tea", "ask")
    typed.expect_exact("Which tea?")
    typed.expect_exact("> ")
    typed.sendline("green")
    typed.expect(pexpect.EOF)
    assert '"tea": "green"' in str(typed.before)
    typed.close()
    nobody = shell.run("call", "tea", "ask")
    assert nobody.returncode == 0 and "No person can answer" in nobody.stdout
    assert "the command runs without a terminal" in nobody.stderr


def test_watch_prints_the_notifications_until_the_server_ends(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    watching = subprocess.Popen(
        [sys.executable, "-P", "-m", "mcpdesk", "watch", "tea", "--resource", "tea://pot", "--json"],
        cwd=shell.folder, env=shell.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stderr is not None and watching.stdout is not None
    assert "watching" in watching.stderr.readline()
    shell.succeed("call", "tea", "touch")
    methods = [json.loads(watching.stdout.readline())["method"] for _ in range(2)]
    assert methods == ["notifications/resources/updated", "notifications/message"]
    shell.run("call", "tea", "die")
    assert watching.wait(WITHIN_S) == 3
    assert "out of water" in watching.stderr.read()
    watching.stdout.close(), watching.stderr.close()


def test_an_idle_connection_ends_by_itself(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", "--idle", "1", *SERVER)
    wait_until(lambda: not shell.connections())
    refused = shell.run("up", "--idle", "0", *SERVER)
    assert refused.returncode == 2 and "--idle" in refused.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_and_its_program(shell: Shell, number: int) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    core = psutil.Process(shell.connections()[0]["pid"])
    programs = core.children(recursive=True)
    assert programs and core.terminal() is None
    core.send_signal(number)
    assert gone([core, *programs])
    assert shell.connections() == []


def test_a_folder_is_hosted_and_keeps_its_state(shell: Shell) -> None:
    folder = str(write(shell.folder / "pot", FOLDER))
    shell.succeed("up", folder)
    assert (shell.succeed("call", "pot", "inc"), shell.succeed("call", folder, "inc")) == ("1", "2")
    assert shell.succeed("call", folder, "inc", "--alone") == "1"
    (row,) = shell.connections()
    assert row.items() >= {"name": "pot", "transport": "folder", "tools": 2, "calls": 2}.items()
    typed = shell.terminal("call", "pot", "ask")
    typed.expect_exact("> ")
    typed.sendline("green")
    typed.expect(pexpect.EOF)
    assert "accept {'tea': 'green'}" in str(typed.before)
    typed.close()
    again = shell.run("up", folder, "--name", "other")
    assert again.returncode == 2 and f"already hosted by process {row['pid']}" in again.stderr


def test_a_folder_that_cannot_be_loaded_is_an_error(shell: Shell) -> None:
    folder = str(write(shell.folder / "bad", {"mcp.json": '{"name": 1}'}))
    failed = shell.run("up", folder)
    assert failed.returncode == 2 and "mcp.json" in failed.stderr
    assert shell.connections() == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_questions_of_a_server_at_a_url_are_asked_in_both_eras(shell: Shell, revision: str) -> None:
    folder = str(write(shell.folder / "pot", FOLDER))
    serving = subprocess.Popen(
        [sys.executable, "-P", "-m", "mcpdesk", "serve", folder, "--port", "0"],
        cwd=shell.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env=shell.environ | {"MCPDESK_STATE_DIR": str(shell.folder / "served")},
    )  # fmt: skip
    try:
        assert serving.stderr is not None
        url = next(word for line in serving.stderr for word in line.split() if word.startswith("http://"))
        shell.succeed("up", url, "--name", "remote", "--revision", revision)
        (row,) = shell.connections()
        assert (row["transport"], row["revision"]) == ("http", revision)
        assert shell.succeed("call", "remote", "inc") == "1"
        typed = shell.terminal("call", "remote", "ask")
        typed.expect_exact("> ")
        typed.sendline("green")
        typed.expect(pexpect.EOF)
        assert "accept {'tea': 'green'}" in str(typed.before)
        typed.close()
        assert shell.run("call", "remote", "ask").returncode != 0
        assert "20 calls" in shell.succeed("load", "remote", "inc", "--rate", "20", "--for", "1")
        serving.terminate()
        serving.wait()
        unreached = shell.run("call", "remote", "inc")
        assert unreached.returncode == 3 and "cannot be reached" in unreached.stderr
        (row,) = shell.connections()
        assert row["state"] == "failed" and "cannot be reached" in row["reason"]
    finally:
        serving.terminate()
        serving.wait()
        assert serving.stderr is not None
        serving.stderr.close()


def test_checks_of_a_connection_start_its_server_a_second_time(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    assert shell.succeed("call", "tea", "inc") == "1"
    report = json.loads(shell.succeed("doctor", "tea", "--json"))
    jsonschema.validate(report, json.loads((ROOT / "docs" / "doctor.schema.json").read_text()))
    (server,) = report["servers"]
    known = {"target": "tea", "state": "ok", "scope": "connection", "file": "", "client": "", "login": None}
    assert server.items() >= known.items() and server["tools"]["count"] == 7
    assert report["clients"] == []
    revisions = json.loads(shell.succeed("check", "tea", "--eras", "--json"))["revisions"]
    assert {each["answered"] for each in revisions if each["answered"]} >= {"2025-06-18"}
    assert shell.succeed("call", "tea", "inc") == "2", "the open connection was not used"
    for command in (["login", "tea"], ["doctor", "--login", "tea"]):
        refused = shell.run(*command)
        assert refused.returncode == 2 and "tea is a program, which needs no login" in refused.stderr
    for command in (
        ["call", "tee", "inc"], ["check", "tee", "--eras"], ["login", "tee"], ["doctor", "tee"],
        ["doctor", "--login", "tee"], ["up", "tee"],
    ):  # fmt: skip
        unknown = shell.run(*command)
        assert unknown.returncode == 2 and "Did you mean tea?" in unknown.stderr, command


def test_the_login_of_a_connection_is_that_of_its_url(shell: Shell) -> None:
    folder = str(write(shell.folder / "pot", FOLDER))
    serving = subprocess.Popen(
        [sys.executable, "-P", "-m", "mcpdesk", "serve", folder, "--port", "0"],
        cwd=shell.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        env=shell.environ
        | {"MCPDESK_STATE_DIR": str(shell.folder / "served"), "MCPDESK_API_KEY": "s3cret-key"},
    )  # fmt: skip
    try:
        assert serving.stderr is not None
        url = next(word for line in serving.stderr for word in line.split() if word.startswith("http://"))
        opened = shell.run("up", url, "--name", "remote", "--key-env", "KEY", KEY="s3cret-key")
        assert opened.returncode == 0, opened
        report = json.loads(shell.succeed("doctor", "remote", "--json"))
        assert report["servers"][0]["state"] == "ok", "the key of `up` is used"
        assert "s3cret-key" not in json.dumps(report)
        login = json.loads(shell.run("doctor", "--login", "remote", "--json").stdout)
        assert login["url"] == url
        listed = json.loads(shell.succeed("check", "remote", "--eras", "--json"))["revisions"]
        assert any(each["answered"] for each in listed)
    finally:
        serving.terminate()
        serving.wait()
        assert serving.stderr is not None
        serving.stderr.close()


def test_trust_is_asked_in_the_terminal_and_a_refusal_starts_nothing(shell: Shell) -> None:
    (shell.folder / ".cursor").mkdir()
    entry = {"command": sys.executable, "args": [TEA]}
    (shell.folder / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"tea": entry}}))
    refused = shell.run("up", "cursor:tea")
    assert refused.returncode == 2 and "mcpdesk trust" in refused.stderr
    typed = shell.terminal("up", "cursor:tea")
    typed.expect_exact("Do you trust this content?")
    assert shell.connections() == []
    typed.sendline("y")
    typed.expect_exact("tea is connected")
    typed.expect(pexpect.EOF)
    typed.close()
    assert (shell.succeed("call", "cursor:tea", "inc"), shell.succeed("call", "tea", "inc")) == ("1", "2")


def test_a_desk_that_attaches_shows_the_calls(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    shell.succeed("call", "tea", "inc")
    (core,) = running_cores(shell.environ["MCPDESK_STATE_DIR"])
    assert core.welcome.names == ("tea",) and core.welcome.kind == "up"
    link = RemoteLink(core, shell.environ["MCPDESK_STATE_DIR"])
    try:

        def calls() -> list[str]:
            while link.traffic.catch_up():
                pass
            return [each.method for each in link.traffic.exchanges]

        wait_until(lambda: "tools/call" in calls())
    finally:
        link.close()


def test_the_desk_of_a_name_is_the_screen_of_its_process(shell: Shell) -> None:
    shell.succeed("up", "--name", "tea", *SERVER)
    shell.succeed("call", "tea", "inc")
    with Desk(["tea"], environ=shell.environ, cwd=shell.folder) as desk:
        desk.see("attached to up tea")
        desk.press("2")
        desk.see("tools/call")
    assert shell.succeed("call", "tea", "inc") == "2"


@pytest.mark.parametrize("command", [(), ("attach",)])
def test_the_name_of_a_connection_to_a_folder_opens_its_screen(
    shell: Shell, command: tuple[str, ...]
) -> None:
    shell.succeed("up", str(write(shell.folder / "pot", FOLDER)), "--name", "kettle")
    with Desk([*command, "kettle"], environ=shell.environ, cwd=shell.folder) as desk:
        desk.see("attached to up pot")


def test_names_are_completed(shell: Shell) -> None:
    shell.succeed("up", "--name", "file", *SERVER)
    words = {"COMP_WORDS": "mcpdesk down fi", "COMP_CWORD": "2", "_MCPDESK_COMPLETE": "bash_complete"}
    assert "plain,file" in shell.run(**words).stdout
    called = {"COMP_WORDS": "mcpdesk call fi", "COMP_CWORD": "2", "_MCPDESK_COMPLETE": "bash_complete"}
    assert "plain,file" in shell.run(**called).stdout


def test_nothing_but_a_short_error_on_windows() -> None:
    for command in (["up", TEA], ["ps"], ["down", "--all"]):
        (ended,) = on_windows(command)
        first, hint = ended["err"].splitlines()
        assert ended["code"] == 2 and "does not work on Windows, which lacks" in first and "WSL" in hint
