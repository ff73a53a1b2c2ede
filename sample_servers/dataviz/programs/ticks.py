"""Round numbers along an axis."""

from __future__ import annotations

import math


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two others, `most` of them at most."""
    if not high > low:
        return [low]
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def spelled(value: float) -> str:
    """A tick as text; 0 has no sign."""
    return f"{value or 0:g}"


def degrees(value: float, ways: str) -> str:
    """A place on an axis of a map: `30°N`. `ways` are the letters for more and less than 0."""
    value = (value + 180) % 360 - 180 if ways == "EW" and not -180 <= value <= 180 else value
    return f"{abs(value):g}°{'' if value in (0, 180, -180) else ways[value < 0]}"
