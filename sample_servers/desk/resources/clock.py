"""A resource whose content changes with time, and a template for other time zones."""

import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mcpdesk import fail, resource


@resource("clock://now", title="The time", mime_type="text/plain")
async def now() -> str:
    """Current time in UTC."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@resource("clock://zones/{area}/{city}", title="The time in a zone", mime_type="application/json")
async def zone_time(area: str, city: str) -> dict[str, Any]:
    """Current time in a zone, such as Europe/Berlin."""
    try:
        zone = ZoneInfo(f"{area}/{city}")
    except (ZoneInfoNotFoundError, ValueError):
        fail(f"Time zone {area}/{city} does not exist; use a name such as Europe/Berlin.")
    return {"zone": zone.key, "time": datetime.datetime.now(zone).isoformat(timespec="seconds")}
