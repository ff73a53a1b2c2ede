"""What is made of a stranger's bytes."""

from __future__ import annotations

import zlib

import pytest
from PIL import Image

from mcpdesk.tui.results.picture_drawing import MAX_BYTES, Facts, PictureError, look, shrunk, unpacked
from tests.support.pictures import BLUE, RED, encoded, packed, plain, two_halves

BLACK = (0, 0, 0)


def drawn(data: bytes, background: tuple[int, int, int] = BLACK) -> Image.Image:
    return shrunk(data, (8, 8), (8, 8), background)


def near(pixel: object, colour: tuple[int, int, int]) -> bool:
    assert isinstance(pixel, tuple)
    return all(abs(one - other) < 12 for one, other in zip(pixel, colour, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO"])
def test_the_usual_formats_are_read(kind: str) -> None:
    data = packed(two_halves(), kind)
    assert look(data).format == kind
    image = shrunk(data, (8, 8), (8, 8), BLACK)
    assert near(image.getpixel((1, 4)), RED) and near(image.getpixel((6, 4)), BLUE)


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, (255, 255, 255)),
        ("L", 128, (128, 128, 128)),
        ("LA", (128, 255), (128, 128, 128)),
        ("P", 0, BLACK),
        ("I;16", 0x8000, (128, 128, 128)),
        ("RGBA", (0, 0, 255, 255), BLUE),
    ],
)
def test_the_colours_are_those_the_eye_sees(
    mode: str, colour: object, expected: tuple[int, int, int]
) -> None:
    assert near(drawn(plain(9, 9, colour, mode)).getpixel((4, 4)), expected)  # type: ignore[arg-type]


def test_the_background_shines_through_and_fills_the_rest() -> None:
    assert drawn(plain(9, 9, (255, 255, 255, 0), "RGBA"), BLUE).getpixel((4, 4)) == BLUE
    image = shrunk(plain(9, 9), (4, 4), (8, 6), BLUE)
    assert image.size == (8, 6)
    assert (image.getpixel((3, 3)), image.getpixel((4, 3)), image.getpixel((3, 4))) == (RED, BLUE, BLUE)


def test_a_camera_on_its_side_is_made_up_for() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = packed(two_halves(80, 40), "PNG", exif=exif)
    assert look(data) == Facts("PNG", 40, 80)
    image = shrunk(data, (4, 8), (4, 8), BLACK)
    assert (image.getpixel((2, 1)), image.getpixel((2, 6))) == (RED, BLUE)


def test_of_an_animation_the_first_frame_is_drawn_and_that_is_said() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
    for kind in ("GIF", "WEBP", "PNG"):
        data = packed(frames[0], kind, save_all=True, append_images=frames[1:])
        assert str(look(data)) == f"8 x 8 {kind}, the first frame of an animation"
        assert near(drawn(data).getpixel((4, 4)), RED)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a picture",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    ],
)
def test_what_is_no_picture_says_so(data: bytes) -> None:
    with pytest.raises(PictureError, match=r"not one of PNG, JPEG|broken"):
        look(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO"])
def test_pictures_that_end_early_are_told(kind: str) -> None:
    data = packed(Image.effect_noise((64, 64), 80).convert("RGB"), kind)
    with pytest.raises(PictureError):
        drawn(data[: len(data) // 2])


def test_enormous_pictures_are_not_decoded() -> None:
    with pytest.raises(PictureError, match=r"8000 x 6000 pixels; at most 40,000,000 are drawn"):
        look(plain(8000, 6000, 1, "L"))
    bomb = plain(2, 2).replace(b"\x00\x00\x00\x02\x00\x00\x00\x02", b"\x7f\xff\xff\xff\x7f\xff\xff\xff")
    header = bomb[12:29]
    bomb = bomb.replace(bomb[29:33], zlib.crc32(header).to_bytes(4, "big"), 1)
    with pytest.raises(PictureError, match="2147483647 x 2147483647 pixels"):
        look(bomb)


def test_base64_is_checked_and_bounded() -> None:
    assert unpacked(encoded(b"abc")) == b"abc"
    for wrong in ("***", "YWJj\n*", "YWJ", "ü"):
        with pytest.raises(PictureError, match="not valid base64"):
            unpacked(wrong)
    with pytest.raises(PictureError, match=r"bytes; at most 20,000,000 are drawn"):
        unpacked("A" * (MAX_BYTES // 3 * 4 + 8))
