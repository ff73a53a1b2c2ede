"""Messages of running tools. Progress is sent if the caller requested it, and log messages from the caller's
level.
"""

import asyncio

from mcpdesk import Context, tool

STEP_S = 0.05


@tool(name="test_tool_with_progress")
async def with_progress(ctx: Context) -> str:
    """Report 0, 50 and 100 of 100."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(STEP_S)
    return "Progress test completed"


@tool(name="test_tool_with_logging")
async def with_logging(ctx: Context) -> str:
    """Log three lines at level info."""
    await ctx.info("Tool execution started")
    await asyncio.sleep(STEP_S)
    await ctx.info("Tool processing data")
    await asyncio.sleep(STEP_S)
    await ctx.info("Tool execution completed")
    return "Logging test completed"


@tool(name="test_logging_tool")
async def logging_tool(ctx: Context) -> str:
    """Log at every level. Callers that requested no log messages receive none."""
    for level in ("debug", "info", "notice", "warning", "error"):
        await ctx.log(level, f"This is {level}")
    return "Logged at five levels"
