"""What a server asks of tokens, and whose the desk holds, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mcpdesk.link.values import CatalogueItem, ServerView, TokenView
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import one_line

NO_JWT = "no token counts here: mcp.json has no auth.jwt"


def scopes_for(item: CatalogueItem, server: ServerView) -> tuple[str, ...] | None:
    """The scopes a token needs for an item; None: it needs no token."""
    if not item.needs_token and not server.wants_token:
        return None
    return tuple(dict.fromkeys((*server.token_scopes, *item.scopes)))


def token_line(item: CatalogueItem, server: ServerView, now: float) -> tuple[str, str]:
    """What stands above an item about tokens, and its colour; empty: nothing. `now` is Unix time."""
    needed, token = scopes_for(item, server), server.token
    if needed is None:
        if token is None or token.ended:
            return "", ""
        return f"called as {holder(token, now)}", "$text-muted"
    if not server.looks_at_tokens:
        return f"✕ needs a token, and {NO_JWT}", "$text-error"
    wanted = f"needs a token{with_scopes(needed)}"
    if token is None:
        return f"● {wanted} · T gives one", "$text-warning"
    if token.ended:
        return f"● {wanted} · that of {whose(token)} ended: {token.ended} · T gives one", "$text-warning"
    lacking = [scope for scope in needed if scope not in token.scopes]
    if lacking:
        told = f"✕ called as {holder(token, now)}, without {scope_words(lacking)} · T gives another token"
        return told, "$text-warning"
    allowed = f", with {scope_words(needed)}" if needed else ""
    return f"✓ called as {holder(token, now)}{allowed}", "$text-success"


def holder(token: TokenView, now: float) -> str:
    """Who the desk is, and for how long: `ada, 59 min left`."""
    left = f", {since(token.expires - now)} left" if token.expires is not None else ""
    return whose(token) + left


def whose(token: TokenView) -> str:
    """The subject of a token, as it may be shown."""
    return one_line(token.name, 40)


def with_scopes(scopes: Iterable[str]) -> str:
    """` with scope wallet:send`; empty without any."""
    words = scope_words(scopes)
    return f" with {words}" if words else ""


def scope_words(scopes: Iterable[str]) -> str:
    """`scope wallet:send`, `scopes a, b`; empty without any."""
    named = [one_line(scope, 60) for scope in scopes]
    return f"scope{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else ""
