"""Access rules of a server, and its challenges to callers."""

from __future__ import annotations

import pytest

from mcpdesk.auth.access import OPEN_ACCESS, Access
from mcpdesk.auth.principal import KEY, OPEN, Principal, Rejected

GIVER = Access(
    requires_token=True,
    scopes=frozenset({"wallet:read"}),
    authorization_servers=("https://issuer.example",),
    scopes_supported=("wallet:read",),
)
ADA = Principal("token", "ada", claims={"sub": "ada"}, scopes=frozenset({"wallet:read"}))
AT = "http://h.example/.well-known/oauth-protected-resource/mcp/wallet"


def test_everybody_is_admitted_where_nothing_is_asked() -> None:
    assert all(OPEN_ACCESS.admits(each) for each in (OPEN, KEY, ADA))


def test_a_token_with_the_scopes_is_admitted_where_one_is_asked_for() -> None:
    narrow = Principal("token", "bob", claims={"sub": "bob"})
    assert [GIVER.admits(each) for each in (OPEN, KEY, narrow, ADA)] == [False, False, False, True]


@pytest.mark.parametrize(
    ("access", "parts", "header"),
    [
        (Access(), {}, 'Bearer realm="mcpdesk"'),
        (Access(), {"error": "invalid_token"}, 'Bearer error="invalid_token"'),
        (GIVER, {}, f'Bearer scope="wallet:read", resource_metadata="{AT}"'),
        (
            GIVER,
            {"error": "insufficient_scope", "scopes": ("wallet:send",), "description": 'say "please"\r\n'},
            'Bearer error="insufficient_scope", error_description="say please", '
            f'scope="wallet:read wallet:send", resource_metadata="{AT}"',
        ),
    ],
)
def test_a_challenge_says_what_is_needed_and_where_to_get_it(
    access: Access, parts: dict[str, str], header: str
) -> None:
    assert access.challenge(AT, **parts) == header


def test_the_metadata_names_the_resource_and_who_gives_tokens() -> None:
    assert GIVER.metadata("http://h.example/mcp/wallet", "Wallet") == {
        "resource": "http://h.example/mcp/wallet",
        "authorization_servers": ["https://issuer.example"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Wallet",
        "scopes_supported": ["wallet:read"],
    }
    behind = Access(authorization_servers=("https://a.example",), resource="https://public.example/mcp")
    assert behind.metadata("http://inside/mcp", "x")["resource"] == "https://public.example/mcp"


async def test_no_token_counts_where_none_is_looked_at() -> None:
    with pytest.raises(Rejected, match="this server accepts no tokens"):
        await OPEN_ACCESS.verify("a.b.c")
