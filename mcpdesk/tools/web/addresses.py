"""Which addresses a caller may make us talk to: the internet and this machine, not the networks between."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from mcpdesk.errors import HandlerError

URL_LIMIT = 8_000
MAPPED = ipaddress.ip_network("64:ff9b::/96")
"""IPv4 addresses in IPv6 dress, besides those Python knows."""
INTERNET = ipaddress.ip_network("2000::/3")
"""All that is given out of IPv6. Beyond it lie site-local networks, which Python takes for the internet."""
EXAMPLES = ipaddress.ip_network("3fff::/20")


def check_url(url: str) -> None:
    """Raises: HandlerError for what is no URL of a page of the web."""
    if len(url) > URL_LIMIT:
        raise HandlerError(f"url: has {len(url)} characters; at most {URL_LIMIT} are allowed")
    if any(character.isspace() or ord(character) < 32 or ord(character) == 127 for character in url):
        raise HandlerError("url: holds blanks or control characters; write them as %20")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise HandlerError(f"url: {url[:200]!r} is no URL: {error}") from error
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise HandlerError(f"url: {url[:200]!r} is not allowed; http:// and https:// are")
    if parts.username is not None or parts.password is not None:
        raise HandlerError("url: must not hold a user name or a password")


async def resolve(host: str, port: int, *, private: bool, local: bool = True) -> list[str]:
    """The addresses of a host, all of them allowed. `private` allows every network; `local` this machine,
    where a caller may look, but no page of the internet may lead.

    Raises: HandlerError for a host nobody knows, or one of whose addresses is not allowed.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HandlerError(f"url: the host {host[:200]!r} cannot be found") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    for address in () if private else addresses:
        if not local and is_local(address):
            raise HandlerError(f"url: {host} is this machine, where a page of the internet may not lead")
        if not is_allowed(address):
            raise HandlerError(
                f"url: {host} is {address}, in a private network. Allowed are the internet and this machine; "
                "the setting read_private_urls allows the rest"
            )
    return addresses


def is_local(address: str) -> bool:
    """Whether an address is of this machine."""
    return _ip(address).is_loopback


def is_allowed(address: str) -> bool:
    """Whether an address is of the internet or of this machine."""
    ip = _ip(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in MAPPED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global
        if ip not in INTERNET or ip in EXAMPLES:
            return ip.is_loopback
    return ip.is_loopback or (ip.is_global and not ip.is_multicast)


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.partition("%")[0])
