"""The dashboard's page: its files as they lie in the package, read once, and the headers that confine it."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from aiohttp import web

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE = "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Forbids everything from elsewhere, inline scripts, and turning text into markup."""
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer of the dashboard."""
CONFINED = SAFE | {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of the page and its parts."""


class PageFile(NamedTuple):
    """One file of the page."""

    body: bytes
    kind: str
    tag: str
    """The `ETag`: a hash of the contents."""


class PageFiles:
    """All files of the page by name."""

    def __init__(self) -> None:
        self._files = dict(_read())

    def answer(self, request: web.BaseRequest, name: str) -> web.Response | None:
        """Return a file, or that it did not change; None when there is none of that name."""
        file = self._files.get(name)
        if file is None:
            return None
        headers = CONFINED | {"ETag": file.tag, "Vary": "Accept"}
        if request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.body, headers=headers | {"Content-Type": file.kind})


def _read() -> list[tuple[str, PageFile]]:
    found = []
    for place in files("mcpdesk").joinpath("web").iterdir():
        kind = TYPES.get(place.name.rpartition(".")[2])
        if kind is not None:
            body = place.read_bytes()
            found.append((place.name, PageFile(body, kind, f'"{sha256(body).hexdigest()[:16]}"')))
    return found
