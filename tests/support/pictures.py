"""Images for tests, with known pixels."""

from __future__ import annotations

import base64
import io

from PIL import Image

RED, BLUE = (255, 0, 0), (0, 0, 255)


def packed(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """An image as a file."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def plain(width: int, height: int, colour: int | tuple[int, ...] = RED, mode: str = "RGB") -> bytes:
    """A PNG of one colour."""
    return packed(Image.new(mode, (width, height), colour))


def two_halves(width: int = 40, height: int = 40) -> Image.Image:
    """An image, red on the left and blue on the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (width // 2, 0, width, height))
    return image


def encoded(data: bytes) -> str:
    """Base64 text of the data, as in a message."""
    return base64.b64encode(data).decode()
