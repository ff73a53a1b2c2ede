"""Keys from the environment, from a file that changes, and from an address."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.auth.key_source import KeysMissing, KeySource
from mcpdesk.hosting.folder.manifest_auth import Jwt
from mcpdesk.hosting.server_access import LARGEST, file_keys, key_source, url_keys
from tests.support.tokens import SECRET, jwk, jwks


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
    [(None, "it cannot be read: No such file"), (b"{", "no JWK set"), (b" " * (LARGEST + 1), "larger")],
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
        assert (url, most) == ("https://i.example/keys", LARGEST)
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
