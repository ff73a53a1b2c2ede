"""Stop 5: resources made by code. With `{variables}` in its URI a resource is a template for many."""

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
    """The names of the planets, from the sun outwards."""
    return list(MOONS)


@resource("planets://{name}", title="One planet", mime_type="application/json")
async def planet(name: str) -> dict[str, object]:
    """What is known about one planet."""
    if name not in MOONS:
        fail(f"{name} is not a planet; try one of {', '.join(MOONS)}")
    return {"name": name, "moons": MOONS[name]}
