"""ReadImage: an image from a file, reduced to a size that models accept."""

from __future__ import annotations

import asyncio
import io
import stat
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from mcpdesk.errors import HandlerError
from mcpdesk.protocol import content
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import tool
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.tools import check_libraries
from mcpdesk.tools.conversion import ConvertedFile, Form, converted, form_of
from mcpdesk.tools.icon_files import check_icon

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 20_000_000
"""Maximum bytes of the file."""
MAX_SIDE_PIXELS = 2_000
"""Maximum width and height in pixels. A larger image is scaled down."""
MAX_PIXELS = 100_000_000
"""Maximum number of pixels of an image. An image of this size takes up to 400 MB of memory."""
READABLE_FORMATS = ("png", "jpeg", "gif", "webp", "bmp", "tiff", "avif", "ico")
"""Formats whose decoders may be used on untrusted files."""
FORMAT_NAMES = "PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF and ICO"
MORE_FORMAT_NAMES = "and, with the extra `tools`, PDF, SVG and HEIC"
MAX_RETURNED_BYTES = 3_750_000
"""Maximum bytes of the returned image: 5 MB in base64, the limit of model APIs."""
SCALE_STEP = 0.75
"""Factor by which the sides are multiplied each time an image is still too large."""
CONVERT_HINT = "convert another format with `magick FILE PICTURE.png`"
ACCEPTED_FORMATS = frozenset({"png", "jpeg", "gif", "webp"})
"""Formats that models accept directly. Other formats are converted to PNG."""


class Picture(Struct, frozen=True):
    """Image in the file, and the returned image.

    Attributes:
        format: png, jpeg, gif, webp, bmp, tiff, avif, ico, pdf, svg or heic
        width: Pixels; for a PDF or SVG file, those of the rendered image
        frames: Number of frames, more than 1 if it is animated; pages of a PDF file
        mime_type: Type of the returned image
        given_width: Pixels of the returned image; smaller than width if it was scaled down
        given_bytes: Size of the returned image
    """

    file_path: str
    format: str
    bytes: int
    width: int
    height: int
    frames: int
    mime_type: str
    given_width: int
    given_height: int
    given_bytes: int


@tool(
    name="ReadImage",
    title="Read an image",
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
)
async def read_image(file_path: str, ctx: Context) -> ToolResult[Picture]:
    """Read an image file and display it visually: PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF or ICO, at most
    20 MB. With additional libraries installed, also HEIC, SVG and the first page of a PDF file. An image with
    a side of more than 2000 pixels, or of more than 3.75 MB, is scaled down; if it is animated, only its
    first frame is returned then.

    Args:
        file_path: The absolute path to the image file
    """
    check_libraries("ReadImage")
    data = await asyncio.to_thread(_read_bytes, file_path)
    form = form_of(data)
    if form is None:
        picture, data = await asyncio.to_thread(_read_picture, file_path, data)
    else:
        conversion = await converted(form, data, ctx.environment, f"file_path: {file_path}")
        picture, data = await asyncio.to_thread(_converted_picture, file_path, form, conversion, len(data))
    return ToolResult((content.text(_description(picture)), content.image(data, picture.mime_type)), picture)


def _converted_picture(
    file_path: str, form: Form, conversion: ConvertedFile, size: int
) -> tuple[Picture, bytes]:
    """Return the image that was converted from a PDF, SVG or HEIC file."""
    image, data, mime_type = _encode_small(_open_image(file_path, conversion.data), "png")
    width, height, frames = (conversion.facts[name] for name in ("width", "height", "frames"))
    return Picture(file_path, form, size, width, height, frames, mime_type, *image.size, len(data)), data


def _read_picture(file_path: str, data: bytes) -> tuple[Picture, bytes]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # decoders warn about odd metadata
        image = _open_image(file_path, data)
        image_format = _format_name(image)
        try:
            return _decode(file_path, image_format, image, data)
        except HandlerError:
            raise
        except Exception as error:  # decoders raise any exception for untrusted data
            raise HandlerError(
                f"file_path: {file_path} is a broken {image_format.upper()} file: {error}"
            ) from error


