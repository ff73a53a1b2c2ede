"""Slow work that reports its progress."""

import asyncio
from typing import Annotated

from mcpdesk import Context, Meta

STEPS = ("grinding the beans", "heating the water", "blooming", "pouring slowly", "letting it drip")


async def brew_coffee(
    ctx: Context,
    cups: Annotated[int, Meta(ge=1, le=12, description="Number of cups.")] = 2,
    seconds: Annotated[float, Meta(ge=0, le=25, description="Duration in seconds.")] = 5,
) -> str:
    """Brew coffee slowly, and report the progress of every step. You can cancel the call."""
    for number, step in enumerate(STEPS):
        await ctx.progress(number, len(STEPS), step)
        await ctx.debug(f"{step} for {cups} cups")
        await asyncio.sleep(seconds / len(STEPS))
    await ctx.progress(len(STEPS), len(STEPS), "done")
    return f"{cups} cups of coffee, still hot."
