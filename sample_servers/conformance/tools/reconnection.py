"""A tool that lets its caller go in the middle of its work; the answer waits for the caller's return."""

import asyncio

from mcpdesk import Context, tool

PAUSE_S = 0.2


@tool(name="test_reconnection")
async def reconnection(ctx: Context) -> str:
    """Close the connection, work on, and answer whoever comes back."""
    await ctx.close_stream(retry_ms=100)
    await asyncio.sleep(PAUSE_S)
    return "Reconnection test completed"
