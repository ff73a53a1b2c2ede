"""Numbers as a row of little bars. Knows no widget."""

from __future__ import annotations

from collections.abc import Sequence

BARS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], ceiling: float = 0.0) -> str:
    """One bar a value, scaled to the largest or to `ceiling`; anything above zero shows at least `▁`."""
    top = max(*values, ceiling, 1e-9) if values else 1.0
    return "".join(BARS[0 if value <= 0 else max(1, round(value / top * 8))] for value in values)


def rate(per_second: float) -> str:
    """`14/s`, `0.4/s`, `12k/s`."""
    if per_second >= 10_000:
        return f"{per_second / 1000:.0f}k/s"
    return f"{per_second:.0f}/s" if per_second >= 1 or per_second <= 0 else f"{per_second:.1f}/s"
