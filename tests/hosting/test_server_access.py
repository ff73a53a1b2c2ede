"""Access rules of a server and of each tool, from its manifest; kept while the manifest is unchanged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.auth import keys
from mcpdesk.auth.access import OPEN_ACCESS
from mcpdesk.auth.keys import KeysMissing, KeySource, RefreshPace
from mcpdesk.auth.principal import Rejected
from mcpdesk.auth.tokens import Verifier
from mcpdesk.hosting.folder.manifest import Auth, Jwt, Needs
from mcpdesk.hosting.server_access import (
    MAX_DOCUMENT_BYTES,
    AccessGate,
    access_warnings,
    file_keys,
    key_source,
    public_environment,
    url_keys,
    with_required_tokens,
)
from mcpdesk.server.offer.tool import Tool
from tests.support.scripted import http, scripted
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, jwk, jwks, token

SECRETS = {"MCPDESK_API_KEY", "ZYRA_API_KEY", "MCPDESK_REQUEST_STATE_SECRET", "WALLET_SECRET"}


async def handler(arguments: dict[str, Any], context: Any) -> None:
    raise NotImplementedError


def tool(name: str, **more: Any) -> Tool:
    return Tool(name, handler, {"type": "object"}, **more)


def shared(**more: Any) -> Auth:
    jwt = Jwt(algorithms=["HS256"], secret_env="S", issuer=ISSUER, audience=AUDIENCE, leeway_s=5)
    return Auth(**{"jwt": jwt, **more})


def test_nothing_is_asked_where_nothing_is_said(tmp_path: Path) -> None:
    assert AccessGate("wallet", tmp_path, print).update(Auth()) is OPEN_ACCESS


async def test_tokens_are_checked_as_the_manifest_says(tmp_path: Path) -> None:
    gate = AccessGate("wallet", tmp_path, print, {"S": SECRET})
    servers = ["https://i.example"]
    access = gate.update(
        shared(requires_jwt=True, scopes=["a"], includes={"b": ["a"]}, authorization_servers=servers)
    )
    assert access.requires_token and access.authorization_servers == tuple(servers)
    assert access.scopes_supported == ("a",) and access.verifier is not None
    assert access.admits(await access.verifier.verify(token("HS256", scope="b")))
    with pytest.raises(Rejected):
        await access.verifier.verify(token("HS256", aud="other"))


def test_known_keys_stay_while_manifest_and_secret_are_the_same(tmp_path: Path) -> None:
    environment = {"S": SECRET}
    gate = AccessGate("wallet", tmp_path, print, environment)
    first = gate.update(shared())
    assert gate.update(shared()) is first
    assert gate.update(shared(requires_jwt=True)) is not first
    second = gate.update(shared())
    environment["S"] = SECRET * 2
    assert gate.update(shared()) is not second
    gate.close()


def test_keys_that_do_not_count_any_more_are_looked_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Verifier] = []
    monkeypatch.setattr(Verifier, "close", lambda self: closed.append(self))
    gate = AccessGate("wallet", tmp_path, print, {"S": SECRET})
    first = gate.update(shared()).verifier
    second = gate.update(shared(requires_jwt=True)).verifier
    assert closed == [first]
    gate.close()
    assert closed == [first, second]
    gate.update(Auth())
    gate.close()
    assert closed == [first, second, second]


def test_a_secret_that_is_not_set_is_told_at_once(tmp_path: Path) -> None:
    told: list[str] = []
    AccessGate("wallet", tmp_path, told.append, {}).update(shared())
    assert told == ["auth.jwt: S is not set, so no token is accepted"]


def test_a_manifest_may_ask_more_of_a_tool_and_never_less() -> None:
    auth = shared(
        tools={
            "Bash": Needs(),
            "send": Needs(requires_jwt=False, scopes=["send"]),
            "own": Needs(requires_jwt=False),
        }
    )
    tools = [tool("Bash"), tool("send", scopes=("read",)), tool("own", requires_jwt=True), tool("free")]
    found = {each.name: (each.requires_jwt, each.scopes) for each in with_required_tokens(tools, auth)}
    assert found == {
        "Bash": (True, ()),
        "send": (True, ("read", "send")),
        "own": (True, ()),
        "free": (False, ()),
    }


def test_what_would_surprise_is_told_with_its_place() -> None:
    asking = [tool("send", requires_jwt=True), tool("free")]
    assert list(access_warnings(Auth(), [tool("free")])) == []
    assert list(access_warnings(shared(), asking)) == []
    ((trail, told),) = access_warnings(Auth(), asking)
    assert trail == ("auth",) and "no client can call send" in told
    public = Auth(jwt=Jwt(algorithms=["RS256"], jwks_url="https://i.example/keys"))
    ((trail, told),) = access_warnings(public, asking)
    assert trail == ("auth", "jwt", "audience") and "set audience" in told
    own = Auth(jwt=Jwt(algorithms=["HS256"], secret_env="S"))
    assert list(access_warnings(own, asking)) == [], "who shares the secret is trusted"


def test_programs_see_neither_the_secrets_of_tokens_nor_those_of_the_desk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*SECRETS, "HARMLESS"):
        monkeypatch.setenv(name, "x")
    expected = {name: value for name, value in os.environ.items() if name not in SECRETS}
    assert public_environment(["WALLET_SECRET", ""]) == expected


async def test_a_key_file_that_is_saved_counts_at_once_and_the_old_key_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "FILE", RefreshPace(fresh_s=0, pause_s=0, waits=True))
    path, told = tmp_path / "keys.json", list[str]()
    path.write_bytes(jwks(jwk("ES256", "first")))
    named = Jwt(algorithms=["ES256"], jwks_file="keys.json", issuer=ISSUER, audience=AUDIENCE)
    verifier = AccessGate("wallet", tmp_path, told.append).update(Auth(jwt=named)).verifier
    assert verifier is not None
    old, new = token("ES256", "first"), token("ES256", "second")
    assert (await verifier.verify(old)).name == "ada"
    with pytest.raises(Rejected, match="key is not known"):
        await verifier.verify(new)
    path.write_bytes(jwks(jwk("ES256", "second")))
    assert (await verifier.verify(new)).name == "ada"
    assert verifier.recognize(old) is None
    with pytest.raises(Rejected, match="key is not known"):
        await verifier.verify(old)
    path.write_bytes(b"{")
    assert (await verifier.verify(new)).name == "ada", "the keys it had stay"
    assert told == ['auth.jwt: jwks_file keys.json: it is not a JWK set, which is an object with "keys"']


async def no_fetch(url: str, most: int) -> bytes:
    raise OSError("it cannot be reached")


def source(folder: Path, told: list[str], environment: dict[str, str] | None = None, **jwt: Any) -> KeySource:
    return key_source(Jwt(**jwt), folder, environment or {}, told.append, no_fetch)


async def test_a_secret_is_read_from_the_environment(tmp_path: Path) -> None:
    told: list[str] = []
    named = {"algorithms": ["HS256"], "secret_env": "WALLET_SECRET"}
    assert await source(tmp_path, told, {"WALLET_SECRET": SECRET}, **named).find("HS256", None)
    assert not await source(tmp_path, told, {}, **named).find("HS256", None)
    assert told == []
    short = source(tmp_path, told, {"WALLET_SECRET": "hunter2"}, **named)
    assert told == ["auth.jwt: secret_env WALLET_SECRET: the secret has 7 bytes, HS256 needs 32"]
    assert not await short.find("HS256", None)


async def test_keys_are_fetched_from_their_address(tmp_path: Path) -> None:
    told: list[str] = []
    gate = AccessGate("wallet", tmp_path, told.append, {})
    async with scripted(lambda seen: http(200, jwks(jwk("ES256", "first")))) as place:
        url = f"{place.url}/keys"
        named = Jwt(algorithms=["ES256"], jwks_url=url, issuer=ISSUER, audience=AUDIENCE)
        verifier = gate.update(Auth(jwt=named)).verifier
        assert verifier is not None
        assert (await verifier.verify(token("ES256", kid="first"))).claims
        assert [seen.path for seen in place.seen] == ["/mcp/keys"] and told == []
    gate.close()


async def test_a_file_is_read_again_when_it_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(jwks(jwk("RS256")))
    load = file_keys(path, ["RS256"])
    first = await load()
    assert first is not None and first.find("RS256", "first")
    assert await load() is None
    draft = tmp_path / "draft"
    draft.write_bytes(jwks(jwk("RS256", "second")))
    os.replace(draft, path)
    second = await load()
    assert second is not None and second.find("RS256", "second") and not second.find("RS256", "first")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "it cannot be read: No such file"),
        (b"{", "not a JWK set"),
        (b" " * (MAX_DOCUMENT_BYTES + 1), "larger"),
    ],
)
async def test_a_file_without_keys_is_told_with_its_name(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    told: list[str] = []
    if content is not None:
        (tmp_path / "keys.json").write_bytes(content)
    with pytest.raises(KeysMissing):
        await source(tmp_path, told, algorithms=["RS256"], jwks_file="keys.json").find("RS256", "first")
    assert len(told) == 1 and told[0].startswith("auth.jwt: jwks_file keys.json: ") and why in told[0]


async def test_an_address_is_asked_for_public_keys_alone() -> None:
    async def fetch(url: str, most: int) -> bytes:
        assert (url, most) == ("https://i.example/keys", MAX_DOCUMENT_BYTES)
        return jwks(jwk("RS256"), {"kty": "oct", "k": "A" * 64, "kid": "shared"})

    keys = await url_keys("https://i.example/keys", ["RS256", "HS256"], fetch)()
    assert keys is not None and keys.find("RS256", "first") and not keys.find("HS256", "shared")


async def test_an_address_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(KeysMissing):
        await source(tmp_path, told, algorithms=["RS256"], jwks_url="https://i.example").find(
            "RS256", "first"
        )
    assert told == ["auth.jwt: jwks_url https://i.example: it cannot be reached"]
