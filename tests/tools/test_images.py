"""ReadImage: pictures are shown, whatever their name; other files are refused with the reason."""

from __future__ import annotations

import base64
import io
import os
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image
from PIL.IcoImagePlugin import IcoImageFile

from mcpdesk.errors import HandlerError
from mcpdesk.tools import conversion, images
from tests.tools.support import ToolContext, fields, pdf_file, use

KEPT = ("png", "jpeg", "gif", "webp")
FORMATS = (*KEPT, "bmp", "tiff", "avif")


def save(path: Path, format: str = "png", size: tuple[int, int] = (30, 20), mode: str = "RGB") -> Path:
    Image.new(mode, size).save(path, format)
    return path


async def read(path: Path | str) -> tuple[dict[str, Any], str, Image.Image]:
    """Facts, text and picture of the result."""
    result = await use("ReadImage", ToolContext(), file_path=str(path))
    told, shown = result.content
    picture = Image.open(io.BytesIO(base64.b64decode(shown["data"])))
    assert Image.MIME[picture.format or ""] == shown["mimeType"] == fields(result)["mime_type"]
    assert picture.size == (fields(result)["given_width"], fields(result)["given_height"])
    return fields(result), told["text"], picture


@pytest.mark.parametrize("format", FORMATS)
async def test_a_picture_is_known_by_its_bytes_and_not_by_its_name(tmp_path: Path, format: str) -> None:
    facts, text, picture = await read(save(tmp_path / "notes.txt", format))
    assert (facts["format"], facts["width"], facts["height"], facts["frames"]) == (format, 30, 20, 1)
    assert f"{format.upper()}, 30 x 20 pixels" in text and "Scaled" not in text
    assert picture.format == (format.upper() if format in KEPT else "PNG")


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
async def test_a_large_picture_is_scaled_down(tmp_path: Path, format: str) -> None:
    facts, text, picture = await read(save(tmp_path / "big", format, (3000, 1500)))
    assert picture.size == (2000, 1000)
    assert (facts["width"], facts["height"]) == (3000, 1500)
    assert text.endswith("Scaled down to 2000 x 1000.")


async def test_an_icon_is_read(tmp_path: Path) -> None:
    facts, text, picture = await read(save(tmp_path / "icon", "ico", (64, 64)))
    assert (facts["format"], picture.format, picture.size) == (
        "ico",
        "PNG",
        (64, 64),
    ) and "ICO, 64 x 64" in text


def icon_of(inner: bytes) -> bytes:
    """Return an ICO file that contains one image, whose directory says 16 x 16 pixels."""
    directory = (
        bytes((16, 16, 0, 0, 1, 0, 8, 0)) + len(inner).to_bytes(4, "little") + (22).to_bytes(4, "little")
    )
    return bytes((0, 0, 1, 0, 1, 0)) + directory + inner


async def test_an_icon_with_an_enormous_picture_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    icon = tmp_path / "icon"
    icon.write_bytes(icon_of(save(tmp_path / "inner", "png", (300, 200)).read_bytes()))
    monkeypatch.setattr(images, "MAX_PIXELS", 50_000)
    monkeypatch.setattr(IcoImageFile, "load", lambda self: pytest.fail("the icon was decoded"))
    with pytest.raises(HandlerError, match=r"icon has 300 x 200 pixels; at most 50,000 are allowed"):
        await read(icon)


def bitmap_header(width: int, height: int, bits: int, compression: int) -> bytes:
    """Return the header of a bitmap (DIB) in an ICO file."""
    return struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (bitmap_header(40_000, 40_000, 32, 0), "has an image with too many pixels; at most 100,000,000 are"),
        (bitmap_header(16, 32, 99, 0), "is not a readable image, or is broken"),
        (bitmap_header(16, 32, 32, 77), "is not a readable image, or is broken"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x01IHDRxxxxx", "is not a readable image, or is broken"),
    ],
)
async def test_a_broken_image_in_an_icon_is_an_error_of_the_file(
    inner: bytes, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 89_478_485)  # other tests run a reader that removes it
    (tmp_path / "icon").write_bytes(icon_of(inner))
    with pytest.raises(HandlerError, match=f"icon {reason}"):
        await read(tmp_path / "icon")


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "mime_type"), [("RGB", "image/jpeg"), ("RGBA", "image/png")])
async def test_what_is_given_has_no_more_bytes_than_models_take(
    tmp_path: Path, mode: str, mime_type: str
) -> None:
    size = (1200, 1200)
    noise = Random(7).randbytes(size[0] * size[1] * len(mode))
    Image.frombytes(mode, size, noise).save(tmp_path / "noise.png")
    assert (tmp_path / "noise.png").stat().st_size > 3_750_000
    facts, text, _ = await read(tmp_path / "noise.png")
    assert facts["given_bytes"] <= 3_750_000 and facts["mime_type"] == mime_type
    assert ("Returned as image/jpeg" in text) == (mode == "RGB") and ("Scaled down" in text) == (
        mode == "RGBA"
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            b"%PDF-1.7",
            r"a PDF file, which needs pypdfium2: pip install 'mcpdesk\[tools\]'; or .*pdftoppm -png",
        ),
        (b'<svg xmlns="x"/>', r"is an SVG file, which needs resvg_py: pip install .*rsvg-convert"),
        (b'<?xml version="1.0"?><svg xmlns="x"/>', "is an SVG file"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", r"needs pillow_heif: pip install .*magick FILE PICTURE.png"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "needs pillow_heif"),
        (b"8BPS\0\1", "magick FILE PICTURE.png"),
    ],
)
async def test_what_cannot_be_read_is_told_with_the_way_to_convert_it(
    tmp_path: Path, data: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda name: None)
    (tmp_path / "other").write_bytes(data)
    with pytest.raises(HandlerError, match=told):
        await use("ReadImage", ToolContext(), file_path=str(tmp_path / "other"))


