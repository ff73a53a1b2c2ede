"""HTTP headers for tokens and keys."""

from __future__ import annotations

from collections.abc import Mapping

from mcpdesk.errors import DeskUserError


def credential_headers(
    token: str | None,
    api_key: str | None,
    api_key_header: str,
    other_headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers for every request: a bearer token, an API key and others.

    Raises: DeskUserError for a token or key that is not valid in a header.
    """
    headers = dict(other_headers or {})
    if api_key:
        headers[api_key_header] = _sendable(api_key, "key")
    if token:
        headers["Authorization"] = f"Bearer {_sendable(token, 'token')}"
    return headers


def _sendable(secret: str, secret_kind: str) -> str:
    """Return the secret if it is valid in a header.

    Raises: DeskUserError, which does not contain the secret.
    """
    if not (secret.isascii() and secret.isprintable()) or secret != secret.strip() or " " in secret:
        raise DeskUserError(
            f"The {secret_kind} has characters that headers must not contain.",
            "Check that it is complete and contains nothing else.",
        )
    return secret
