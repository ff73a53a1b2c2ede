"""Which task of a loop runs. It is asked for in every call, and before 3.12 asyncio's way is a slow one."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

current_task: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]
"""The task a loop is running; None between two of them."""

if sys.version_info >= (3, 12):
    current_task = asyncio.current_task
else:
    current_task = asyncio.tasks._current_tasks.get  # type: ignore[attr-defined]
