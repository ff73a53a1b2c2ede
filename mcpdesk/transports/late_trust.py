"""aiohttp without a wait for the system's certificates: they are read when a connection asks for them.

aiohttp reads them while it is imported, for the connections of its client: a third of the time a server needs
until it listens, and most servers never open one.
"""

from __future__ import annotations

import ssl
import sys
from typing import Any


class LateTrust(ssl.SSLContext):
    """Trusts what the system trusts, from its first connection on."""

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """As any context, with the certificates read."""
        return _trusting(self).wrap_bio(*args, **kwargs)

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """As any context, with the certificates read."""
        return _trusting(self).wrap_socket(*args, **kwargs)


def import_aiohttp() -> None:
    """Import aiohttp, unless somebody did. Other threads make no contexts meanwhile."""
    if "aiohttp" in sys.modules:
        return
    made: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        made.append(context)

    ssl.SSLContext.set_default_verify_paths = note  # type: ignore[method-assign,assignment]
    try:
        import aiohttp  # noqa: F401
    finally:
        del ssl.SSLContext.set_default_verify_paths
    for context in made:
        context.__class__ = LateTrust


def _trusting(context: ssl.SSLContext) -> ssl.SSLContext:
    context.__class__ = ssl.SSLContext
    context.set_default_verify_paths()
    return context
