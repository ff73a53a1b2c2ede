"""A tool that closes the connection during the call. The answer is kept until the client reconnects."""

import asyncio

from mcpdesk import Context, tool

PAUSE_S = 0.2


@tool(name="test_reconnection")
async def reconnection(ctx: Context) -> str:
    """Close the connection, continue the work, and answer when the client reconnects."""
    await ctx.close_stream(retry_ms=100)
    await asyncio.sleep(PAUSE_S)
    return "Reconnection test completed"
