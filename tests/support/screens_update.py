"""Draws the stored screens again and shows how they differ: `python -m tests.support.screens_update`."""

from __future__ import annotations

import asyncio
import tempfile

import pytest

from mcpdesk.settings import BY_VARIABLE
from tests.support.screen_text import difference
from tests.support.screens import SIZES, STOPS, STORED, stored_path, visit_screens


async def update(size: tuple[int, int]) -> None:
    """Write the screens of one size, and print the differences from those that were stored."""
    async for drawn in visit_screens(size):
        if drawn.stored is None:
            print(f"{drawn.path.name}: new")
        elif changes := difference(drawn.stored, drawn.screen):
            print(f"{drawn.path.name}: {changes}\n")
        else:
            continue
        drawn.path.write_text(drawn.screen.encode(), "utf-8")


def main() -> None:
    """Write all stored screens, and remove those of screens that no longer exist."""
    STORED.mkdir(exist_ok=True)
    for path in set(STORED.iterdir()) - {stored_path(stop.name, size) for stop in STOPS for size in SIZES}:
        print(f"{path.name}: removed")
        path.unlink()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for variable in BY_VARIABLE:
            patch.delenv(variable, raising=False)
        for variable in ("MCPDESK_STATE_DIR", "MCPDESK_CONFIG_DIR"):
            patch.setenv(variable, folder)
        for size in SIZES:
            asyncio.run(update(size))


if __name__ == "__main__":
    main()
