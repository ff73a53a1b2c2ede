"""What is said about tokens, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcpdesk.link.values import CatalogueItem, ItemKind, ServerView, TokenView
from mcpdesk.tui.forms.access_prompts import scope_words, scopes_for, token_line

NOW = 1_700_000_000.0
SERVER = ServerView("wallet", "Wallet", "1", "/srv/wallet", "", 1, looks_at_tokens=True)
OPEN_TOOL = CatalogueItem(ItemKind.TOOL, "convert", "convert")
WHOAMI = replace(OPEN_TOOL, name="whoami", needs_token=True)
SEND = replace(WHOAMI, name="send", scopes=("wallet:send",))
ADA = TokenView("ada", frozenset({"wallet:read"}), NOW + 3599)


@pytest.mark.parametrize(
    ("item", "server", "line"),
    [
        (OPEN_TOOL, {}, ""),
        (WHOAMI, {}, "● needs a token · T gives one"),
        (SEND, {}, "● needs a token with scope wallet:send · T gives one"),
        (OPEN_TOOL, {"token": ADA}, "called as ada, 59 min left"),
        (OPEN_TOOL, {"token": TokenView("ada", frozenset(), NOW, "it has expired")}, ""),
        (WHOAMI, {"token": ADA}, "✓ called as ada, 59 min left"),
        (
            SEND,
            {"token": ADA},
            "✕ called as ada, 59 min left, without scope wallet:send · T gives another token",
        ),
        (
            WHOAMI,
            {"token": TokenView("ada", frozenset(), NOW, "it has expired")},
            "● needs a token · that of ada ended: it has expired · T gives one",
        ),
        (
            OPEN_TOOL,
            {"wants_token": True, "token_scopes": ("a", "b")},
            "● needs a token with scopes a, b · T gives one",
        ),
        (
            SEND,
            {"token": TokenView("ada", frozenset({"wallet:send"}))},
            "✓ called as ada, with scope wallet:send",
        ),
        (
            WHOAMI,
            {"looks_at_tokens": False},
            "✕ needs a token, and no token counts here: mcp.json has no auth.jwt",
        ),
        (WHOAMI, {"token": TokenView("a\x1b[31m", frozenset())}, "✓ called as a␛[31m"),
    ],
)
def test_an_item_says_what_it_needs_and_who_calls_it(
    item: CatalogueItem, server: dict[str, Any], line: str
) -> None:
    assert token_line(item, replace(SERVER, **server), NOW)[0] == line


def test_what_the_server_needs_comes_before_what_the_item_needs() -> None:
    strict = replace(SERVER, wants_token=True, token_scopes=("all", "wallet:send"))
    assert scopes_for(SEND, strict) == ("all", "wallet:send")
    assert scopes_for(OPEN_TOOL, SERVER) is None and scopes_for(WHOAMI, SERVER) == ()
    assert scope_words(()) == ""
