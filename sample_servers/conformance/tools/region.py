"""An argument that clients also send in an HTTP header, for routers and caches that do not read bodies."""

from typing import Annotated

from mcpdesk import header, tool


@tool(name="test_x_mcp_header", read_only=True)
async def x_mcp_header(region: Annotated[str, header("Region"), "Region of the request."] = "") -> str:
    """Return the region of the request. A request with another region in its header is refused."""
    return f"region={region}"
