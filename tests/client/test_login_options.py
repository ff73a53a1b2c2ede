"""Logins by options: as flags and the entries of configuration files give them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec.structs import replace

from mcpdesk.client.config_files import read_config
from mcpdesk.client.configs.variables import variables
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.login_options import MAX_BYTES, LoginOptions, Secret
from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant
from mcpdesk.client.targets import UrlTarget, find_target
from mcpdesk.client.trust import describe_untrusted
from mcpdesk.errors import AuthorizationError, DeskUserError
from tests.support.grants import GrantsInMemory
from tests.support.guarded_server import GuardedServer
from tests.support.tokens import private_key
from tests.support.trusting import agree

MACHINE = LoginOptions("me", Secret("s3cret"), uses_credentials=True)


async def _listed(server: GuardedServer, options: LoginOptions, store: GrantsInMemory | None = None) -> None:
    authorizer = Authorizer(server.url, options, store or GrantsInMemory())
    connection = ServerConnection(
        StreamableHttp(server.url, {}, authorizer=authorizer), {"name": "test", "version": "1"}
    )
    try:
        assert await connection.list_all("tools/list", "tools") == []
    finally:
        await connection.close()


async def test_a_client_logs_in_for_itself_with_its_secret(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    options = LoginOptions("me", Secret(file=str(tmp_path / "secret")), uses_credentials=True, scope="read x")
    async with GuardedServer().running() as server:
        await _listed(server, options)
    assert [each["grant_type"] for each in server.token_requests] == ["client_credentials"]
    assert (server.token_requests[0]["scope"], server.token_requests[0]["client_id"]) == ("read x", "me")
    assert base64.b64decode(server.basic[0].removeprefix("Basic ")) == b"me:s3cret"
    assert not server.registrations


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "RS256", "EdDSA"])
async def test_a_client_logs_in_for_itself_with_its_key(algorithm: str, tmp_path: Path) -> None:
    key, file = private_key(algorithm), tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    async with GuardedServer().running() as server:
        await _listed(server, LoginOptions("me", client_key=Secret(file=str(file))))
    assertion = server.token_requests[0]["client_assertion"]
    claims = jwt.decode(assertion, key.public_key(), algorithms=[algorithm], audience=server.origin)
    assert (claims["iss"], claims["sub"]) == ("me", "me")


async def test_a_token_of_the_platform_is_read_again_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        server.knows_refresh = False
        for text in ("first", "second"):
            file.write_text(text)
            server.revoke()
            await _listed(server, LoginOptions(assertion=Secret(file=str(file))), store)
    asked = [each for each in server.token_requests if each["grant_type"].endswith(":jwt-bearer")]
    assert [each["assertion"] for each in asked] == ["first", "second"]
    assert "client_id" not in asked[0]


async def test_an_enterprise_login_exchanges_the_id_token() -> None:
    async with GuardedServer().running() as server:
        options = LoginOptions(
            "me",
            Secret("s3cret"),
            provider_url=f"{server.origin}/idp/token",
            provider_client_id="desk",
            id_token=Secret("id-token"),
        )
        await _listed(server, options)
    assert server.exchanges[0]["subject_token"] == "id-token"
    assert (server.exchanges[0]["client_id"], server.exchanges[0]["resource"]) == ("desk", server.url)
    assert server.token_requests[0]["assertion"] == "id-jag"


async def test_a_client_that_logs_in_for_itself_leaves_the_login_of_a_person_alone() -> None:
    store = GrantsInMemory()
    async with GuardedServer().running() as server:
        person = OAuthGrant(server.origin, server.url, ClientRegistration("client-1"), "persons")
        store.store(server.url, person)
        await _listed(server, MACHINE, store)
        assert store.grant(server.url) == person
        store.forget(server.url)
        await _listed(server, MACHINE, store)
        await _listed(server, MACHINE, store)
        assert store.grant(server.url) is not None
    assert len(server.token_requests) == 2  # the third list used the token that was kept


async def test_credentials_are_shown_to_no_other_authorization_server() -> None:
    async with GuardedServer().running() as server:
        with pytest.raises(AuthorizationError, match=r"registered at https://id\.test"):
            await _listed(server, replace(MACHINE, client_issuer="https://id.test"))
    assert not server.token_requests


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff", "is not UTF-8"),
        (b" \n", "is empty"),
        (b"x" * (MAX_BYTES + 1), "more than"),
        (None, "No such"),
    ],
)
async def test_a_file_without_a_usable_secret_is_named(
    content: bytes | None, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    async with GuardedServer().running() as server:
        with pytest.raises(AuthorizationError, match=f"secret.* {told}"):
            await _listed(server, LoginOptions("me", Secret(file=str(file)), uses_credentials=True))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (LoginOptions(client_secret=Secret("s")), "a client secret needs the client's id"),
        (LoginOptions("me", uses_credentials=True), "client credentials need"),
        (LoginOptions("me", Secret("s"), Secret("key")), "a client key needs"),
        (LoginOptions("me", assertion=Secret("a")), "an assertion already names the client"),
        (replace(MACHINE, id_token=Secret("i")), "cannot be used together"),
        (LoginOptions("me", Secret("s"), id_token=Secret("i")), "an identity provider needs its token URL"),
        (
            LoginOptions(provider_url="https://a.test/t", provider_client_id="d", id_token=Secret("i")),
            "an identity provider needs the client's id and secret",
        ),
        (LoginOptions(client_metadata_url="https://a.test"), "an https URL with a path"),
        (LoginOptions(client_metadata_url="http://a.test/c"), "an https URL with a path"),
        (LoginOptions(client_issuer="http://a.test"), "must be an https URL"),
        (MACHINE, ""),
        (LoginOptions("me"), ""),
    ],
)
def test_options_that_cannot_be_used_together_are_named(options: LoginOptions, told: str) -> None:
    assert told in options.problem() and bool(told) == bool(options.problem())
    assert "s3cret" not in repr(options)


ENTRY = {
    "url": "https://a.test/mcp",
    "oauth": {
        "clientId": "me",
        "clientSecret": "${SECRET}",
        "clientIssuer": "https://id.test",
        "clientCredentials": True,
        "scopes": ["a", "b"],
        "callbackPort": 33427,
        "enabled": True,
        "odd": 1,
    },
}


def _config(folder: Path, entry: Any) -> Path:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"far": entry}}))
    return file


def _target(file: Path, **environ: str) -> UrlTarget:
    found = find_target(str(file), environ, lambda variable: "", agree)
    assert isinstance(found, UrlTarget)
    return found


def test_an_entry_says_how_to_log_in(tmp_path: Path) -> None:
    file = _config(tmp_path, ENTRY)
    login = _target(file, SECRET="s3cret").login
    assert (login.client_id, login.client_secret, login.scope) == ("me", Secret("s3cret"), "a b")
    assert (login.client_issuer, login.callback_port) == ("https://id.test", 33427)
    assert login.uses_credentials
    config = read_config(file)
    assert variables(config.servers[0]) == ("SECRET",)
    assert config.servers[0].remarks == ("'oauth.odd' is not allowed here",)
    assert "  logs in as the client me" in describe_untrusted(config).lines


def test_files_of_an_entry_are_in_its_project_and_are_shown_before_they_are_read(tmp_path: Path) -> None:
    oauth = {"idpTokenUrl": "https://idp.test/t", "idpClientId": "d", "idTokenFile": "id"}
    file = _config(
        tmp_path,
        {"url": "https://a.test/mcp", "oauth": oauth | {"clientId": "me", "clientSecretFile": "${NAME}"}},
    )
    login = _target(file, NAME="secret").login
    assert login.files == (str(tmp_path / "secret"), str(tmp_path / "id"))
    shown = "\n".join(describe_untrusted(read_config(file)).lines)
    assert "reads a secret for the login in the file id" in shown
    assert "sends an ID token to https://idp.test/t" in shown


def test_keys_of_cursor_are_read(tmp_path: Path) -> None:
    auth = {"CLIENT_ID": "me", "CLIENT_SECRET": "s3cret", "scopes": ["a"]}
    login = _target(_config(tmp_path, {"url": "https://a.test/mcp", "auth": auth})).login
    assert login == LoginOptions("me", Secret("s3cret"), scope="a")


@pytest.mark.parametrize(
    ("oauth", "told"),
    [
        ({"clientId": 5}, "oauth.clientId must be a string"),
        ({"assumePkce": "yes"}, "oauth.assumePkce must be true or false"),
        ({"callbackPort": "1"}, "oauth.callbackPort must be a port"),
        ({"callbackPort": 70000}, "oauth.callbackPort must be a port"),
        ({"scopes": {}}, "oauth.scopes must be a list"),
        ({"clientSecret": "s"}, "oauth: a client secret needs the client's id"),
    ],
)
def test_a_fault_in_an_entry_is_one_sentence(oauth: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises(DeskUserError, match=told):
        _target(_config(tmp_path, {"url": "https://a.test/mcp", "oauth": oauth}))


def test_a_client_that_is_not_to_log_in_by_itself_is_no_fault(tmp_path: Path) -> None:
    assert _target(_config(tmp_path, {"url": "https://a.test/mcp", "oauth": False})).login == LoginOptions()


def test_a_registered_client_is_used_where_a_person_logs_in() -> None:
    options = LoginOptions("app", Secret("hush"))
    expected = ClientRegistration("app", "hush", redirect_uri="http://127.0.0.1:7/cb")
    assert options.setup("http://127.0.0.1:7/cb").client == expected
    assert replace(options, uses_credentials=True).setup().client is None
    assert LoginOptions().setup().client is None
