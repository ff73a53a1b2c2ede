"""Check of an ICO file that must happen before Pillow opens the file.

Pillow decodes an image of an ICO file already when it opens the file. The sizes in the directory of the file
may be wrong, so a small file can contain an image that needs all memory.
"""

from __future__ import annotations

import io

SIGNATURE = b"\0\0\1\0"
MAX_IMAGES = 32
"""Maximum number of images in an ICO file."""


def check_icon(data: bytes, max_pixels: int) -> None:
    """Check that no image of an ICO file has more than `max_pixels`. Other files are not checked.

    Raises: ValueError with the reason.
    """
    if not data.startswith(SIGNATURE):
        return
    from PIL import Image

    image_count = int.from_bytes(data[4:6], "little")
    if image_count > MAX_IMAGES:
        raise ValueError(f"{image_count:,} images in one file; at most {MAX_IMAGES} are allowed")
    for number in range(image_count):
        offset = int.from_bytes(data[18 + 16 * number : 22 + 16 * number], "little")
        try:
            with Image.open(io.BytesIO(data[offset:]), formats=("PNG", "DIB")) as image:
                width, height = image.size
        except Image.DecompressionBombError:  # Pillow has a higher limit of its own
            raise ValueError(f"an image with too many pixels; at most {max_pixels:,} are allowed") from None
        except Exception:  # Pillow's decoder of ICO files cannot read this image either
            continue
        if width * height > max_pixels:
            raise ValueError(f"{width} x {height} pixels; at most {max_pixels:,} are allowed")