async def test_without_its_library_the_tool_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "chart.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(HandlerError, match=r"^ReadImage needs pillow, .*: pip install 'mcpdesk\[tools\]'$"):
        await use("ReadImage", ToolContext(), file_path=str(path))


@pytest.mark.process
async def test_the_first_page_of_a_pdf_file_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "tides").write_bytes(pdf_file("Spring tide", "Neap tide"))
    facts, text, picture = await read(tmp_path / "tides")
    assert (facts["format"], facts["frames"], picture.size) == ("pdf", 2, (625, 417))
    assert "PDF, 625 x 417 pixels" in text and text.endswith("2 pages. The first page is returned.")
    darkest, lightest = picture.convert("L").getextrema()
    assert darkest == 0 and lightest == 255


@pytest.mark.process
@pytest.mark.parametrize(
    "image",
    [
        '<image width="4" height="4" href="{path}"/>',
        "<image width='4' height='4' x:href = '{path}'/>",
        '<image width="4" height="4" href="&#47;{path}"/>',
        '<image width="4" height="4" href="file://{path}"/>',
    ],
)
async def test_an_svg_file_shows_no_other_file(image: str, tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    Image.new("RGB", (4, 4), "#ff0000").save(tmp_path / "other.png")
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:x="http://www.w3.org/1999/xlink" width="4" height="4">'
    )
    file = tmp_path / "image.svg"
    file.write_text(head + image.format(path=tmp_path / "other.png") + "</svg>")
    _, _, picture = await read(file)
    assert picture.convert("RGBA").getpixel((1, 1)) == (0, 0, 0, 0)


@pytest.mark.process
async def test_an_svg_file_with_markup_in_an_entity_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py")
    entity = f"<image width='4' height='4' hr&#101;f='{tmp_path / 'other.png'}'/>"
    (tmp_path / "image.svg").write_text(
        f'<!DOCTYPE svg [<!ENTITY e "{entity}">]><svg xmlns="http://www.w3.org/2000/svg">&e;</svg>'
    )
    with pytest.raises(HandlerError, match="an entity with markup"):
        await read(tmp_path / "image.svg")


@pytest.mark.process
async def test_an_svg_file_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "square.svg").write_text(
        '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
        '<rect width="40" height="20" fill="#ff0000"/></svg>'
    )
    facts, text, picture = await read(tmp_path / "square.svg")
    assert (facts["format"], picture.size) == ("svg", (40, 20)) and "SVG, 40 x 20 pixels" in text
    assert picture.convert("RGB").getpixel((20, 10)) == (255, 0, 0)


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="has no such limits")
def test_a_lower_limit_of_the_machine_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "square.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="4" height="2"/>')
    reader = f"exec {sys.executable} -m mcpdesk.tools.file_reader svg {tmp_path / 'square.svg'} {4 << 30} 30"
    command = f"ulimit -v 3000000; ulimit -t 20; {reader}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.startswith(b'{"width": 4, "height": 2')


@pytest.mark.process
async def test_a_picture_of_a_phone_is_read(tmp_path: Path) -> None:
    import pillow_heif

    heif = pillow_heif.from_pillow(Image.new("RGB", (2400, 120), "blue"))
    heif.save(tmp_path / "photo.heic")
    facts, text, picture = await read(tmp_path / "photo.heic")
    assert (facts["format"], facts["width"], facts["height"]) == ("heic", 2400, 120)
    assert picture.size == (2000, 100) and text.endswith("Scaled down to 2000 x 100.")
    red, _, blue = picture.convert("RGB").getpixel((500, 50))  # type: ignore[misc]
    assert blue > 200 > red


@pytest.mark.process
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"%PDF-1.7 and no more", "is a broken PDF file: "),
        (b"<svg and no more", "is a broken SVG file: "),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "is a broken HEIC file: "),
        (
            b'<svg xmlns="http://www.w3.org/2000/svg" width="60000" height="60000"/>',
            "needs more memory to read than the 4.3 GB",
        ),
    ],
)
async def test_a_broken_file_of_these_forms_costs_only_the_call(
    tmp_path: Path, data: bytes, told: str
) -> None:
    (tmp_path / "broken").write_bytes(data)
    with pytest.raises(HandlerError, match=told):
        await use("ReadImage", ToolContext(), file_path=str(tmp_path / "broken"))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
