"""Round numbers along an axis."""

from __future__ import annotations

import math


def ticks(low: float, high: float, max_count: int) -> list[float]:
    """Return at most `max_count` round numbers between two values."""
    if not high > low:
        return [low]
    rough_step = (high - low) / max(max_count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough_step))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough_step * 0.999)
    first_number = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first_number, math.floor(high / step + 1e-9) + 1)]


def tick_text(value: float) -> str:
    """Format the number of a tick. 0 has no sign."""
    return f"{value or 0:g}"


def degrees(value: float, directions: str) -> str:
    """Format a position on an axis of a map, such as `30°N`. `directions` has the letters for positive and
    negative values.
    """
    value = (value + 180) % 360 - 180 if directions == "EW" and not -180 <= value <= 180 else value
    return f"{abs(value):g}°{'' if value in (0, 180, -180) else directions[value < 0]}"
