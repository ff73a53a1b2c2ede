"""From a manifest to what a server asks: kept while it says the same, and for each tool."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.auth.access import NOTHING_ASKED
from mcpdesk.auth.key_source import Pace
from mcpdesk.auth.token import Rejected
from mcpdesk.auth.verifier import Verifier
from mcpdesk.hosting import server_access
from mcpdesk.hosting.folder.manifest_auth import Auth, Jwt, Needs
from mcpdesk.hosting.server_access import Gate, complaints, guarded, public_environment
from mcpdesk.server.tool import Tool
from tests.support.tokens import AUDIENCE, ISSUER, SECRET, jwk, jwks, token

SECRETS = {"MCPDESK_API_KEY", "ZYRA_API_KEY", "WALLET_SECRET"}


async def handler(arguments: dict[str, Any], context: Any) -> None:
    raise NotImplementedError


def tool(name: str, **more: Any) -> Tool:
    return Tool(name, handler, {"type": "object"}, **more)


def shared(**more: Any) -> Auth:
    jwt = Jwt(algorithms=["HS256"], secret_env="S", issuer=ISSUER, audience=AUDIENCE, leeway_s=5)
    return Auth(**{"jwt": jwt, **more})


def test_nothing_is_asked_where_nothing_is_said(tmp_path: Path) -> None:
    assert Gate("wallet", tmp_path, print).settle(Auth()) is NOTHING_ASKED


async def test_tokens_are_checked_as_the_manifest_says(tmp_path: Path) -> None:
    gate = Gate("wallet", tmp_path, print, {"S": SECRET})
    servers = ["https://i.example"]
    access = gate.settle(
        shared(requires_jwt=True, scopes=["a"], includes={"b": ["a"]}, authorization_servers=servers)
    )
    assert access.requires_token and access.authorization_servers == tuple(servers)
    assert access.scopes_supported == ("a",) and access.verifier is not None
    assert access.admits(await access.verifier.verify(token("HS256", scope="b")))
    with pytest.raises(Rejected):
        await access.verifier.verify(token("HS256", aud="other"))


def test_known_keys_stay_while_manifest_and_secret_are_the_same(tmp_path: Path) -> None:
    environment = {"S": SECRET}
    gate = Gate("wallet", tmp_path, print, environment)
    first = gate.settle(shared())
    assert gate.settle(shared()) is first
    assert gate.settle(shared(requires_jwt=True)) is not first
    second = gate.settle(shared())
    environment["S"] = SECRET * 2
    assert gate.settle(shared()) is not second
    gate.close()


def test_keys_that_do_not_count_any_more_are_looked_for_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Verifier] = []
    monkeypatch.setattr(Verifier, "close", lambda self: closed.append(self))
    gate = Gate("wallet", tmp_path, print, {"S": SECRET})
    first = gate.settle(shared()).verifier
    second = gate.settle(shared(requires_jwt=True)).verifier
    assert closed == [first]
    gate.close()
    assert closed == [first, second]
    gate.settle(Auth())
    gate.close()
    assert closed == [first, second, second]


def test_a_secret_that_is_not_set_is_told_at_once(tmp_path: Path) -> None:
    told: list[str] = []
    Gate("wallet", tmp_path, told.append, {}).settle(shared())
    assert told == ["auth.jwt: S is not set, so no token counts"]


def test_a_manifest_may_ask_more_of_a_tool_and_never_less() -> None:
    auth = shared(
        tools={
            "Bash": Needs(),
            "send": Needs(requires_jwt=False, scopes=["send"]),
            "own": Needs(requires_jwt=False),
        }
    )
    tools = [tool("Bash"), tool("send", scopes=("read",)), tool("own", requires_jwt=True), tool("free")]
    found = {each.name: (each.requires_jwt, each.scopes) for each in guarded(tools, auth)}
    assert found == {
        "Bash": (True, ()),
        "send": (True, ("read", "send")),
        "own": (True, ()),
        "free": (False, ()),
    }


def test_what_would_surprise_is_told_with_its_place() -> None:
    asking = [tool("send", requires_jwt=True), tool("free")]
    assert list(complaints(Auth(), [tool("free")])) == []
    assert list(complaints(shared(), asking)) == []
    ((trail, told),) = complaints(Auth(), asking)
    assert trail == ("auth",) and "nobody can call send" in told
    public = Auth(jwt=Jwt(algorithms=["RS256"], jwks_url="https://i.example/keys"))
    ((trail, told),) = complaints(public, asking)
    assert trail == ("auth", "jwt", "audience") and "give an audience" in told
    own = Auth(jwt=Jwt(algorithms=["HS256"], secret_env="S"))
    assert list(complaints(own, asking)) == [], "who shares the secret is trusted"


def test_programs_see_neither_the_secrets_of_tokens_nor_the_key_of_the_desk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MCPDESK_API_KEY", "ZYRA_API_KEY", "WALLET_SECRET", "HARMLESS"):
        monkeypatch.setenv(name, "x")
    expected = {name: value for name, value in os.environ.items() if name not in SECRETS}
    assert public_environment(["WALLET_SECRET", ""]) == expected


async def test_a_key_file_that_is_saved_counts_at_once_and_the_old_key_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_access, "FILE", Pace(fresh_s=0, pause_s=0, waits=True))
    path, told = tmp_path / "keys.json", list[str]()
    path.write_bytes(jwks(jwk("ES256", "first")))
    named = Jwt(algorithms=["ES256"], jwks_file="keys.json", issuer=ISSUER, audience=AUDIENCE)
    verifier = Gate("wallet", tmp_path, told.append).settle(Auth(jwt=named)).verifier
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
    assert told == ['auth.jwt: jwks_file keys.json: it is no JWK set: that is an object with "keys"']
