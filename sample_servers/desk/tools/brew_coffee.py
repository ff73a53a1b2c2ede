"""Slow work that says how far it is."""

import asyncio
from typing import Annotated

from mcpdesk import Context, Meta

STEPS = ("grinding the beans", "heating the water", "blooming", "pouring slowly", "letting it drip")


async def brew_coffee(
    ctx: Context,
    cups: Annotated[int, Meta(ge=1, le=12, description="How many cups.")] = 2,
    seconds: Annotated[float, Meta(ge=0, le=25, description="How long it takes in all.")] = 5,
) -> str:
    """Brew coffee and report every step. Takes a while: watch the progress, or cancel."""
    for number, step in enumerate(STEPS):
        await ctx.progress(number, len(STEPS), step)
        await ctx.debug(f"{step} for {cups} cups")
        await asyncio.sleep(seconds / len(STEPS))
    await ctx.progress(len(STEPS), len(STEPS), "done")
    return f"{cups} cups of coffee, still hot."
