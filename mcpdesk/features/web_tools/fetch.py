"""Fetches documents over HTTP. Addresses are checked at every redirect, and sizes are limited.

Callers may reach the internet and this machine. They may reach private networks only if a setting allows it.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from mcpdesk.errors import HandlerError

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

MAX_BYTES = 10 << 20
"""Maximum size of a document in bytes. The rest is cut off."""
MAX_REDIRECTS = 10
TIMEOUT_S = 20.0
"""Time limit in seconds for one document, including redirects."""
AGENT = "Mozilla/5.0 (compatible; mcpdesk)"
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
CHARSET_DECLARATION = re.compile(rb"<meta[^>]+charset=[\"']?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """Fetched document. `url` is its URL after redirects."""

    url: str
    content_type: str
    """For example `text/html`, in lower case and without parameters. Empty if the server did not send it."""
    charset: str
    body: bytes
    is_cut: bool
    """True if the document is larger than `MAX_BYTES`."""
    is_local: bool
    """True if the document and all redirects to it are on this machine."""

    @property
    def text(self) -> str:
        """Body as text, decoded by `decoded`."""
        return decoded(self.body, self.charset)


async def fetch(url: str, *, allows_private: bool) -> FetchedPage:
    """Fetch a document. `allows_private` allows addresses of private networks.

    Raises: HandlerError about the URL, the connection or the response.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _follow(url, allows_private)
    except TimeoutError:
        raise HandlerError(f"url: {url} did not answer within {TIMEOUT_S:g} s") from None


async def _follow(url: str, allows_private: bool) -> FetchedPage:
    """Fetch a document. The address of each redirect is checked. Raises: HandlerError."""
    import aiohttp

    current_url = url
    is_local_so_far = True
    for _ in range(MAX_REDIRECTS + 1):
        check_url(current_url)
        parts = urlsplit(current_url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = await resolve(host, port, allows_private=allows_private, allows_local=is_local_so_far)
        is_local_so_far = is_local_so_far and are_local(addresses)
        connector = aiohttp.TCPConnector(resolver=_pinned_resolver(addresses), force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, headers={"User-Agent": AGENT}) as session,
                session.get(current_url, allow_redirects=False) as response,
            ):
                if response.status not in REDIRECT_STATUSES or "Location" not in response.headers:
                    return await _read(current_url, response, is_local_so_far)
                current_url = urljoin(current_url, response.headers["Location"])
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, asyncio.TimeoutError):
                raise
            message = f"url: {current_url[:500]} cannot be fetched: {_error_text(error)}"
            raise HandlerError(message) from error
    raise HandlerError(f"url: {url} redirects more than {MAX_REDIRECTS} times")


async def _read(url: str, response: aiohttp.ClientResponse, is_local: bool) -> FetchedPage:
    """Read a response up to `MAX_BYTES`. Raises: HandlerError for a status of 400 or more."""
    if response.status >= 400:
        raise HandlerError(f"url: {url} answered HTTP {response.status} {response.reason or ''}".rstrip())
    pieces, size = [], 0
    async for piece in response.content.iter_chunked(65_536):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BYTES:
            break
    content_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    body = b"".join(pieces)[:MAX_BYTES]
    return FetchedPage(url, content_type, response.charset or "", body, size > MAX_BYTES, is_local)


def _pinned_resolver(addresses: list[str]) -> AbstractResolver:
    """Return a resolver for the checked addresses, because a second lookup could return other addresses."""
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
            """Do nothing, because no resources are held."""

    return Pinned()


def decoded(body: bytes, charset: str) -> str:
    """Decode bytes with the encoding of the byte order mark, or else with the server's `charset`, the charset
    in the HTML head, or UTF-8. An unknown encoding is skipped.
    """
    for mark, name in BOMS.items():
        if body.startswith(mark):
            return body.decode(name, "replace")
    match = CHARSET_DECLARATION.search(body[:4096])
    for name in (charset, match[1].decode("ascii") if match else "", "utf-8"):
        try:
            if name and codecs.lookup(name).name not in ("idna", "punycode"):
                return body.decode(name, "replace")
        except (LookupError, UnicodeError, TypeError):
            continue
    return body.decode("utf-8", "replace")


def _error_text(error: Exception) -> str:
    return str(error)[:300] or type(error).__name__


URL_LIMIT = 8_000
"""Maximum length of a URL in characters."""
IPV4_IN_IPV6 = ipaddress.ip_network("64:ff9b::/96")
"""Network of IPv6 addresses that contain IPv4 addresses (RFC 6052), which Python does not know."""
INTERNET = ipaddress.ip_network("2000::/3")
"""Allocated IPv6 addresses. Others include site-local networks, which Python considers global."""
DOCUMENTATION = ipaddress.ip_network("3fff::/20")
"""IPv6 addresses for documentation (RFC 9637), which older versions of Python consider global."""


def check_url(url: str) -> None:
    """Raises: HandlerError if the text is not a URL of a web page."""
    if len(url) > URL_LIMIT:
        raise HandlerError(f"url: has {len(url)} characters; at most {URL_LIMIT} are allowed")
    if any(character.isspace() or ord(character) < 32 or ord(character) == 127 for character in url):
        raise HandlerError("url: contains blanks or control characters; percent-encode them (a blank is %20)")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise HandlerError(f"url: {url[:200]!r} is not a URL: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise HandlerError(f"url: {url[:200]!r} is not allowed; use a URL with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise HandlerError("url: must not contain a user name or a password")


async def resolve(host: str, port: int, *, allows_private: bool, allows_local: bool = True) -> list[str]:
    """Return the addresses of a host, after checking that all are allowed.

    `allows_private` allows every network. `allows_local` allows this machine. It must be False after a
    redirect from the internet: a caller may read pages of this machine, but a page of the internet must not
    redirect to them. Raises: HandlerError for an unknown host, or if one of its addresses is not allowed.
    """
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HandlerError(f"url: the host {host[:200]!r} cannot be found") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in infos))
    for address in () if allows_private else addresses:
        if not allows_local and is_local(address):
            raise HandlerError(f"url: {host} is this machine, which a page of the internet must not open")
        if not is_allowed(address):
            raise HandlerError(
                f"url: {host} is {address}, in a private network. Allowed are the internet and this machine; "
                "the setting read_private_urls allows the rest"
            )
    return addresses


def is_local(address: str) -> bool:
    """Return True if an address belongs to this machine."""
    return _ip(address).is_loopback


def are_local(addresses: Iterable[str]) -> bool:
    """Return True if all addresses belong to this machine."""
    return all(map(is_local, addresses))


def is_allowed(address: str) -> bool:
    """Return True if an address belongs to the internet or to this machine."""
    ip = _ip(address)
    if isinstance(ip, ipaddress.IPv6Address):
        ipv4 = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in IPV4_IN_IPV6:
            ipv4 = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if ipv4 is not None:
            return ipv4.is_global
        if ip not in INTERNET or ip in DOCUMENTATION:
            return ip.is_loopback
    return ip.is_loopback or (ip.is_global and not ip.is_multicast)


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])
