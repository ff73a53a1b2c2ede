"""Colour scales. Each is defined by a few colours; the colours between them are interpolated."""

from __future__ import annotations

PALETTES = {
    "viridis": "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
    "magma": "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
    "coolwarm": "3b4cc0 5977e3 7b9ff9 9ebeff c0d4f5 dddcdc f2cab5 f7a889 ee8468 d65244 b40426",
    "thermal": "042333 2c3395 744992 b15f82 eb7958 fbb43d e8fa5b",
    "terrain": "26456e 3c7fb1 7fc6d6 e6dfb8 7fae63 4d8a4b a68a5b 7d5a44 c9c4bd ffffff",
    "grey": "101010 f4f4f4",
}
Colour = tuple[int, int, int]


def scale(name: str) -> list[Colour]:
    """Return the 256 colours of a scale, for values from low to high."""
    stops = [tuple(bytes.fromhex(each)) for each in PALETTES[name].split()]
    colours: list[Colour] = []
    for step in range(256):
        position = step / 255 * (len(stops) - 1)
        low = min(int(position), len(stops) - 2)
        fraction = position - low
        red, green, blue = (
            round(a + (b - a) * fraction) for a, b in zip(stops[low], stops[low + 1], strict=True)
        )
        colours.append((red, green, blue))
    return colours
