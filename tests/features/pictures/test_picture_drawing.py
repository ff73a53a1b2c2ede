"""Pictures of strangers: decoded within bounds, drawn as half blocks, sixels or kitty graphics."""

from __future__ import annotations

import base64
import io
import re
import zlib

import pytest
from PIL import Image
from PIL.IcoImagePlugin import IcoImageFile
from rich.console import Console
from rich.style import Style

from mcpdesk.features.pictures.picture import (
    MAX_BYTES,
    MAX_CELLS,
    NUMBER_CHARACTERS,
    PictureError,
    PictureFacts,
    SixelStrip,
    deletion,
    examine,
    half_blocks,
    placeholders,
    scaled,
    sixel_rows,
    transmission,
    unpacked,
)
from tests.support.pictures import BLUE, RED, encoded, packed, plain, two_halves

BLACK = (0, 0, 0)


def drawn(data: bytes, background: tuple[int, int, int] = BLACK) -> Image.Image:
    return scaled(data, (8, 8), (8, 8), background)


def near(pixel: object, colour: tuple[int, int, int]) -> bool:
    assert isinstance(pixel, tuple)
    return all(abs(one - other) < 12 for one, other in zip(pixel, colour, strict=True))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO"])
def test_the_usual_formats_are_read(kind: str) -> None:
    data = packed(two_halves(), kind)
    assert examine(data).format == kind
    image = scaled(data, (8, 8), (8, 8), BLACK)
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
    image = scaled(plain(9, 9), (4, 4), (8, 6), BLUE)
    assert image.size == (8, 6)
    assert (image.getpixel((3, 3)), image.getpixel((4, 3)), image.getpixel((3, 4))) == (RED, BLUE, BLUE)


def test_a_camera_on_its_side_is_made_up_for() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = packed(two_halves(80, 40), "PNG", exif=exif)
    assert examine(data) == PictureFacts("PNG", 40, 80)
    image = scaled(data, (4, 8), (4, 8), BLACK)
    assert (image.getpixel((2, 1)), image.getpixel((2, 6))) == (RED, BLUE)


