"""Content security policy of an app, made of the origins that its resource declares.

An origin that is not written exactly as `https://name` or `https://name:port` is left out, so no declared
text can add a directive. Origins of this machine and of private networks are left out as well, because the
desk and other programs listen there. Source: MCP Apps 2026-01-26, Content Security Policy Enforcement.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

MAX_ORIGINS = 64
"""Maximum number of origins in each list."""
MAX_ORIGIN_LENGTH = 256
"""Maximum length in characters of an origin."""
CONNECT, RESOURCE, FRAME, BASE = "connectDomains", "resourceDomains", "frameDomains", "baseUriDomains"
NONE, SELF = "'none'", "'self'"
LISTS: Final = (CONNECT, RESOURCE, FRAME, BASE)
PERMISSIONS: Final = {
    "camera": "camera",
    "microphone": "microphone",
    "geolocation": "geolocation",
    "clipboardWrite": "clipboard-write",
}
"""Feature of the permissions policy, by the name of the permission in the resource."""
_WEB_SCHEMES = frozenset({"http", "https"})
_SCHEMES = {CONNECT: _WEB_SCHEMES | {"ws", "wss"}}
"""Allowed schemes by list, if they differ from `_WEB_SCHEMES`."""
_ORIGIN = re.compile(
    r"(?P<scheme>https?|wss?)://(?P<any>\*\.)?(?P<name>[a-z0-9-]+(?:\.[a-z0-9-]+)*)(?P<port>:[0-9]{1,5})?/?"
)
_NUMERIC_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""Last label of a host that browsers parse as an IPv4 address."""
_LOCAL_NAMES = ("localhost", "local", "internal", "localdomain", "home.arpa")
"""Names of this machine and of private networks, with all names below them."""


class AppPolicy(Struct, frozen=True):
    """Origins that an app may use, by list, and the permissions that it gets."""

    origins: Mapping[str, tuple[str, ...]] = {}
    """Allowed origins by list. Lists without origins are missing."""
    is_declared: bool = False
    """True if the resource declares a policy, even an empty one."""
    permissions: tuple[str, ...] = ()
    """Permissions by their names in the resource."""
    refused: tuple[str, ...] = ()
    """Declared origins that were left out."""

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """All allowed origins, without repetitions."""
        return tuple(dict.fromkeys(each for origins in self.origins.values() for each in origins))

    @property
    def csp(self) -> dict[str, list[str]]:
        """Allowed origins in the form of the resource's `csp`."""
        return {name: list(origins) for name, origins in self.origins.items()}

    @property
    def granted(self) -> dict[str, dict[str, str]]:
        """Granted permissions in the form of the resource's `permissions`."""
        return {name: {} for name in self.permissions}


def app_policy(interface: Mapping[str, Any]) -> AppPolicy:
    """Return the policy of a resource with this `_meta.ui`."""
    csp, permissions = interface.get("csp"), interface.get("permissions")
    declared = csp if isinstance(csp, dict) else {}
    allowed: dict[str, tuple[str, ...]] = {}
    refused: list[str] = []
    for name in LISTS:
        value = declared.get(name)
        values = value if isinstance(value, list) else [] if value is None else [value]
        schemes = _SCHEMES.get(name, _WEB_SCHEMES)
        checked_origins = [_checked_origin(each, schemes) for each in values[:MAX_ORIGINS]]
        pairs = zip(values, checked_origins, strict=False)
        refused += [_short(value) for value, origin in pairs if origin is None]
        if len(values) > MAX_ORIGINS:
            refused.append(f"{len(values) - MAX_ORIGINS} more of {name}")
        if origins := tuple(dict.fromkeys(each for each in checked_origins if each is not None)):
            allowed[name] = origins
    requested = permissions if isinstance(permissions, dict) else {}
    granted = tuple(name for name in PERMISSIONS if isinstance(requested.get(name), dict))
    return AppPolicy(allowed, isinstance(csp, dict), granted, tuple(refused))


def policy_header(policy: AppPolicy, host: str) -> str:
    """Return the header `Content-Security-Policy` of the sandbox of an app.

    The app inherits it. `host` is the origin of the only page that may embed the sandbox.
    """
    resources = f" {_joined(policy, RESOURCE)}".rstrip()
    directives = [
        "default-src 'none'",
        f"script-src 'self' 'unsafe-inline'{resources}",
        f"style-src 'self' 'unsafe-inline'{resources}",
        f"img-src 'self' data:{resources}",
        f"media-src 'self' data:{resources}",
        f"connect-src {_joined(policy, CONNECT) or NONE}",
        f"frame-src {_joined(policy, FRAME) or NONE}",
        f"base-uri {_joined(policy, BASE) or SELF}",
        "object-src 'none'",
        "form-action 'none'",
        f"frame-ancestors {host}",
    ]
    if policy.is_declared:
        directives.insert(3, f"font-src 'self'{resources}")
    return "; ".join(directives)


def permissions_header(policy: AppPolicy) -> str:
    """Return the header `Permissions-Policy` of the sandbox of an app."""
    parts = (
        f"{feature}={'*' if name in policy.permissions else '()'}" for name, feature in PERMISSIONS.items()
    )
    return ", ".join(parts)


def allow_attribute(policy: AppPolicy) -> str:
    """Return the attribute `allow` of the frames of an app."""
    return "; ".join(f"{PERMISSIONS[name]} *" for name in policy.permissions)


def _joined(policy: AppPolicy, name: str) -> str:
    return " ".join(policy.origins.get(name, ()))


def _checked_origin(origin: Any, schemes: frozenset[str]) -> str | None:
    """Return an origin as it is written in the policy, or None if it must not be allowed."""
    if not isinstance(origin, str) or len(origin) > MAX_ORIGIN_LENGTH:
        return None
    match = _ORIGIN.fullmatch(origin.lower())
    if match is None or match["scheme"] not in schemes:
        return None
    name, labels = match["name"], match["name"].split(".")
    if _is_local(name) or (match["any"] and len(labels) < 2):
        return None
    if _NUMERIC_LABEL.fullmatch(labels[-1]) and (match["any"] or not _is_public_address(name)):
        return None
    return f"{match['scheme']}://{match['any'] or ''}{name}{match['port'] or ''}"


def _is_local(name: str) -> bool:
    host_name = socket.gethostname().lower()
    return any(name == each or name.endswith(f".{each}") for each in (*_LOCAL_NAMES, host_name) if each)


def _is_public_address(name: str) -> bool:
    try:
        return ipaddress.IPv4Address(name).is_global
    except ValueError:
        return False


def _short(origin: Any) -> str:
    return str(origin)[:MAX_ORIGIN_LENGTH]
