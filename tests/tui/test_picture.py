from __future__ import annotations

import base64

from mcpdesk.tui.widgets.picture import Picture
from tests.support.widgets import staged

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_picture_is_drawn_in_half_blocks() -> None:
    async with staged(Picture(PIXEL)) as (stage, _):
        assert "▀" * 16 in stage.shown()


async def test_what_cannot_be_drawn_says_so() -> None:
    async with staged(Picture(b"nothing")) as (stage, _):
        assert "✗ cannot be drawn" in stage.shown()