async def test_pictures_of_any_kind_of_pixel_are_scaled(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (2400, 10)).save(tmp_path / "odd", "jpeg" if mode == "CMYK" else "png")
    _, _, picture = await read(tmp_path / "odd")
    assert picture.size[0] == 2000


async def test_a_picture_that_is_scaled_stands_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = Image.new("RGB", (3000, 1500), "red")
    picture.paste("blue", (1500, 0, 3000, 1500))
    picture.save(tmp_path / "photo.jpg", exif=exif)
    _, text, given = await read(tmp_path / "photo.jpg")
    assert given.size == (1000, 2000) and text.endswith("Scaled down to 1000 x 2000.")
    top, bottom = (given.getpixel((500, y)) for y in (200, 1800))
    assert isinstance(top, tuple) and isinstance(bottom, tuple) and top[0] > 200 and bottom[2] > 200


async def test_an_animated_picture_says_so(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (2200, 10), colour) for colour in ("red", "green", "blue")]
    frames[0].save(tmp_path / "big.gif", save_all=True, append_images=frames[1:])
    facts, text, picture = await read(tmp_path / "big.gif")
    assert facts["frames"] == 3 and getattr(picture, "n_frames", 1) == 1
    assert "3 frames" in text and text.endswith("Scaled down to 2000 x 9; the first frame.")


UNREADABLE = "is not a readable image, or is broken"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
async def test_a_picture_that_is_cut_off_is_broken(tmp_path: Path, format: str) -> None:
    path = tmp_path / "cut"
    Image.effect_noise((400, 400), 90).convert("RGB").save(path, format)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(HandlerError, match=f"is a broken {format.upper()} file|{UNREADABLE}"):
        await read(path)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format", FORMATS)
async def test_a_picture_with_wrong_bytes_is_read_or_broken(tmp_path: Path, format: str) -> None:
    path, random = tmp_path / "odd", Random(5)
    frames = [Image.new("RGB", (9, 9), (shade, 0, 0)) for shade in (0, 90, 200)]
    more: dict[str, Any] = {"save_all": True, "append_images": frames[1:]} if format == "gif" else {}
    frames[0].save(path, format, **more)
    whole = path.read_bytes()
    for _ in range(200):
        data = bytearray(whole[: random.randrange(20, len(whole) + 1)])
        data[random.randrange(12, len(data))] = random.choice((0, 255, random.randrange(256)))
        path.write_bytes(data)
        try:
            images._read_picture(str(path), bytes(data))
        except HandlerError as error:
            assert any(told in str(error) for told in ("is a broken", UNREADABLE, "decodes to"))


async def test_a_file_that_has_more_than_it_says_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("/proc/self/smaps")  # its size according to the system is 0
    monkeypatch.setattr(images, "MAX_BYTES", 100)
    with pytest.raises(HandlerError, match="has more than the 100 bytes that are allowed"):
        await read(path)


@pytest.mark.parametrize("data", [b"", b"hello", b"RIFF1234WAVE", b"\0\0\0\x18ftypmp42"])
async def test_what_is_no_picture_is_told_what_can_be_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file.png").write_bytes(data)
    with pytest.raises(
        HandlerError,
        match=r"is not a readable image, .* supported: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and ICO",
    ):
        await read(tmp_path / "file.png")


@pytest.mark.parametrize("path", ["", "chart.png", "../chart.png", "~/a.png", "file:///a.png", "/a\0.png"])
async def test_only_absolute_paths_are_taken(path: str) -> None:
    with pytest.raises(HandlerError, match="file_path: must be an absolute path"):
        await read(path)


async def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(HandlerError, match="is not a file"):
            await read(path)


async def test_a_missing_file_and_an_endless_name_are_named(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match=r"missing\.png cannot be read: No such file"):
        await read(tmp_path / "missing.png")
    with pytest.raises(HandlerError, match="cannot be read: File name too long"):
        await read("/" + "x" * 100_000)


async def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(20_000_001)
    with pytest.raises(HandlerError, match="has 20,000,001 bytes; at most 20,000,000"):
        await read(tmp_path / "huge.png")


async def test_a_bomb_is_not_unfolded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 10_000)
    with pytest.raises(HandlerError, match="decodes to 200 x 100 pixels; 10,000 are allowed"):
        await read(save(tmp_path / "bomb.png", size=(200, 100)))


async def test_limit_of_pillow_for_hosted_code_is_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(tmp_path / "picture.png", size=(200, 100))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 15_000)  # Pillow warns, and refuses twice as many pixels
    with warnings.catch_warnings(action="ignore"):
        assert (await read(path))[0]["width"] == 200
    assert Image.MAX_IMAGE_PIXELS == 15_000
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5_000)
    with pytest.raises(HandlerError, match="decodes to too many pixels; 100,000,000 are allowed"):
        await read(path)
    assert Image.MAX_IMAGE_PIXELS == 5_000
