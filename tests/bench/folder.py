"""The measured server folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_ECHO = '''
async def {name}(text: str) -> str:
    """Say it again."""
    return text
'''
_TICK = '''
from mcpdesk import Context


async def tick(count: int, ctx: Context) -> str:
    """Report progress `count` times."""
    for number in range(count):
        await ctx.progress(number + 1, count)
    return "done"
'''
_ONE_OF_MANY = '''
async def tool_{number:04}(text: str, count: int = 1, loud: bool = False) -> str:
    """Say it again, number {number}.

    Args:
        text: What to say.
        count: How many times.
        loud: Whether to shout.
    """
    return text
'''


@contextmanager
def echo_folder(*names: str, tools: int = 0) -> Iterator[Path]:
    """A server folder `echo` in a temporary folder that also holds the state.

    It has an echoing tool of each name, one that reports progress, and `tools` more, all on one page.
    """
    with TemporaryDirectory(prefix="mcpdesk-bench-") as place:
        folder = Path(place) / "echo"
        (folder / "tools").mkdir(parents=True)
        for name in names or ("echo",):
            (folder / "tools" / f"{name}.py").write_text(_ECHO.format(name=name))
        (folder / "tools" / "tick.py").write_text(_TICK)
        if tools:
            many = "".join(_ONE_OF_MANY.format(number=number) for number in range(tools))
            (folder / "tools" / "many.py").write_text(many)
            settings = {"name": "echo", "settings": {"page_size": 2 * tools}}
            (folder / "mcp.json").write_text(json.dumps(settings))
        yield folder
