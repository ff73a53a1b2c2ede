"""Login at a remote server from a shell, and the storage of the token."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
import urllib.request
import webbrowser
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from mcpdesk import private_files
from mcpdesk.cli import login as login_commands
from mcpdesk.cli.main import run
from mcpdesk.client.oauth.browser_login import log_in
from mcpdesk.client.oauth.stored_grants import PrivateFile, StoredGrants, open_grants
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.errors import AuthorizationError
from tests.support.guarded_server import Document, GuardedServer
from tests.support.patience import until, within

GRANT = OAuthGrant("https://as.test", "https://a.test/mcp", ClientRegistration("me", "s"), "t0k", ("read",))


async def _mcpdesk(state: Path, *arguments: str, logs_in: bool = False) -> tuple[int, str, str]:
    """Run a command; a person visits the address it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mcpdesk",
        *arguments,
        env=os.environ
        | {"MCPDESK_STATE_DIR": str(state), "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    said = b""
    async with within():
        if logs_in:
            while not (line := await process.stderr.readline()).startswith(b"http"):
                said += line
            async with aiohttp.ClientSession() as browser, browser.get(line.decode().strip()) as page:
                assert "You are logged in" in await page.text()
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), (said + err).decode()


@pytest.mark.process
async def test_who_logged_in_is_served_by_every_command_until_logout(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        code, _, err = await _mcpdesk(tmp_path, "list", server.url)
        assert code == 3
        assert f"Log in: mcpdesk login {server.url}. " in err
        code, out, err = await _mcpdesk(tmp_path, "login", server.url, logs_in=True)
        assert code == 0, err
        assert f"Logged in to {server.url} by {server.origin}." in out
        assert "tokens.json, which only you can read" in out
        assert "token-1" not in out + err
        assert await _mcpdesk(tmp_path, "list", server.url) == (0, "nothing\n", "")
        assert (await _mcpdesk(tmp_path, "logout", server.url))[0] == 0
        assert (await _mcpdesk(tmp_path, "list", server.url))[0] == 3
        code, _, err = await _mcpdesk(tmp_path, "logout", server.url)
        assert (code, f"No token for {server.url}." in err) == (2, True)
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


@pytest.mark.slow
async def test_a_browser_that_runs_until_the_person_closes_it_does_not_block_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pages = list[str]()

    def browse(url: str) -> None:
        with urllib.request.urlopen(url, timeout=10) as page:
            pages.append(page.read().decode())

    monkeypatch.setenv("MCPDESK_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(login_commands, "is_terminal", lambda: True)
    monkeypatch.setattr(webbrowser, "open", browse)
    async with GuardedServer().running() as server, within():
        code = await asyncio.to_thread(run, ["login", server.url, "--timeout", "20"])
        assert code == 0, capfd.readouterr()
        await until(lambda: pages)
    assert "You are logged in" in pages[0]


@pytest.mark.process
async def test_server_of_a_client_is_logged_in_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    async with GuardedServer().running() as server:
        entries = {"remote": {"url": server.url, "account": "work"}, "program": {"command": "server"}}
        file.write_text(json.dumps({"mcpServers": entries}))
        code, _, err = await _mcpdesk(tmp_path, "login", "cursor:remote")
        assert (code, f"mcpdesk trust {file}" in err) == (2, True)
        code, out, err = await _mcpdesk(tmp_path, "login", "cursor:remote", "--trust", logs_in=True)
        assert (code, f"Logged in to {server.url} by {server.origin}, as work." in out) == (0, True), err
        assert (await _mcpdesk(tmp_path, "list", "cursor:remote", "--trust"))[0] == 0
        assert (await _mcpdesk(tmp_path, "logout", f"{file}:remote", "--trust"))[0] == 0
        assert (await _mcpdesk(tmp_path, "list", "cursor:remote", "--trust"))[0] == 3


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("cursor:program", "is a program, which needs no login"),
        ("cursor:remot", "Did you mean cursor:remote?"),
        ("cursr:remote", "Did you mean cursor:remote?"),
        ("example.com/mcp", "Did you mean https://example.com/mcp?"),
        ("remote", "Did you mean cursor:remote?"),
        ("nothing", "No folder or file 'nothing'"),
    ],
)
@pytest.mark.parametrize("command", ["login", "logout"])
def test_target_without_a_url_has_no_login(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: str,
    target: str,
    words: str,
) -> None:
    for name in ("HOME", "MCPDESK_STATE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / ".cursor").mkdir()
    entries = {"mcpServers": {"program": {"command": "server"}, "remote": {"url": "https://a.test"}}}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(entries))
    assert run([command, target, "--trust"]) == 2
    assert words in capfd.readouterr().err


