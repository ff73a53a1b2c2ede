"""A resource that differs at every reading, and a template for clocks elsewhere."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcpdesk import fail, resource


@resource("clock://now", title="The time", mime_type="text/plain")
async def now() -> str:
    """The time in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@resource("clock://zones/{area}/{city}", title="The time elsewhere", mime_type="application/json")
async def elsewhere(area: str, city: str) -> dict[str, Any]:
    """The time in a zone such as Europe/Berlin."""
    try:
        zone = ZoneInfo(f"{area}/{city}")
    except (ZoneInfoNotFoundError, ValueError):
        fail(f"There is no time zone {area}/{city}; try Europe/Berlin.")
    return {"zone": zone.key, "time": datetime.datetime.now(zone).isoformat(timespec="seconds")}
