"""Stop 3: a parameter called `ctx` is your line to the caller: progress, log, cancellation."""

import asyncio
from typing import Annotated

from mcpdesk import Context, Meta


async def countdown(
    ctx: Context,
    start: Annotated[int, Meta(ge=1, le=60, description="Where to start.")] = 5,
) -> str:
    """Count down to zero, one a second; cancel it and it stops."""
    await ctx.info(f"counting down from {start}")
    for done in range(start):
        await ctx.progress(done, start, f"{start - done} ...")
        await asyncio.sleep(1)
    await ctx.progress(start, start, "lift-off")
    return "Lift-off!"
