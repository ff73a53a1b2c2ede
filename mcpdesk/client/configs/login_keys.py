"""Login keys of a configuration entry: `oauth`, or `auth` as in Cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.client.configs.entry_values import InvalidEntry, text_at, texts_at
from mcpdesk.client.oauth.login_options import NO_OPTIONS, LoginOptions, Secret

KEYS = frozenset(
    {
        "clientId", "clientSecret", "clientSecretFile", "clientKeyFile", "clientIssuer", "clientMetadataUrl",
        "clientCredentials", "scope", "scopes", "callbackPort", "assumePkce", "assertion", "assertionFile",
        "idpTokenUrl", "idpClientId", "idToken", "idTokenFile",
    }
)  # fmt: skip
"""Supported keys of `oauth`."""
IGNORED_KEYS = frozenset(
    {
        "enabled", "authorizationUrl", "tokenUrl", "registrationUrl", "redirectUri", "audiences", "issuer",
        "tokenParamName", "authServerMetadataUrl",
    }
)  # fmt: skip
"""Keys that other clients support and mcpdesk ignores. Instead of the URLs, it uses the server's metadata."""
CURSOR_KEYS = {"CLIENT_ID": "clientId", "CLIENT_SECRET": "clientSecret", "scopes": "scopes"}
"""Key of `auth` -> key of `oauth` with the same meaning."""
LAST_PORT = 65535


def login_options(entry_data: Mapping[str, Any]) -> tuple[LoginOptions, list[str]]:
    """Return the login options of an entry, and its unknown keys. Raises: InvalidEntry."""
    oauth, auth = entry_data.get("oauth"), entry_data.get("auth")
    if isinstance(oauth, dict):
        section, keys = "oauth", {str(key): value for key, value in oauth.items()}
    elif isinstance(auth, dict):
        section, keys = "auth", {CURSOR_KEYS.get(str(key), str(key)): value for key, value in auth.items()}
    else:
        return NO_OPTIONS, []  # also for `oauth: false`, with which other clients do not log in
    values = {f"{section}.{key}": value for key, value in keys.items()}

    def text(key: str) -> str:
        return text_at(values, f"{section}.{key}")

    def is_on(key: str) -> bool:
        value = keys.get(key)
        if value is not None and not isinstance(value, bool):
            raise InvalidEntry(f"{section}.{key} must be true or false")
        return bool(value)

    scopes = keys.get("scopes")
    scope = text("scopes") if isinstance(scopes, str) else " ".join(texts_at(values, f"{section}.scopes"))
    port = keys.get("callbackPort")
    is_number = isinstance(port, int) and not isinstance(port, bool)
    if port is not None and not (is_number and 0 <= port <= LAST_PORT):
        raise InvalidEntry(f"{section}.callbackPort must be a port from 0 to {LAST_PORT}")
    options = LoginOptions(
        text("clientId"),
        Secret(text("clientSecret"), text("clientSecretFile")),
        Secret(file=text("clientKeyFile")),
        text("clientIssuer"),
        text("clientMetadataUrl"),
        text("scope") or scope,
        port or 0,
        is_on("assumePkce"),
        is_on("clientCredentials"),
        Secret(text("assertion"), text("assertionFile")),
        text("idpTokenUrl"),
        text("idpClientId"),
        Secret(text("idToken"), text("idTokenFile")),
    )
    return options, sorted(f"{section}.{key}" for key in set(keys) - KEYS - IGNORED_KEYS)
