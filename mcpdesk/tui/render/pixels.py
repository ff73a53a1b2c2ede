"""Pictures of strangers, looked at and shrunk within bounds. Pillow is imported at the first one.

Everything here takes its time and belongs into a thread that is not the screen's.
"""

from __future__ import annotations

import base64
import binascii
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "ICO")
"""The readers that get a stranger's bytes; some of the library's others start programs."""
MAX_BYTES = 20_000_000
MAX_PIXELS = 40_000_000
"""What a picture may unfold to."""
_ORIENTATION = 0x0112
_SIDEWAYS = frozenset({5, 6, 7, 8})
"""Orientations in which a camera lay on its side."""
_log = logging.getLogger(__name__)

Colour: TypeAlias = tuple[int, int, int]


class PictureError(Exception):
    """The bytes are no picture that can be drawn; the message says why."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a picture says of itself."""

    format: str
    width: int
    height: int
    is_animated: bool = False

    def __str__(self) -> str:
        told = f"{self.width} x {self.height} {self.format}"
        return f"{told}, the first frame of an animation" if self.is_animated else told


def unpacked(encoded: str) -> bytes:
    """The bytes of a picture that came as base64.

    Raises: PictureError.
    """
    if len(encoded) // 4 * 3 > MAX_BYTES + 3:
        raise PictureError(f"{len(encoded) // 4 * 3:,} bytes; at most {MAX_BYTES:,} are drawn")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise PictureError("not valid base64") from None


def look(data: bytes) -> Facts:
    """Size and format, the pixels not decoded.

    Raises: PictureError, also for more pixels than are drawn.
    """
    with _opened(data) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise PictureError(f"{width} x {height} pixels; at most {MAX_PIXELS:,} are drawn")
        if _orientation(image) in _SIDEWAYS:
            width, height = height, width
        return Facts(str(image.format), width, height, bool(getattr(image, "is_animated", False)))


def shrunk(data: bytes, size: tuple[int, int], room: tuple[int, int], background: Colour) -> Image:
    """The picture, its first frame upright, in the given size at the top left of a larger room.

    `background` shines through it and fills the rest.

    Raises: PictureError.
    """
    from PIL import Image, ImageOps

    with _opened(data) as image:
        longest = max(size)
        image.draft("RGB", (longest, longest))  # a JPEG need not unfold any further
        image.load()
        plain = _plain(image)
        if (factor := max(image.size) // (2 * longest)) > 1:
            plain = plain.reduce(factor)
        upright = ImageOps.exif_transpose(plain) if _orientation(image) > 1 else plain
        grows = max(upright.size) < longest
        method = Image.Resampling.NEAREST if grows else Image.Resampling.BICUBIC
        canvas = Image.new("RGBA", room, (*background, 255))
        canvas.alpha_composite(upright.resize(size, method).convert("RGBA"))
        return canvas.convert("RGB")


def _plain(image: Image) -> Image:
    """In a mode that can be resized and has the colours the eye sees."""
    if image.mode in ("L", "LA", "RGB", "RGBA"):
        return image
    if image.mode.startswith("I"):
        return image.convert("I").point(lambda level: level * (1 / 256)).convert("L")
    return image.convert("RGBA")


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # odd metadata is no reason not to draw
        return 1


@contextmanager
def _opened(data: bytes) -> Iterator[Image]:
    """Whatever a reader stumbles over in a stranger's bytes is told in one way."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # we look ourselves, before anything unfolds
    warnings.filterwarnings("ignore", module=r"PIL\.")  # of odd metadata
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            yield image
    except PictureError:
        raise
    except UnidentifiedImageError:
        raise PictureError(f"not one of {', '.join(FORMATS)}") from None
    except Exception as error:  # decoders raise whatever they like at bytes of strangers
        _log.debug("a picture that cannot be read", exc_info=True)
        raise PictureError(f"broken: {error}") from error
