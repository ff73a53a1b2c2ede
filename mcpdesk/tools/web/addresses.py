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


async def resolve(host: str, port: int, *, private: bool) -> list[str]:
    """The addresses of a host, all of them allowed. `private` allows every network.

    Raises: HandlerError for a host nobody knows, or one of whose addresses is in a private network.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise HandlerError(f"url: the host {host[:200]!r} cannot be found") from error
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    for address in addresses:
        if not (private or is_allowed(address)):
            raise HandlerError(
                f"url: {host} is {address}, in a private network. Allowed are the internet and this machine; "
                "the setting read_private_urls allows the rest"
            )
    return addresses


def is_allowed(address: str) -> bool:
    """Whether an address is of the internet or of this machine."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in MAPPED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global
    if ip.is_loopback:
        return True
    return ip.is_global and not ip.is_multicast
