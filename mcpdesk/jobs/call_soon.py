"""Calling a function on an event loop from any thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVarTuple, Unpack

Values = TypeVarTuple("Values")


def call_soon_safely(
    loop: asyncio.AbstractEventLoop, function: Callable[[Unpack[Values]], object], *values: *Values
) -> None:
    """Call a function soon on a loop. A loop that was closed meanwhile is ignored."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *values)
