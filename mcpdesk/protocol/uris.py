"""URIs that clients send: how long they may be."""

from __future__ import annotations

from mcpdesk.protocol.jsonrpc import invalid_params

LONGEST = 8192
"""Characters."""


def check_uri(uri: str, where: str) -> None:
    """Refuse a URI nobody means. `where` names the member it stood in.

    Raises: RemoteProtocolError (-32602) saying what is allowed.
    """
    if len(uri) > LONGEST:
        raise invalid_params(f"{where}: a URI of {len(uri)} characters is too long; allowed are {LONGEST}")