@pytest.mark.slow
async def test_several_accounts_of_one_url_are_kept_apart(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        for account in ("work", "home"):
            login = ("login", server.url, "--account", account)
            code, out, err = await _mcpdesk(tmp_path, *login, logs_in=True)
            assert code == 0, err
            assert f"by {server.origin}, as {account}." in out
        assert (await _mcpdesk(tmp_path, "list", server.url))[0] == 3
        assert (await _mcpdesk(tmp_path, "list", server.url, "--account", "home"))[0] == 0
        assert (await _mcpdesk(tmp_path, "logout", server.url, "--account", "home"))[0] == 0
        assert (await _mcpdesk(tmp_path, "list", server.url, "--account", "home"))[0] == 3
        assert (await _mcpdesk(tmp_path, "list", server.url, "--account", "work"))[0] == 0
        code, _, err = await _mcpdesk(tmp_path, "logout", server.url, "--account", "home")
        assert (code, f"No token of the account home for {server.url}." in err) == (2, True)
    code, _, err = await _mcpdesk(tmp_path, "login", "https://a.test", "--account", "a b")
    assert (code, "'a b' is not a valid account name" in err) == (2, True)


@pytest.mark.process
async def test_a_broken_authorization_server_is_named_with_its_rule(tmp_path: Path) -> None:
    changes = {"server": lambda document: document.update(issuer="https://evil.test")}
    async with GuardedServer(changes).running() as server:
        code, _, err = await _mcpdesk(tmp_path, "login", server.url)
    assert code == 3
    assert "RFC 8414, 3.3" in err


@pytest.mark.process
async def test_logout_revokes_both_tokens_where_the_server_offers_it(tmp_path: Path) -> None:
    server = GuardedServer({})
    async with server.running():
        address = f"{server.origin}/revoke"
        server.changes["server"] = lambda document: document.update(revocation_endpoint=address)
        assert (await _mcpdesk(tmp_path, "login", server.url, logs_in=True))[0] == 0
        code, out, _ = await _mcpdesk(tmp_path, "logout", server.url)
    assert (code, "was revoked and forgotten" in out) == (0, True)
    assert [(each["token"], each["client_id"]) for each in server.revocations] == [
        ("refresh-1", "client-1"),
        ("token-1", "client-1"),
    ]


@pytest.mark.slow
async def test_logout_repeats_the_secret_in_the_form_for_servers_that_want_it_there(tmp_path: Path) -> None:
    def missing(document: Document) -> web.Response | None:
        if "client_secret" in server.revocations[-1]:
            return None
        error = {"error": "invalid_request", "error_description": "client_secret: Field required"}
        return web.json_response(error, status=400)

    def metadata(document: Document) -> None:
        document["revocation_endpoint"] = f"{server.origin}/revoke"
        document["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]

    def registration(document: Document) -> None:
        document["client_secret"] = "s3cret"

    server = GuardedServer({"revocation": missing, "server": metadata, "registration": registration})
    async with server.running():
        assert (await _mcpdesk(tmp_path, "login", server.url, logs_in=True))[0] == 0
        code, out, err = await _mcpdesk(tmp_path, "logout", server.url)
    assert (code, "was revoked and forgotten" in out) == (0, True), err
    assert ["client_secret" in each for each in server.revocations] == [False, True] * 2


@pytest.mark.slow
async def test_a_command_logs_in_as_the_client_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLIENT_SECRET", "s3cret")
    flags = ("--client-id", "me", "--client-secret-env", "CLIENT_SECRET", "--client-credentials")
    async with GuardedServer().running() as server:
        assert await _mcpdesk(tmp_path, "list", server.url, *flags) == (0, "nothing\n", "")
        assert server.token_requests[0]["grant_type"] == "client_credentials"
        code, out, err = await _mcpdesk(tmp_path, "login", server.url, *flags)
        assert (code, f"Logged in to {server.url}" in out, err) == (0, True, "")
        assert await _mcpdesk(tmp_path, "list", server.url) == (0, "nothing\n", "")
        assert (await _mcpdesk(tmp_path, "logout", server.url))[0] == 0
        secret = tmp_path / "secret"
        secret.write_text("s3cret\n")
        oauth = {"clientId": "me", "clientSecretFile": str(secret), "clientCredentials": True}
        config = tmp_path / "servers.json"
        config.write_text(json.dumps({"mcpServers": {"far": {"url": server.url, "oauth": oauth}}}))
        assert await _mcpdesk(tmp_path, "list", f"{config}:far", "--trust") == (0, "nothing\n", "")
    assert not server.registrations and "s3cret" not in out


@pytest.mark.slow
async def test_a_login_uses_the_document_about_the_client_where_the_server_takes_it(tmp_path: Path) -> None:
    address = "https://client.test/mcpdesk.json"
    takes: list[bool] = [True]

    def metadata(document: Document) -> None:
        document["client_id_metadata_document_supported"] = takes[0]

    async with GuardedServer({"server": metadata}).running() as server:
        login = ("login", server.url, "--client-metadata-url", address)
        code, _, err = await _mcpdesk(tmp_path, *login, logs_in=True)
        assert (code, server.authorizations[-1]["client_id"], server.registrations) == (0, address, []), err
        takes[0] = False
        code, _, err = await _mcpdesk(tmp_path, *login, logs_in=True)
        assert (code, server.authorizations[-1]["client_id"]) == (0, "client-1")
        assert "warning: " in err and "does not support client metadata documents" in err


@pytest.mark.slow
async def test_options_of_a_login_that_do_not_fit_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    code, _, err = await _mcpdesk(tmp_path, "list", "https://a.test/mcp", "--client-credentials")
    assert (code, "Client credentials need the client's id" in err) == (2, True)
    code, _, err = await _mcpdesk(tmp_path, "login", "https://a.test/mcp", "--id-token-env", "NOT_SET")
    assert (code, "--id-token-env: the environment variable NOT_SET is not set" in err) == (2, True)


async def test_the_browser_shows_why_a_login_failed(tmp_path: Path) -> None:
    refused = {"token": lambda document: web.json_response({"error": "<invalid>"}, status=400)}
    shown: asyncio.Queue[str] = asyncio.Queue()
    async with GuardedServer(refused).running() as server, aiohttp.ClientSession() as browser:
        login = asyncio.ensure_future(log_in(server.url, open_grants(tmp_path), shown.put_nowait))
        async with within(), browser.get(await shown.get()) as page:
            text = await page.text()
        assert "The login failed: the token request was refused: HTTP 400 &lt;invalid&gt;" in text
        with pytest.raises(AuthorizationError, match="HTTP 400"):
            await login


@pytest.mark.process
async def test_nobody_logs_in_is_said(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        code, _, err = await _mcpdesk(tmp_path, "login", server.url, "--timeout", "0.2")
    assert code == 3
    assert "no login within 0.2 s" in err and "open the address in a browser on this machine" in err


def test_tokens_survive_the_process(tmp_path: Path) -> None:
    open_grants(tmp_path).store("https://a.test/mcp", GRANT)
    kept = StoredGrants(PrivateFile(tmp_path / "tokens.json"), tmp_path)
    assert kept.grant("https://a.test/mcp") == GRANT
    assert kept.client("https://as.test") == GRANT.client
    kept.forget("https://a.test/mcp")
    assert kept.grant("https://a.test/mcp") is None
    assert kept.client("https://as.test") == GRANT.client


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("readable by others", r"mode 0644.*: run chmod 600 "),
        ("no JSON", r"not a JSON file.*: move it"),
    ],
)
def test_a_token_file_that_cannot_be_trusted_is_neither_used_nor_changed(
    damage: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.json"
    store = StoredGrants(PrivateFile(file), tmp_path)
    store.store("u", GRANT)
    if damage == "no JSON":
        file.write_text("{")
    else:
        file.chmod(0o644)
    before = file.read_bytes()
    assert store.grant("u") is None
    for change in (store.check, lambda: store.store("v", GRANT), lambda: store.forget("u")):
        with pytest.raises(AuthorizationError, match=told):
            change()
    assert file.read_bytes() == before
    if damage == "readable by others":
        file.chmod(0o600)
        store.store("v", GRANT)
        assert store.grant("u") == store.grant("v") == GRANT


def test_a_stored_token_of_another_shape_is_as_good_as_none(tmp_path: Path) -> None:
    store = StoredGrants(PrivateFile(tmp_path / "tokens.json"), tmp_path)
    store.store("u", GRANT)
    (tmp_path / "tokens.json").write_text('{"texts": {"token u": "[]"}}')
    assert store.grant("u") is None
    store.store("u", GRANT)
    assert store.grant("u") == GRANT


@pytest.mark.process
async def test_a_token_file_with_the_wrong_mode_ends_a_login_before_the_browser_opens(tmp_path: Path) -> None:
    open_grants(tmp_path).store("u", GRANT)
    (tmp_path / "tokens.json").chmod(0o640)
    async with GuardedServer().running() as server:
        code, _, err = await _mcpdesk(tmp_path, "login", server.url)
        assert (code, "chmod 600" in err, server.requests) == (3, True, [])
        code, _, err = await _mcpdesk(tmp_path, "logout", server.url)
        assert (code, "chmod 600" in err) == (3, True)


WRITER = """
import pathlib, sys
from mcpdesk.client.oauth.stored_grants import PrivateFile
file = PrivateFile(pathlib.Path(sys.argv[1]))
sys.stdin.readline()
for number in range(20):
    file.write(f"{sys.argv[2]}-{number}", "v")
"""


@pytest.mark.process
async def test_processes_that_write_at_once_lose_no_token(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(file), str(each), stdin=asyncio.subprocess.PIPE
        )
        for each in range(3)
    ]
    async with within():
        await asyncio.gather(*(each.communicate(b"\n") for each in writers))
    assert [each.returncode for each in writers] == [0, 0, 0]
    kept = PrivateFile(file)
    assert all(kept.read(f"{each}-{number}") == "v" for each in range(3) for number in range(20))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_a_lock_that_another_process_keeps_is_said(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        private_files.locked(lock),
        pytest.raises(TimeoutError, match=r"keeps .* locked"),
        private_files.locked(lock, timeout_s=0),
    ):
        pass


def test_a_token_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthorizationError, match="cannot be stored"):
        StoredGrants(PrivateFile(tmp_path / "file" / "tokens.json"), tmp_path).store("u", GRANT)
