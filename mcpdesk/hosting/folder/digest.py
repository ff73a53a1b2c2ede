"""Marks that differ where texts do.

`hashlib` would load the hashes of OpenSSL besides, while a client waits; `random` of the standard library
goes around it in the same way.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # a Python built without hashes of its own
    from hashlib import blake2b


def digest(data: bytes, size: int = 16) -> str:
    """A mark of so many bytes, in hexadecimal digits."""
    return blake2b(data, digest_size=size).hexdigest()
