from __future__ import annotations

from PIL import Image

from mcpdesk.tui.results.picture_drawing import half_blocks
from tests.support.pictures import BLUE, RED


def test_two_pixels_share_a_cell() -> None:
    image = Image.new("RGB", (3, 4), RED)
    image.paste(BLUE, (0, 1, 3, 2))
    strips = half_blocks(image)
    assert [strip.text for strip in strips] == ["▀▀▀", "▀▀▀"]
    for strip, colours in zip(strips, ((RED, BLUE), (RED, RED)), strict=True):
        for _, style, _ in strip:
            assert style is not None and style.color is not None and style.bgcolor is not None
            assert (style.color.get_truecolor(), style.bgcolor.get_truecolor()) == colours
