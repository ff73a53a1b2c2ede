"""Stop 5: resources made by code. A URI with `{variables}` is a template for many resources."""

from mcpdesk import fail, resource

MOONS = {
    "mercury": 0,
    "venus": 0,
    "earth": 1,
    "mars": 2,
    "jupiter": 97,
    "saturn": 274,
    "uranus": 28,
    "neptune": 16,
}


@resource("planets://all", title="All planets", mime_type="application/json")
async def planets() -> list[str]:
    """Names of the planets, in order of their distance from the sun."""
    return list(MOONS)


@resource("planets://{name}", title="One planet", mime_type="application/json")
async def planet(name: str) -> dict[str, object]:
    """Name of a planet, and the number of its moons."""
    if name not in MOONS:
        fail(f"{name} is not a planet; use one of {', '.join(MOONS)}")
    return {"name": name, "moons": MOONS[name]}
