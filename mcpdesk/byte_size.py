"""Sizes in bytes as short text, the same on the screen, on the command line and in log lines."""

from __future__ import annotations

_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1_000))


def size_text(size: int) -> str:
    """Return a size as text, such as `212 B`, `3.4 kB`, `5.0 MB` or `1.2 GB`."""
    for unit, factor in _UNITS:
        if size >= 0.99995 * factor and size >= 1_000:  # a size that rounds to 1000.0 takes the next unit
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
