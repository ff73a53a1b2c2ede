"""Program that reads one PDF, SVG or HEIC file: `python -m mcpdesk.tools.file_reader FORM FILE`.

Files of strangers are read by large libraries in C and Rust. That is done in a process of its own, which may
crash, hang or grow without harm to the server. stdout gets a line of JSON and then the text or the picture.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_MEMORY = 4 << 30
"""Bytes of address space; libraries reserve more than they use."""
MOST_SECONDS = 30
"""Processor time."""
MOST_CHARACTERS = 5_000_000
"""Longest text of a PDF file."""
LONGEST_SIDE = 2_000
"""Pixels of a picture that is given."""
MOST_PIXELS = 100_000_000
PAGE_SCALE = 150 / 72
"""Pixels for a point of a page."""
Read = tuple[dict[str, Any], bytes]
"""Facts, and the content."""


def pdf_text(path: Path) -> Read:
    """The text of all pages; each page but an only one begins with its number."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        pages: list[str] = []
        size = 0
        for number in range(len(document)):
            page = document[number]
            text = page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
            page.close()
            size += len(text)
            if text:
                pages.append(f"[page {number + 1}]\n{text}" if len(document) > 1 else text)
            if size > MOST_CHARACTERS:
                break
        facts = {
            "title": document.get_metadata_dict().get("Title", "")[:500],
            "pages": len(document),
            "is_cut": size > MOST_CHARACTERS,
        }
        return facts, "\n\n".join(pages)[:MOST_CHARACTERS].encode("utf-8", "replace")


def pdf_picture(path: Path) -> Read:
    """The first page as a PNG picture."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        page = document[0]
        scale = min(PAGE_SCALE, LONGEST_SIDE / max(*page.get_size(), 1.0))
        return _png(page.render(scale=scale).to_pil(), len(document))


def svg_picture(path: Path) -> Read:
    """An SVG file as a PNG picture."""
    import resvg_py
    from PIL import Image

    data = bytes(resvg_py.svg_to_bytes(svg_path=str(path)))
    return _png(Image.open(io.BytesIO(data), formats=("png",)), 1)


def heic_picture(path: Path) -> Read:
    """A HEIC file as a PNG picture, as the camera was held."""
    import pillow_heif
    from PIL import Image, ImageOps

    pillow_heif.register_heif_opener()
    image = Image.open(path, formats=("heif",))
    return _png(ImageOps.exif_transpose(image), getattr(image, "n_frames", 1))


def _png(image: Any, frames: int) -> Read:
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise ValueError(f"it unfolds to {width} x {height} pixels; {MOST_PIXELS:,} are allowed")
    image = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGBA")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    target = io.BytesIO()
    image.save(target, "PNG", compress_level=1)
    return {"width": width, "height": height, "frames": frames}, target.getvalue()


FORMS: dict[str, Callable[[Path], Read]] = {
    "pdf-text": pdf_text,
    "pdf": pdf_picture,
    "svg": svg_picture,
    "heic": heic_picture,
}


def _limit() -> None:
    if sys.platform != "win32":
        import resource

        for kind, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, MOST_SECONDS)):
            resource.setrlimit(kind, (most, most))


def main(form: str, path: str) -> int:
    """Read one file; the exit code is 1 if it cannot be read, and stderr has the reason."""
    from PIL import Image

    _limit()
    Image.MAX_IMAGE_PIXELS = None  # we look ourselves
    try:
        facts, data = FORMS[form](Path(path))
    except Exception as error:  # libraries raise whatever a stranger's bytes lead to
        sys.stderr.write(" ".join(f"{error}".split())[:300] or type(error).__name__)
        return 1
    sys.stdout.buffer.write(json.dumps(facts).encode() + b"\n" + data)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