def test_of_an_animation_the_first_frame_is_drawn_and_that_is_said() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE)]
    for kind in ("GIF", "WEBP", "PNG"):
        data = packed(frames[0], kind, save_all=True, append_images=frames[1:])
        assert str(examine(data)) == f"8 x 8 {kind}, the first frame of an animation"
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
        examine(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO"])
def test_pictures_that_end_early_are_told(kind: str) -> None:
    data = packed(Image.effect_noise((64, 64), 80).convert("RGB"), kind)
    with pytest.raises(PictureError):
        drawn(data[: len(data) // 2])


@pytest.mark.slow
def test_enormous_pictures_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 89_478_485)
    with pytest.raises(PictureError, match=r"8000 x 6000 pixels; at most 40,000,000 are allowed"):
        examine(plain(8000, 6000, 1, "L"))
    bomb = plain(2, 2).replace(b"\x00\x00\x00\x02\x00\x00\x00\x02", b"\x7f\xff\xff\xff\x7f\xff\xff\xff")
    header = bomb[12:29]
    bomb = bomb.replace(bomb[29:33], zlib.crc32(header).to_bytes(4, "big"), 1)
    with pytest.raises(PictureError, match="too many pixels; at most 40,000,000 are allowed"):
        examine(bomb)


@pytest.mark.slow
def test_enormous_pictures_in_an_icon_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = plain(8000, 6000, 1, "L")
    directory = (
        bytes((16, 16, 0, 0, 1, 0, 8, 0)) + len(inner).to_bytes(4, "little") + (22).to_bytes(4, "little")
    )
    icon = bytes((0, 0, 1, 0, 1, 0)) + directory + inner
    monkeypatch.setattr(IcoImageFile, "load", lambda self: pytest.fail("the icon was decoded"))
    with pytest.raises(PictureError, match=r"8000 x 6000 pixels; at most 40,000,000 are allowed"):
        examine(icon)
    with pytest.raises(PictureError, match=r"300 images in one file; at most 32 are allowed"):
        examine(bytes((0, 0, 1, 0, 44, 1)) + directory)


def test_a_broken_bitmap_in_an_icon_is_an_error_of_the_picture() -> None:
    header = (40).to_bytes(4, "little") + bytes((16, 0, 0, 0, 32, 0, 0, 0, 1, 0, 99, 0)) + bytes(24)
    directory = bytes((16, 16, 0, 0, 1, 0, 8, 0)) + bytes((40, 0, 0, 0, 22, 0, 0, 0))
    with pytest.raises(PictureError, match="broken: Unsupported BMP pixel depth"):
        examine(bytes((0, 0, 1, 0, 1, 0)) + directory + header)


def test_limit_of_pillow_for_other_code_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000_000)
    assert examine(packed(two_halves())).format == "PNG"
    assert Image.MAX_IMAGE_PIXELS == 1_000_000


def test_base64_is_checked_and_bounded() -> None:
    assert unpacked(encoded(b"abc")) == b"abc"
    for wrong in ("***", "YWJj\n*", "YWJ", "ü"):
        with pytest.raises(PictureError, match="not valid base64"):
            unpacked(wrong)
    with pytest.raises(PictureError, match=r"bytes; at most 20,000,000 are allowed"):
        unpacked("A" * (MAX_BYTES // 3 * 4 + 8))


def test_two_pixels_share_a_cell() -> None:
    image = Image.new("RGB", (3, 4), RED)
    image.paste(BLUE, (0, 1, 3, 2))
    strips = half_blocks(image)
    assert [strip.text for strip in strips] == ["▀▀▀", "▀▀▀"]
    for strip, colours in zip(strips, ((RED, BLUE), (RED, RED)), strict=True):
        for _, style, _ in strip:
            assert style is not None and style.color is not None and style.bgcolor is not None
            assert (style.color.get_truecolor(), style.bgcolor.get_truecolor()) == colours


CONSOLE = Console(color_system="truecolor")


def strip() -> SixelStrip:
    return SixelStrip("\x1bPq~\x1b\\", 4, 10, Style())


def test_each_row_of_cells_is_a_picture_of_its_own() -> None:
    rows = list(sixel_rows(two_halves(40, 50), 20))
    sizes = [re.match(r'\x1bP[0-9;]*q"1;1;(\d+);(\d+)', row) for row in rows]
    assert [size and size.groups() for size in sizes] == [("40", "20"), ("40", "20"), ("40", "10")]
    for row in rows:
        assert ";2;100;0;0" in row and ";2;0;0;100" in row
        assert row.endswith("\x1b\\")


def drawn_by_sixels(row: str) -> list[list[tuple[int, ...]]]:
    """The lines of pixels that a terminal shows of a row of cells; red, green and blue in percent."""
    head = re.match(r'\x1bP0;0;0q"1;1;(\d+);(\d+)', row)
    assert head is not None
    lines: list[list[tuple[int, ...]]] = [[()] * int(head[1]) for _ in range(int(head[2]))]
    palette: dict[str, tuple[int, ...]] = {}
    for number, levels in re.findall(r"#(\d+);2;(\d+;\d+;\d+)", row):
        palette[number] = tuple(map(int, levels.split(";")))
    painted = re.sub(r"#\d+;2;\d+;\d+;\d+", "", row[head.end() : -2])
    for top, band in enumerate(painted.split("-")):
        for number, sixels in re.findall(r"#(\d+)([^#$]*)", band):
            plain = re.sub(r"!(\d+)(.)", lambda run: run[2] * int(run[1]), sixels)
            for x, sixel in enumerate(plain):
                for down in range(6):
                    if ord(sixel) - 63 >> down & 1:
                        lines[6 * top + down][x] = palette[number]
    return lines


def test_sixels_show_every_pixel_in_its_colour() -> None:
    image = Image.radial_gradient("L").resize((90, 33)).convert("RGB")
    shown = [line for row in sixel_rows(image, 20) for line in drawn_by_sixels(row)]
    expected = image.quantize(colors=256, method=Image.Quantize.FASTOCTREE).convert("RGB")
    for y, line in enumerate(shown):
        for x, colour in enumerate(line):
            pixel = expected.getpixel((x, y))
            assert isinstance(pixel, tuple) and colour == tuple(round(level / 2.55) for level in pixel)
    assert len(shown) == 33


def test_a_row_is_drawn_over_blanks_where_the_cursor_is() -> None:
    assert strip().render(CONSOLE) == "\x1b7" + " " * 10 + "\x1b8\x1bPq~\x1b\\\x1b8\x1b[10C"
    assert strip().text == " " * 10


@pytest.mark.parametrize(
    ("cuts", "drawn"),
    [([10], [True]), ([6, 10], [True, False]), ([4, 10], [True, False]), ([3, 10], [False, False])],
)
def test_what_lies_over_a_row_leaves_blanks_of_it(cuts: list[int], drawn: list[bool]) -> None:
    pieces = strip().divide(cuts)
    assert [isinstance(piece, SixelStrip) for piece in pieces] == drawn
    assert [piece.cell_length for piece in pieces] == [
        end - start for start, end in zip([0, *cuts], cuts, strict=False)
    ]


def test_a_part_that_is_drawn_anew_draws_the_row() -> None:
    assert strip().crop(0, 10).cell_length == 10
    part = strip().crop(0, 2)
    assert isinstance(part, SixelStrip) and part.cell_length == 2
    assert not isinstance(strip().crop(2, 8), SixelStrip)
    assert strip().crop(2).cell_length == 8


MESSAGE = re.compile(r"\x1b_G([^;\x1b]*);?([^\x1b]*)\x1b\\")


def test_a_picture_is_sent_in_pieces_and_placed() -> None:
    image = Image.effect_noise((100, 100), 80).convert("RGB")
    sent = transmission(image, 0x123456, 12, 5)
    *pieces, (placement, nothing) = MESSAGE.findall(sent)
    assert MESSAGE.sub("", sent) == ""
    assert len(pieces) > 2 and all(len(payload) <= 4096 for _, payload in pieces)
    assert {keys for keys, _ in pieces[:-1]} == {"i=1193046,f=100,q=2,m=1"}
    assert pieces[-1][0] == "i=1193046,f=100,q=2,m=0"
    assert (placement, nothing) == ("a=p,U=1,i=1193046,c=12,r=5,q=2", "")
    file = io.BytesIO(base64.b64decode("".join(payload for _, payload in pieces)))
    with Image.open(file) as arrived:
        assert arrived.tobytes() == image.tobytes()


def test_a_picture_is_forgotten() -> None:
    assert deletion(7) == "\x1b_Ga=d,d=I,i=7,q=2\x1b\\"


def test_every_cell_tells_picture_row_and_column() -> None:
    strips = placeholders(0x123456, 3, 2)
    assert [strip.cell_length for strip in strips] == [3, 3]
    assert strips[1].text == "".join(
        f"\U0010eeee{NUMBER_CHARACTERS[1]}{NUMBER_CHARACTERS[column]}" for column in range(3)
    )
    (segment,) = strips[1]
    assert segment.style is not None and segment.style.color is not None
    assert segment.style.color.get_truecolor() == (0x12, 0x34, 0x56)
    assert strips[1].crop(1, 2).text == f"\U0010eeee{NUMBER_CHARACTERS[1]}{NUMBER_CHARACTERS[1]}"


def test_rows_and_columns_are_counted_as_others_do() -> None:
    """The sum is that of the table rowcolumn-diacritics.txt in kitty's documentation."""
    assert (NUMBER_CHARACTERS[:3], ord(NUMBER_CHARACTERS[-1])) == (["\u0305", "\u030d", "\u030e"], 0x1D244)
    assert (MAX_CELLS, sum(map(ord, NUMBER_CHARACTERS))) == (297, 4_545_336)
