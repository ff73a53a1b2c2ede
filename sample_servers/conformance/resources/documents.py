"""Resources: text, bytes, and a template. A returned `str` becomes text, and returned bytes become a blob."""

from typing import Any

from media import PNG

from mcpdesk import resource


@resource("test://static-text", title="A text", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource("test://static-binary", title="A picture", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture that never changes."""
    return PNG


@resource("test://watched-resource", title="A text to subscribe to", mime_type="text/plain")
async def watched_resource() -> str:
    """A text that clients can subscribe to."""
    return "Subscribe to be notified when this file is saved."


@resource("test://template/{id}/data", title="Data by id", mime_type="application/json")
async def template(id: str) -> dict[str, Any]:
    """One record for each id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
