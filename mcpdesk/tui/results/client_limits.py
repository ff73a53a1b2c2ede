"""Known clients that cut, move or refuse a large result of a tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpdesk.features import features_with

MIN_CHECKED_BYTES = 8 << 10
"""Minimum size of a response that is compared with the limits of clients, in bytes."""


def exceeded_limits(message: bytes, definition: Mapping[str, Any], peer: str) -> list[str]:
    """Return sentences about the clients with a limit that a result exceeds. Call this on a worker thread.

    `message` is the response, `definition` is the definition of the tool, and `peer` is the client.
    """
    checks = (feature.result_limits(message, definition, peer) for feature in features_with("result_limits"))
    return [text for texts in checks for text in texts]
