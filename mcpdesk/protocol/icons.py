"""Icons as a server may offer them. Source: WIRE 6.3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

SCHEMES = ("https", "data", "http")
THEMES = ("light", "dark")


def check_icons(icons: Iterable[Mapping[str, Any]]) -> None:
    """Whether clients will take these. Raises: ValueError naming what they refuse."""
    for icon in icons:
        source = icon.get("src")
        if not isinstance(source, str) or urlsplit(source).scheme not in SCHEMES:
            raise ValueError(f"icons: src begins with https:// or data:, not {str(source)[:80]!r}")
        if not isinstance(icon.get("mimeType", ""), str):
            raise ValueError(f"icons: mimeType is a text, not {str(icon['mimeType'])[:80]!r}")
        sizes = icon.get("sizes", [])
        if not isinstance(sizes, list | tuple) or not all(isinstance(each, str) for each in sizes):
            raise ValueError(f'icons: sizes is a list like ["48x48"], not {str(sizes)[:80]!r}')
        if icon.get("theme", THEMES[0]) not in THEMES:
            raise ValueError(f"icons: theme is {' or '.join(THEMES)}, not {str(icon['theme'])[:80]!r}")
