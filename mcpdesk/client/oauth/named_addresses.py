"""Addresses that the URLs in a server's authorization metadata may have.

A server names URLs that this client requests: its metadata, and the endpoints of its authorization server. A
server on the internet must not make this client request URLs of this machine or its network. The IP address
of each socket is checked, because a host name may resolve to another address at the next DNS lookup.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from mcpdesk.client.transport import excerpt
from mcpdesk.errors import AuthorizationError

PUBLIC = "public"
PRIVATE = "private"
LOOPBACK = "loopback"
PERMITTED_KINDS = {LOOPBACK: (LOOPBACK, PRIVATE), PRIVATE: (PRIVATE,)}
"""Kinds of addresses that a server may name in addition to public ones, by kind of its own address."""
PRIVATE_NETWORKS = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fec0::/10"),
    )
)
TRANSLATED_NETWORK = ipaddress.IPv6Network("64:ff9b::/96")
"""IPv6 addresses that a gateway translates to the IPv4 address in their last 32 bits."""
PRIVATE_NAMES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "home.arpa",
    "corp",
)
"""Domains that no public DNS server resolves."""
SOURCE_CLAUSE = "MCP security best practices"


class AddressRefused(OSError):
    """Raised instead of opening a socket to an address that the server is not allowed to name."""


def address_kind(address: str) -> str:
    """Return `public`, `private`, `loopback`, or the address itself if it is none of these.

    Only 127.0.0.1 and ::1 are `loopback`. Each other address in 127.0.0.0/8, and each link-local,
    unspecified, multicast or reserved address, is a kind of its own.
    """
    ip: Any = ipaddress.ip_address(address.partition("%")[0])
    if ip.version == 6:
        embedded_ip = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        ip = embedded_ip or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in TRANSLATED_NETWORK else ip)
    if str(ip) in ("127.0.0.1", "::1"):
        return LOOPBACK
    if any(ip.version == network.version and ip in network for network in PRIVATE_NETWORKS):
        return PRIVATE
    return PUBLIC if ip.is_global and not ip.is_multicast else str(ip)


class ServerAddresses:
    """Checks the addresses that a server names.

    Records the kinds of the server's own addresses when connections to it are opened.
    """

    def __init__(self, server_url: str) -> None:
        self._origin = _origin(server_url)
        self._kinds: set[str] = set()
        """Kinds of the server's addresses. Empty before the first connection."""

    def is_first_contact(self, url: str) -> bool:
        """Return True if `url` has the server's origin and no connection to the server was opened yet."""
        return not self._kinds and _origin(url) == self._origin

    def permits(self, address: str) -> bool:
        """Return True if the server may name `address`.

        Any server may name public addresses. For other kinds, see `PERMITTED_KINDS`.
        """
        kind = address_kind(address)
        if kind == PUBLIC:
            return True
        permitted_kinds = [PERMITTED_KINDS.get(own_kind, (own_kind,)) for own_kind in self._kinds]
        return bool(permitted_kinds) and all(kind in permitted for permitted in permitted_kinds)

    def server_socket(self, info: Any) -> socket.socket:
        """Open a socket to the server, and record the kind of its address.

        `info` is an entry of the result of `getaddrinfo`.
        """
        self._kinds.add(address_kind(_address_of(info)))
        return _new_socket(info)

    def named_socket(self, info: Any) -> socket.socket:
        """Open a socket for a URL that the server named. Raises: AddressRefused."""
        if not self.permits(_address_of(info)):
            raise AddressRefused(_address_of(info))
        return _new_socket(info)

    def check_name(self, subject: str, url: str) -> None:
        """Check a host name. Raises: AuthorizationError if a server on the internet names a private host."""
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
        own_host = self._origin[1] or ""
        if PUBLIC in self._kinds and _is_private_name(host) and not _is_private_name(own_host):
            raise refusal_error(subject, url, host)

    async def check_page(self, subject: str, url: str) -> None:
        """Check a URL that a browser will open. Raises: AuthorizationError if its host is not permitted."""
        self.check_name(subject, url)
        parts = urlsplit(url)
        addresses: list[Any] = []
        with suppress(OSError, UnicodeError):  # an unknown name is harmless
            loop = asyncio.get_running_loop()
            addresses = await loop.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_STREAM)
        for info in addresses:
            address = _address_of(info)
            if not self.permits(address):
                raise refusal_error(subject, url, address)


def refusal_error(subject: str, url: str, address: str) -> AuthorizationError:
    """Return the error for a URL with an address that the server may not name."""
    host = excerpt(urlsplit(url).netloc.rpartition("@")[2])
    reason = f"{subject} is at {host} ({excerpt(address)}), which this server must not name"
    allowed = "only a server on this machine or in its network may name such an address"
    return AuthorizationError(f"{reason}: {allowed}", SOURCE_CLAUSE)


def _is_private_name(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or any(host.endswith(f".{name}") for name in PRIVATE_NAMES)
    return False


def _address_of(info: Any) -> str:
    """Return the IP address of an entry of the result of `getaddrinfo`."""
    return str(info[4][0])


def _new_socket(info: Any) -> socket.socket:
    family, kind, protocol, *_ = info
    return socket.socket(family, kind, protocol)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
