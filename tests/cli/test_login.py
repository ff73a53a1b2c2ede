"""Logging in to a remote server from a shell, and where the token is kept."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from pathlib import Path

import aiohttp
import pytest

from mcpdesk.client.oauth.stored_grants import PrivateFile, StoredGrants, open_grants
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.errors import AuthorizationError
from tests.support.guarded_server import GuardedServer
from tests.support.patience import WITHIN_S

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
    async with asyncio.timeout(WITHIN_S):
        if logs_in:
            while not (line := await process.stderr.readline()).startswith(b"http"):
                said += line
            async with aiohttp.ClientSession() as browser, browser.get(line.decode().strip()) as page:
                assert "You are logged in" in await page.text()
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), (said + err).decode()


async def test_who_logged_in_is_served_by_every_command_until_logout(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        code, _, err = await _mcpdesk(tmp_path, "list", server.url)
        assert code == 3
        assert "mcpdesk login URL" in err
        code, out, err = await _mcpdesk(tmp_path, "login", server.url, logs_in=True)
        assert code == 0, err
        assert f"Logged in to {server.url} by {server.origin}." in out
        assert "tokens.json, which only you can read" in out
        assert "token-1" not in out + err
        assert await _mcpdesk(tmp_path, "list", server.url) == (0, "nothing\n", "")
        assert (await _mcpdesk(tmp_path, "logout", server.url))[0] == 0
        assert (await _mcpdesk(tmp_path, "list", server.url))[0] == 3
        code, _, err = await _mcpdesk(tmp_path, "logout", server.url)
        assert (code, "There is no token" in err) == (2, True)
    assert stat.S_IMODE((tmp_path / "tokens.json").stat().st_mode) == 0o600


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
        assert (code, "no token of the account home for" in err) == (2, True)
    code, _, err = await _mcpdesk(tmp_path, "login", "https://a.test", "--account", "a b")
    assert (code, "'a b' is no name of an account" in err) == (2, True)


async def test_a_broken_authorization_server_is_named_with_its_rule(tmp_path: Path) -> None:
    changes = {"server": lambda document: document.update(issuer="https://evil.test")}
    async with GuardedServer(changes).running() as server:
        code, _, err = await _mcpdesk(tmp_path, "login", server.url)
    assert code == 3
    assert "RFC 8414, 3.3" in err


async def test_nobody_logs_in_is_said(tmp_path: Path) -> None:
    async with GuardedServer().running() as server:
        code, _, err = await _mcpdesk(tmp_path, "login", server.url, "--timeout", "0.2")
    assert code == 3
    assert "nobody logged in within 0.2 s" in err


def test_tokens_survive_the_process(tmp_path: Path) -> None:
    open_grants(tmp_path).keep("https://a.test/mcp", GRANT)
    kept = StoredGrants(PrivateFile(tmp_path / "tokens.json"))
    assert kept.grant("https://a.test/mcp") == GRANT
    assert kept.client("https://as.test") == GRANT.client
    kept.forget("https://a.test/mcp")
    assert kept.grant("https://a.test/mcp") is None
    assert kept.client("https://as.test") == GRANT.client


@pytest.mark.parametrize("damage", ["readable by others", "no JSON", "another shape"])
def test_a_file_that_cannot_be_trusted_is_as_good_as_none(damage: str, tmp_path: Path) -> None:
    store = StoredGrants(PrivateFile(tmp_path / "tokens.json"))
    store.keep("u", GRANT)
    match damage:
        case "readable by others":
            (tmp_path / "tokens.json").chmod(0o644)
        case "no JSON":
            (tmp_path / "tokens.json").write_text("{")
        case _:
            (tmp_path / "tokens.json").write_text('{"texts": {"token u": "[]"}}')
    assert store.grant("u") is None
    store.keep("u", GRANT)
    assert store.grant("u") == GRANT


def test_a_token_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuthorizationError, match="cannot be kept"):
        StoredGrants(PrivateFile(tmp_path / "file" / "tokens.json")).keep("u", GRANT)