def _read_bytes(file_path: str) -> bytes:
    """Return the content of the file. Raises: HandlerError if it cannot be read or is too large."""
    if "\0" in file_path or not Path(file_path).is_absolute():
        raise HandlerError("file_path: must be an absolute path, like /home/ada/chart.png")
    path = Path(file_path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise HandlerError(f"file_path: {file_path} is not a file")
        if status.st_size > MAX_BYTES:
            raise HandlerError(
                f"file_path: {file_path} has {status.st_size:,} bytes; at most {MAX_BYTES:,} are allowed"
            )
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise HandlerError(f"file_path: {file_path[:500]} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:  # system files may contain more than their size says
        raise HandlerError(f"file_path: {file_path} has more than the {MAX_BYTES:,} bytes that are allowed")
    return data


def _open_image(file_path: str, data: bytes) -> Image:
    """Open an image and read its header, regardless of the file name.

    Raises: HandlerError for other files.
    """
    from PIL import Image

    try:
        check_icon(data, MAX_PIXELS)
    except ValueError as error:
        raise HandlerError(f"file_path: {file_path} has {error}") from None
    try:
        return Image.open(io.BytesIO(data), formats=READABLE_FORMATS)
    except Image.DecompressionBombError:  # Pillow has a limit of its own, which hosted code may change
        raise HandlerError(
            f"file_path: {file_path} decodes to too many pixels; {MAX_PIXELS:,} are allowed"
        ) from None
    except Exception as error:  # decoders raise any exception for untrusted data
        reason = "is not a readable image, or is broken"
        formats = f"supported: {FORMAT_NAMES}, {MORE_FORMAT_NAMES}"
        raise HandlerError(f"file_path: {file_path} {reason}; {formats}; {CONVERT_HINT}") from error


def _format_name(image: Image) -> str:
    """Return the name of the format in lower case. An MPO file, which contains several JPEG images of a
    camera, counts as JPEG.
    """
    image_format = (image.format or "").lower()
    return "jpeg" if image_format == "mpo" else image_format


def _decode(file_path: str, image_format: str, image: Image, data: bytes) -> tuple[Picture, bytes]:
    """Return the facts about an opened image, and the data to return: the file itself if models accept it."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise HandlerError(
            f"file_path: {file_path} decodes to {width} x {height} pixels; {MAX_PIXELS:,} are allowed"
        )
    frames = getattr(image, "n_frames", 1)
    is_scaled = max(width, height) > MAX_SIDE_PIXELS
    if is_scaled:
        image.draft(image.mode, (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    image.load()
    if is_scaled:
        image.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
        image = _rotate_upright(image)
    image_data, mime_type = data, f"image/{image_format}"
    if is_scaled or image_format not in ACCEPTED_FORMATS or len(data) > MAX_RETURNED_BYTES:
        image, image_data, mime_type = _encode_small(
            image if is_scaled else _rotate_upright(image), image_format
        )
    picture = Picture(
        file_path, image_format, len(data), width, height, frames, mime_type, *image.size, len(image_data)
    )
    return picture, image_data


def _rotate_upright(image: Image) -> Image:
    """Rotate an image by the orientation in its metadata, because the new file does not contain metadata."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # odd metadata must not prevent showing the image
        return image


def _encode_small(image: Image, image_format: str) -> tuple[Image, bytes, str]:
    """Encode an image in at most `MAX_RETURNED_BYTES`: in its format, as JPEG if it is opaque, or with
    fewer pixels. Return the new image, the encoded bytes and their MIME type.
    """
    encoded, mime_type = _encode(image, image_format)
    if len(encoded) > MAX_RETURNED_BYTES and not image.has_transparency_data:
        image = image if image.mode in ("L", "RGB") else image.convert("RGB")
        encoded, mime_type = _encode(image, "jpeg")
    while len(encoded) > MAX_RETURNED_BYTES and max(image.size) > 1:
        image = image.resize((max(1, int(image.width * SCALE_STEP)), max(1, int(image.height * SCALE_STEP))))
        encoded, mime_type = _encode(image, "jpeg" if mime_type == "image/jpeg" else image_format)
    return image, encoded, mime_type


def _encode(image: Image, image_format: str) -> tuple[bytes, str]:
    buffer = io.BytesIO()
    if image_format == "jpeg":
        image.save(buffer, "JPEG", quality=90)
        return buffer.getvalue(), "image/jpeg"
    picture = image if image.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else image.convert("RGBA")
    picture.save(buffer, "PNG")
    return buffer.getvalue(), "image/png"


def _description(picture: Picture) -> str:
    parts = [f"{picture.file_path}: {picture.format.upper()}, {picture.width} x {picture.height} pixels"]
    parts.append(f"{picture.bytes:,} bytes")
    unit = "page" if picture.format == "pdf" else "frame"
    if picture.frames > 1:
        parts.append(f"{picture.frames} {unit}s")
    text = ", ".join(parts)
    if picture.format == "pdf" and picture.frames > 1:
        return f"{text}. The first page is returned."
    if (picture.given_width, picture.given_height) == (picture.width, picture.height):
        if picture.given_bytes == picture.bytes or picture.bytes <= MAX_RETURNED_BYTES:
            return text
        return f"{text}. Returned as {picture.mime_type} of {picture.given_bytes:,} bytes."
    frame_text = "; the first frame" if picture.frames > 1 else ""
    return f"{text}. Scaled down to {picture.given_width} x {picture.given_height}{frame_text}."
