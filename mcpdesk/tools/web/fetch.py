"""A document fetched over HTTP: addresses checked at every hop, sizes bounded, bytes as text."""

from __future__ import annotations

import asyncio
import codecs
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcpdesk.errors import HandlerError
from mcpdesk.tools.web.addresses import check_url, is_local, resolve

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

MOST_BYTES = 10 << 20
MOST_HOPS = 10
PATIENCE_S = 20.0
"""For a whole document, redirects included."""
AGENT = "Mozilla/5.0 (compatible; mcpdesk)"
REDIRECTS = frozenset({301, 302, 303, 307, 308})
CHARSET = re.compile(rb"<meta[^>]+charset=[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came. `url` is where it was found, after redirects."""

    url: str
    content_type: str
    """`text/html`, in lower case and without parameters; empty when the server said nothing."""
    charset: str
    body: bytes
    is_cut: bool
    """Whether more than `MOST_BYTES` would have come."""
    is_local: bool
    """Whether it is of this machine, and so were all that led to it."""

    @property
    def text(self) -> str:
        """The body as text, in the encoding its first bytes, its server or its head names."""
        return decoded(self.body, self.charset)


async def fetch(url: str, *, private: bool) -> Fetched:
    """Fetch a document. `private` allows addresses of private networks.

    Raises: HandlerError naming what is wrong with the URL, the way there, or the answer.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _follow(url, private)
    except TimeoutError:
        raise HandlerError(f"url: {url} did not answer within {PATIENCE_S:g} s") from None


async def _follow(url: str, private: bool) -> Fetched:
    import aiohttp

    here, local = url, True
    for _ in range(MOST_HOPS + 1):
        check_url(here)
        parts = urlsplit(here)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = await resolve(host, port, private=private, local=local)
        local = local and all(map(is_local, addresses))
        connector = aiohttp.TCPConnector(resolver=_pinned(addresses), force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, headers={"User-Agent": AGENT}) as session,
                session.get(here, allow_redirects=False) as answer,
            ):
                if answer.status not in REDIRECTS or "Location" not in answer.headers:
                    return await _read(here, answer, local)
                here = urljoin(here, answer.headers["Location"])
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, asyncio.TimeoutError):
                raise
            raise HandlerError(f"url: {here[:500]} cannot be fetched: {_said(error)}") from error
    raise HandlerError(f"url: {url} redirects more than {MOST_HOPS} times")


async def _read(url: str, answer: aiohttp.ClientResponse, local: bool) -> Fetched:
    if answer.status >= 400:
        raise HandlerError(f"url: {url} answered HTTP {answer.status} {answer.reason or ''}".rstrip())
    pieces, size = [], 0
    async for piece in answer.content.iter_chunked(65_536):
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            break
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    body = b"".join(pieces)[:MOST_BYTES]
    return Fetched(url, kind, answer.charset or "", body, size > MOST_BYTES, local)


def _pinned(addresses: list[str]) -> AbstractResolver:
    """Gives the addresses that were checked, so that a second look-up cannot bring others."""
    from aiohttp.abc import AbstractResolver, ResolveResult

    class Pinned(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None:
            """Nothing is held."""

    return Pinned()


def decoded(body: bytes, charset: str) -> str:
    """Bytes as text: by their mark, the name the server gave, the name in the head, else UTF-8."""
    for mark, name in BOMS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    named = CHARSET.search(body[:4096])
    for name in (charset, named[1].decode("ascii") if named else "", "utf-8"):
        try:
            if name and codecs.lookup(name).name not in ("idna", "punycode"):
                return body.decode(name, "replace")
        except (LookupError, UnicodeError, TypeError):
            continue
    return body.decode("utf-8", "replace")


def _said(error: Exception) -> str:
    return str(error)[:300] or type(error).__name__
