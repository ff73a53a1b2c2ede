"""Redirects that are safe to follow: to another path of the same origin.

Only the same origin may receive the keys and tokens of the request.
"""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

from mcpdesk.client.transport import REDIRECT_STATUSES

_DEFAULT_PORTS = {"http": 80, "https": 443}


def redirect_target(status: int, location: str, url: str) -> str:
    """Return the URL to request instead of `url`, or an empty string if no redirect may be followed."""
    if status not in REDIRECT_STATUSES or not location:
        return ""
    try:
        target_url = urljoin(url, location)
        url_parts, target_parts = urlsplit(url), urlsplit(target_url)
        is_same_origin = _origin(url) == _origin(target_url) and target_parts.username is None
    except ValueError:
        return ""
    # 301 and 302 often lead to a web page. They are followed only if a trailing slash is added or removed.
    is_followed = status in (307, 308) or url_parts.path.rstrip("/") == target_parts.path.rstrip("/")
    return target_url if is_same_origin and is_followed and target_url != url else ""


def is_circular(status: int, location: str, url: str) -> bool:
    """Return True if `url`, reached after all redirects that are followed, redirects again or to itself."""
    if status not in REDIRECT_STATUSES or not location:
        return False
    try:
        return urljoin(url, location) == url or redirect_target(status, location, url) != ""
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
