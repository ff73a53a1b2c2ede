from __future__ import annotations

import io

import pytest
from PIL import Image

from mcpdesk.tui.render.half_blocks import PictureError, draw, picture_size


def png(width: int, height: int, colour: tuple[int, ...] = (255, 0, 0), mode: str = "RGB") -> bytes:
    data = io.BytesIO()
    Image.new(mode, (width, height), colour).save(data, "PNG")
    return data.getvalue()


def test_a_picture_keeps_its_proportions() -> None:
    strips = draw(png(200, 100), 40, 30)
    assert [strip.cell_length for strip in strips] == [40] * 10
    assert strips[0].text == "▀" * 40


def test_tall_pictures_are_bound_by_rows() -> None:
    strips = draw(png(100, 400), 80, 10)
    assert len(strips) == 10
    assert strips[0].cell_length == 5


def test_small_pictures_are_not_blown_up_beyond_recognition() -> None:
    assert draw(png(1, 1), 80, 30)[0].cell_length == 16


def test_colours_survive_and_transparency_is_dark() -> None:
    style = next(iter(draw(png(4, 4), 4, 4)[0])).style
    assert style is not None
    assert style.color is not None
    assert style.color.get_truecolor() == (255, 0, 0)
    faint = next(iter(draw(png(4, 4, (255, 255, 255, 0), "RGBA"), 4, 4)[0])).style
    assert faint is not None
    assert faint.color is not None
    assert faint.color.get_truecolor() == (0, 0, 0)


def test_what_is_no_picture_says_so() -> None:
    for data in (b"", b"not a picture", png(10, 10)[:30]):
        with pytest.raises(PictureError):
            draw(data, 10, 10)


def test_enormous_pictures_are_not_decoded() -> None:
    data = png(8000, 6000, (1,), "L")
    assert picture_size(data) == (8000, 6000, "PNG")
    with pytest.raises(PictureError, match="too many"):
        draw(data, 10, 10)
