"""An argument that clients repeat in an HTTP header, for routers and caches that do not read bodies."""

from typing import Annotated

from mcpdesk import header, tool


@tool(name="test_x_mcp_header", read_only=True)
async def x_mcp_header(region: Annotated[str, header("Region"), "Where to look."] = "") -> str:
    """Say which region was asked for; a request whose header says another one never gets here."""
    return f"region={region}"
