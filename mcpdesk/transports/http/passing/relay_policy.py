"""Headers and bodies that are forwarded between clients and an upstream server.

For a browser, an upstream response comes from the desk's own origin. For security, only JSON and event
streams are forwarded, with a fixed content type and few other headers. Any other body is replaced by a JSON
error that quotes it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress

from multidict import CIMultiDict

from mcpdesk.auth.operator import OPERATOR_HEADER
from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.plain_text import clean
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.transports.http.responses import JSON, STREAM, status_text

RELAYED_HEADERS = frozenset(
    {"allow", "content-length", "mcp-protocol-version", "mcp-session-id", "request-id", "retry-after"}
    | {"traceresponse", "www-authenticate", "x-accel-buffering", "x-request-id"}
)
"""Headers of an upstream response that are forwarded, in addition to `RELAYED_PREFIXES`."""
RELAYED_PREFIXES = ("ratelimit", "x-ratelimit-")
FIXED_HEADERS = {JSON: {"Content-Type": JSON, "Cache-Control": "no-store"},
         STREAM: {"Content-Type": STREAM, "Cache-Control": "no-cache, no-transform"}}  # fmt: skip
"""Headers set for the two kinds of body that are forwarded."""
_PASSWORD_CHALLENGE = re.compile(r"(?:^|,)\s*(?:basic|digest|negotiate|ntlm)\b", re.IGNORECASE)
"""Challenges that would make a browser show a password dialog in the name of the desk."""
HOP_BY_HOP_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
"""Headers that apply to a single connection (hop-by-hop)."""
UNSENT_HEADERS = HOP_BY_HOP_HEADERS | {
    "accept-encoding", "content-length", "cookie", "cookie2", "dnt", "expect", "forwarded", "host", "origin",
    "referer", "upgrade-insecure-requests", "via", "x-real-ip", OPERATOR_HEADER.lower(),
}  # fmt: skip
"""Headers of a client's request that are not forwarded.

They concern the client's connection, page or browser, or contain the operator's key.
"""
UNSENT_PREFIXES = ("access-control-", "sec-", "x-forwarded-", "x-mcpdesk-")
MAX_QUOTED_BYTES = 8 << 10
"""Maximum bytes that are read of a body that is not forwarded. An error quotes these bytes."""
QUOTE_TIMEOUT_S = 5.0
"""Maximum seconds for reading the quoted bytes."""
MAX_QUOTED_LENGTH = 300
"""Maximum number of characters quoted in an error message. The `data` of the error has the full quote."""


def sent_headers(headers: Mapping[str, str], api_key_header: str, api_key: str) -> dict[str, str]:
    """Return the client's headers that are forwarded. Repeated headers are joined.

    The desk's own API key is removed from any header.
    """
    connection_headers = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    unsent = UNSENT_HEADERS | connection_headers | {api_key_header.lower()}
    first_spellings: dict[str, str] = {}
    joined: dict[str, str] = {}
    for name, value in headers.items():
        lower_name = name.lower()
        has_api_key = api_key and api_key in value.split()
        if lower_name in unsent or lower_name.startswith(UNSENT_PREFIXES) or has_api_key:
            continue
        sent_name = first_spellings.setdefault(lower_name, name)
        joined[sent_name] = f"{joined[sent_name]}, {value}" if sent_name in joined else value
    return joined


def relayed_headers(headers: Iterable[tuple[str, str]], kind: str) -> CIMultiDict[str]:
    """Return the headers of an upstream response that are forwarded. `kind` is the kind of its body."""
    relayed = CIMultiDict[str]()
    for name, value in headers:
        lower_name = name.lower()
        opens_dialog = lower_name == "www-authenticate" and _PASSWORD_CHALLENGE.search(value)
        is_relayed = lower_name in RELAYED_HEADERS or lower_name.startswith(RELAYED_PREFIXES)
        if is_relayed and not opens_dialog:
            relayed.add(name, value)
    relayed.update(FIXED_HEADERS.get(kind, {}))
    return relayed


def body_kind(headers: Iterable[tuple[str, str]]) -> str:
    """Return the kind of a body: `JSON`, `STREAM`, or another media type, which is not forwarded.

    A type that ends with `+json` counts as JSON, for example RFC 9457 problem details.
    """
    content_type = next((value for name, value in headers if name.lower() == "content-type"), "")
    kind = content_type.partition(";")[0].strip().lower()
    return JSON if kind.startswith("application/") and kind.endswith("+json") else kind


async def read_quote(chunks: AsyncIterator[bytes]) -> bytes:
    """Return the first `MAX_QUOTED_BYTES` bytes of a body, or fewer if they do not arrive in time."""
    body = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(QUOTE_TIMEOUT_S):
            async for piece in chunks:
                body += piece
                if len(body) >= MAX_QUOTED_BYTES:
                    break
    return bytes(body[:MAX_QUOTED_BYTES])


def not_relayed_error(server: str, status: int, kind: str, body: bytes, location: str) -> ProtocolError:
    """Return the error that replaces a response that is not forwarded. It quotes the response."""
    text = clean(body.decode("utf-8", "replace")).strip()
    data = {"status": status, "contentType": kind[:100], "body": text}
    if 300 <= status < 400:
        target = clean(location[:MAX_QUOTED_LENGTH], newlines=False) or "nowhere"
        detail = f"{server} redirects to {target} (HTTP {status}), which is not followed. hint: use that URL"
        return RemoteProtocolError(ErrorCode.INTERNAL_ERROR, detail, data)
    kind_text = kind[:100] if kind else "a body without a Content-Type"
    excerpt = f"{text[:MAX_QUOTED_LENGTH]}…" if len(text) > MAX_QUOTED_LENGTH else text
    detail = f"{server} answered HTTP {status_text(status)} with {kind_text} instead of JSON: {excerpt}"
    return RemoteProtocolError(ErrorCode.INTERNAL_ERROR, detail, data)
