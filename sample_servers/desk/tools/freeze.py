"""What not to do. `time.sleep` stops everything on its thread; `await asyncio.sleep` would not."""

import time
from typing import Annotated

from mcpdesk import Meta, tool


@tool(title="Freeze the core", read_only=True)
async def freeze(seconds: Annotated[float, Meta(ge=0, le=10, description="For how long.")] = 3) -> str:
    """Block the server on purpose. The screen stays alive and says which tool and line is to blame."""
    time.sleep(seconds)  # noqa: ASYNC251 (on purpose)
    return f"Nothing else moved for {seconds} seconds."
