"""Contrast of two colours."""

from __future__ import annotations

from textual.color import Color


def contrast(one: Color, other: Color) -> float:
    """The ratio of the accessibility guidelines, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Color) -> float:
    """Relative luminance of a colour, 0 to 1, as defined by the accessibility guidelines."""
    channels = [value / 255 for value in (colour.r, colour.g, colour.b)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
