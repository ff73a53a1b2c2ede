"""Limits of known clients for the result of one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from mcpdesk.features.contract.known_clients import Claim, ClientFinding, Fact, claims

MAX_DECODED_BYTES = 8 << 20
"""Maximum size in bytes of a message that is decoded. A larger one is measured by its bytes, because decoding
would stop other threads.
"""
SEARCHED_BYTES = 64 << 10
"""Number of bytes at the beginning of a larger message that are searched for text, pictures and sound."""


def exceeded_limits(message: bytes, definition: Mapping[str, Any], peer: str) -> list[str]:
    """Return a sentence for each known client whose limit the result exceeds.

    `message` is the response to `tools/call`, and `definition` is the definition of the tool. `peer` is the
    name of the program that called the tool. If this is not a known client, all known clients are considered.
    Must be called on a worker thread, because a large message takes time.
    """
    limits = [claim for claim in claims() if claim.check == "result_size"]
    callers = {claim.client for claim in claims() if _is_client(peer, claim.client)}
    relevant_limits = [claim for claim in limits if not callers or claim.client in callers]
    if not relevant_limits or len(message) <= min(claim.rule.most for claim in relevant_limits):
        return []
    size, text = _measured_result(message)
    return [
        f"{text}; {claim.client}: {ClientFinding(claim, Fact(text)).effect}"
        for claim in (_with_own_limit(claim, definition) for claim in relevant_limits)
        if size > claim.rule.most
    ]


def _is_client(peer: str, client: str) -> bool:
    """Return True if the name that a program reports is that of a known client, such as `claude-code 2.1`."""
    peer_key, client_key = (text.lower().replace(" ", "-") for text in (peer, client))
    return peer_key == client_key or peer_key.startswith(f"{client_key}-")


def _with_own_limit(claim: Claim, definition: Mapping[str, Any]) -> Claim:
    """Return the claim with the limit that the tool declares in its `_meta`, if this limit is higher."""
    meta = definition.get("_meta")
    own_limit = meta.get(claim.rule.hint) if isinstance(meta, dict) else None
    is_higher = isinstance(own_limit, int) and own_limit > claim.rule.most
    return replace(claim, rule=replace(claim.rule, most=own_limit)) if is_higher else claim


def _measured_result(message: bytes) -> tuple[int, str]:
    """Return the number of characters of a result, and a text with this number.

    The number is 0 for a message that has no result, or that is large and has no text.
    """
    if len(message) > MAX_DECODED_BYTES:
        head = message[:SEARCHED_BYTES]
        is_text = b'"text"' in head and b'"image"' not in head and b'"audio"' not in head
        return (len(message), f"the result has about {len(message):,} characters") if is_text else (0, "")
    try:
        decoded = orjson.loads(message)
    except orjson.JSONDecodeError:
        return 0, ""
    result = decoded.get("result") if isinstance(decoded, dict) else None
    if not isinstance(result, dict):
        return 0, ""
    structured = result.get("structuredContent")
    size = max(sum(_text_sizes(result)), 0 if structured is None else len(orjson.dumps(structured).decode()))
    return size, f"the result has {size:,} characters"


def _text_sizes(result: Mapping[str, Any]) -> Iterator[int]:
    """Yield the number of characters of each text in the content of a result."""
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            resource = block.get("resource")
            for text in (block.get("text"), resource.get("text") if isinstance(resource, dict) else None):
                if isinstance(text, str):
                    yield len(text)
