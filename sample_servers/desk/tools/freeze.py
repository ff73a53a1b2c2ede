"""An error that you should avoid: `time.sleep` blocks the whole thread. Use `await asyncio.sleep` instead."""

import time
from typing import Annotated

from mcpdesk import Meta, tool


@tool(title="Freeze the core", read_only=True)
async def freeze(seconds: Annotated[float, Meta(ge=0, le=10, description="Duration in seconds.")] = 3) -> str:
    """Block the server on purpose. The screen still works, and shows the tool and the line that block."""
    time.sleep(seconds)  # noqa: ASYNC251 (on purpose)
    return f"The server was blocked for {seconds} seconds."
