"""Redirects that are safe to follow, because they lead to another path of the same origin.

The same origin may receive the keys and tokens of the request.
"""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from mcpdesk.client.transport import REDIRECT_STATUSES

_PORTS = {"http": 80, "https": 443}


def redirect_target(status: int, location: str, url: str) -> str:
    """Return the URL to request instead of `url`, or an empty string if no redirect may be followed."""
    if status not in REDIRECT_STATUSES or not location:
        return ""
    try:
        there = urljoin(url, location)
        here, parts = urlsplit(url), urlsplit(there)
        is_same = _origin(url) == _origin(there) and parts.username is None
    except ValueError:
        return ""
    # 301 and 302 often lead to a web page. They are followed only if a trailing slash is added or removed.
    is_moved = status in (307, 308) or here.path.rstrip("/") == parts.path.rstrip("/")
    return there if is_same and is_moved and there != url else ""


def is_circular(status: int, location: str, url: str) -> bool:
    """Return True if the answer from `url`, to which redirects were followed, is one more redirect."""
    if status not in REDIRECT_STATUSES or not location:
        return False
    try:
        return urljoin(url, location) == url or redirect_target(status, location, url) != ""
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)
