"""Origin and Host checks of HTTP requests, made before any key is checked.

The threat is a web page in the user's own browser. `Origin` identifies the page that sends the request. An
attacker can make a host name resolve to this machine (DNS rebinding). The header `Host` then contains this
name. Source: spec 2025-11-25, transports, security.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import NamedTuple

_AUTHORITY = re.compile(
    r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}))(?::(?P<port>\d{1,5}))?"
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Authority(NamedTuple):
    """`host[:port]` of a URL or a Host header. `port` is empty if it is omitted."""

    name: str
    port: str


class _Site(NamedTuple):
    """Scheme and authority of an origin. A default port is omitted."""

    scheme: str
    authority: Authority


def check_origin(
    origin: str | None,
    allowed: Iterable[str] = (),
    host: str | None = None,
    bound: str = "127.0.0.1",
    port: int = 0,
) -> bool:
    """Return True if a request with this Origin header may be served.

    None is accepted, because programs send no Origin. `null` is rejected. Only pages of this server and of
    allowed origins may send requests. A page from another port of this machine is not a page of this server.
    `host` is the Host header of the request, which `check_host` has accepted. The server listens on the
    address `bound` and on `port`, which is 0 for a Unix socket.
    """
    if origin is None or is_same_site(origin, host) or is_listed(origin, allowed):
        return True
    site = _site(origin)
    if site is None or not port or site.scheme != "http":
        return False
    name = site.authority.name
    is_own_port = (site.authority.port or _DEFAULT_PORTS["http"]) == str(port)
    return is_own_port and (_is_local(name) or name == _normal_host(bound))


def is_same_site(origin: str, host: str | None) -> bool:
    """Return True if a page of this origin was loaded from the host that it calls.

    The schemes may differ, because a reverse proxy may terminate TLS.
    """
    site, called_host = _site(origin), _authority(host or "")
    if site is None or called_host is None:
        return False
    if called_host.port == _DEFAULT_PORTS[site.scheme]:
        called_host = called_host._replace(port="")
    return site.authority == called_host


def is_listed(origin: str, allowed: Iterable[str]) -> bool:
    """Return True if an origin is in the list of allowed origins."""
    site = _site(origin)
    return site is not None and site in {_site(entry.rstrip("/")) for entry in allowed}


def check_host(host: str | None, allowed: Iterable[str] = (), bound: str = "127.0.0.1") -> bool:
    """Return True if a request with this Host header may be served by a listener bound to `bound`.

    `bound` is empty for a Unix socket. An entry of `allowed` without a port allows every port. If the
    listener is not on loopback, a Host header with any IP address is accepted, because DNS rebinding requires
    a host name.
    """
    authority = _authority(host or "")
    if authority is None:
        return False
    if _is_local(authority.name) or _is_allowed(authority, allowed):
        return True
    if is_loopback(bound) or not bound:
        # For a listener on 127.0.0.2, only this address is accepted, because a host name may be rebound.
        return _is_address(authority.name) and authority.name == _normal_host(bound)
    return _is_address(authority.name) or authority.name in {
        _normal_host(bound),
        socket.gethostname().lower(),
    }


def is_loopback(address: str) -> bool:
    """Return True if only this machine can connect to a listener bound to `address`."""
    name = _normal_host(address)
    return name == "localhost" or (_is_address(name) and ipaddress.ip_address(name).is_loopback)


def _site(origin: str) -> _Site | None:
    """Parse an origin. Return None if it is invalid."""
    scheme, _, rest = origin.lower().partition("://")
    authority = _authority(rest)
    if scheme not in _DEFAULT_PORTS or authority is None:
        return None
    if authority.port == _DEFAULT_PORTS[scheme]:
        authority = authority._replace(port="")
    return _Site(scheme, authority)


def _authority(text: str) -> Authority | None:
    match = _AUTHORITY.fullmatch(text)
    if match is None or int(match["port"] or 0) > 65535:
        return None
    return Authority(_normal_host(match["name"]), match["port"] or "")


def _is_allowed(authority: Authority, allowed: Iterable[str]) -> bool:
    entries = {_authority(entry) for entry in allowed}
    return authority in entries or authority._replace(port="") in entries


def _is_local(name: str) -> bool:
    return name in ("localhost", "127.0.0.1") or (":" in name and is_loopback(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _normal_host(name: str) -> str:
    """Return a host name in lower case. For an IPv6 literal, return its shortest form without brackets."""
    name = name.lower().removeprefix("[").removesuffix("]")
    return ipaddress.ip_address(name).compressed if ":" in name and _is_address(name) else name
