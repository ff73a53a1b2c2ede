"""Program that reads one PDF, SVG or HEIC file.

Usage: `python -m mcpdesk.tools.file_reader FORM FILE MEMORY_BYTES SECONDS`. FORM is a key of `FORMS`.

Large libraries in C and Rust parse untrusted files. A separate process may crash, hang or use too much memory
without harm to the server. MEMORY_BYTES limits the address space of this program, and SECONDS its processor
time. The program writes a line of JSON to stdout, and then the text or the image.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

OUT_OF_MEMORY = 3
"""Exit code if a file needs more memory than allowed."""
MAX_CHARACTERS = 5_000_000
"""Maximum characters of the text of a PDF file."""
MAX_SIDE_PIXELS = 2_000
"""Maximum side of an image in pixels."""
MAX_PIXELS = 100_000_000
PAGE_SCALE = 150 / 72
"""Pixels per point of a page."""
FileContent = tuple[dict[str, Any], bytes]
"""Facts about a file, and its text or image as bytes."""

_FILE_ADDRESS = re.compile(r"""([\w.:-]*href)\s*=\s*(?:"(?!#|data:)[^"]*"|'(?!#|data:)[^']*')""", re.I)
"""`href` attribute whose value is neither a fragment (`#...`) nor a `data:` URL."""
_ENTITY = re.compile(r"""<!ENTITY(?:"[^"]*"|'[^']*'|[^"'>])*""")


def pdf_text(path: Path) -> FileContent:
    """Return the text of all pages. If there are several pages, the text of each page starts with the page
    number.
    """
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
            if size > MAX_CHARACTERS:
                break
        facts = {
            "title": document.get_metadata_dict().get("Title", "")[:500],
            "pages": len(document),
            "is_cut": size > MAX_CHARACTERS,
        }
        return facts, "\n\n".join(pages)[:MAX_CHARACTERS].encode("utf-8", "replace")


def pdf_picture(path: Path) -> FileContent:
    """Render the first page as a PNG image."""
    import pypdfium2

    with pypdfium2.PdfDocument(path) as document:
        page = document[0]
        scale = min(PAGE_SCALE, MAX_SIDE_PIXELS / max(*page.get_size(), 1.0))
        return _png(page.render(scale=scale).to_pil(), len(document))


def svg_picture(path: Path) -> FileContent:
    """Render an SVG file as a PNG image."""
    import resvg_py
    from PIL import Image

    data = bytes(resvg_py.svg_to_bytes(svg_string=_without_files(path.read_text("utf-8-sig"))))
    return _png(Image.open(io.BytesIO(data), formats=("png",)), 1)


def _without_files(svg: str) -> str:
    """Return an SVG document without the addresses of other files, which the library would read.

    Raises: ValueError for an entity that could hide such an address.
    """
    for entity in _ENTITY.finditer(svg):
        if set(entity[0][len("<!ENTITY") :]) & set("<&%"):
            raise ValueError("it has an entity with markup")
    return _FILE_ADDRESS.sub(r"\1=''", svg)


def heic_picture(path: Path) -> FileContent:
    """Convert a HEIC file to a PNG image, rotated as its metadata says."""
    import pillow_heif
    from PIL import Image, ImageOps

    pillow_heif.register_heif_opener()
    image = Image.open(path, formats=("heif",))
    return _png(ImageOps.exif_transpose(image), getattr(image, "n_frames", 1))


def _png(image: Any, frames: int) -> FileContent:
    """Encode an image as PNG. `frames` is the number of pages or images in the file."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ValueError(f"it decodes to {width} x {height} pixels; {MAX_PIXELS:,} are allowed")
    image = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGBA")
    image.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return {"width": width, "height": height, "frames": frames}, buffer.getvalue()


FORMS: dict[str, Callable[[Path], FileContent]] = {
    "pdf-text": pdf_text,
    "pdf": pdf_picture,
    "svg": svg_picture,
    "heic": heic_picture,
}


def _limit_resources(memory_bytes: int, seconds: int) -> None:
    """Limit the address space and the processor time of this process, if the system supports this."""
    if sys.platform == "win32":
        return
    import resource

    # At the soft limit of processor time, SIGXCPU ends the process. The parent recognizes this signal.
    for limit_kind, soft, hard in (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_CPU, seconds, seconds + 1),
    ):
        current_hard = resource.getrlimit(limit_kind)[1]  # only root may raise this limit
        if current_hard != resource.RLIM_INFINITY:
            soft, hard = min(soft, current_hard), min(hard, current_hard)
        with suppress(ValueError, OSError):  # macOS has no limit of address space
            resource.setrlimit(limit_kind, (soft, hard))


def main(form: str, path: str, memory_bytes: str, seconds: str) -> int:
    """Read one file. Return the exit code. It is not 0 if the file cannot be read. The reason is then printed
    on stderr.
    """
    from PIL import Image

    _limit_resources(int(memory_bytes), int(seconds))
    Image.MAX_IMAGE_PIXELS = None  # the program itself checks the size
    try:
        facts, data = FORMS[form](Path(path))
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # libraries raise any exception for untrusted data
        sys.stderr.write(" ".join(f"{error}".split())[:300] or type(error).__name__)
        return 1
    sys.stdout.buffer.write(json.dumps(facts).encode() + b"\n" + data)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
