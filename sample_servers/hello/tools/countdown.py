"""Stop 3: the parameter `ctx` reports progress and log messages to the caller. A cancelled call ends here."""

import asyncio
from typing import Annotated

from mcpdesk import Context, Meta


async def countdown(
    ctx: Context,
    start: Annotated[int, Meta(ge=1, le=60, description="First number.")] = 5,
) -> str:
    """Count down to zero, one number per second. You can cancel the call."""
    await ctx.info(f"counting down from {start}")
    for done in range(start):
        await ctx.progress(done, start, f"{start - done} ...")
        await asyncio.sleep(1)
    await ctx.progress(start, start, "lift-off")
    return "Lift-off!"
