"""Conversion of PDF, SVG and HEIC files to text or PNG images, with the libraries of the extra `tools`."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json

from mcpdesk.errors import HandlerError
from mcpdesk.jobs.output import Output, Stream

Form = Literal["pdf-text", "pdf", "svg", "heic"]
INSTALL = "pip install 'mcpdesk[tools]'"
PATIENCE_S = 30.0
MOST_BYTES = 40 << 20
"""Maximum bytes of the converted text or image."""
LIBRARIES: dict[Form, str] = {
    "pdf-text": "pypdfium2",
    "pdf": "pypdfium2",
    "svg": "resvg_py",
    "heic": "pillow_heif",
}
BY_HAND: dict[Form, str] = {
    "pdf-text": "download it and convert it, for example with `pdftotext -layout FILE.pdf -` (poppler-utils)",
    "pdf": "convert it with `pdftoppm -png FILE PAGE`",
    "svg": "convert it with `rsvg-convert FILE -o PICTURE.png`",
    "heic": "convert it with `magick FILE PICTURE.png`",
}
"""Advice for a conversion without the libraries, by form."""
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
LOOKED_AT = 4_096


class Converted(Struct, frozen=True):
    """Text or image converted from a file."""

    facts: dict[str, Any]
    """`title`, `pages` and `is_cut` of a text; `width`, `height` and `frames` of an image's file."""
    data: bytes


class StdoutBytes(Output):
    """Output that keeps stdout as bytes, up to a limit. stderr is kept as in any output."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.data = bytearray()
        self._most = most

    def add(self, stream: Stream, data: bytes) -> None:
        """Add data that was read from a stream."""
        if stream == "stdout":
            self.data += data[: self._most - len(self.data)]
        else:
            super().add(stream, data)


def form_of(data: bytes) -> Form | None:
    """Return the form of a file according to its first bytes; None if it is not a PDF, SVG or HEIC file."""
    head = data[:LOOKED_AT].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"<svg") or (head.startswith((b"<?xml", b"<!--", b"<!DOCTYPE")) and b"<svg" in head):
        return "svg"
    brands = data[8 : int.from_bytes(data[:4], "big")] if data[4:8] == b"ftyp" else b""
    if any(brand in brands[:LOOKED_AT] for brand in HEIC_BRANDS):
        return "heic"
    return None


async def converted(form: Form, data: bytes, environment: dict[str, str], what: str) -> Converted:
    """Convert a file to text or an image, in a separate process. `what` names the file in errors.

    Raises: HandlerError; if the library is missing, its message says what to install.
    """
    from mcpdesk.jobs.process import run

    name = form.partition("-")[0].upper()
    if find_spec(LIBRARIES[form]) is None:
        told = f"needs {LIBRARIES[form]}: {INSTALL}; or {BY_HAND[form]}"
        raise HandlerError(f"{what} is {'an' if form == 'svg' else 'a'} {name} file, which {told}")
    output = StdoutBytes(MOST_BYTES + 1)
    with tempfile.TemporaryDirectory(prefix="mcpdesk-file-", ignore_cleanup_errors=True) as place:
        file = Path(place) / f"file.{name.lower()}"
        await asyncio.to_thread(file.write_bytes, data)
        argv = [sys.executable, "-P", "-m", "mcpdesk.tools.file_reader", form, str(file)]
        try:
            ended = await run(
                argv, folder=Path(place), environment=environment, output=output, timeout_s=PATIENCE_S
            )
        except OSError as error:
            raise HandlerError(f"{what} cannot be read: no process for it: {error.strerror}") from error
    if ended.timed_out:
        raise HandlerError(f"{what} took longer than {PATIENCE_S:g} s to read; {BY_HAND[form]}")
    if ended.exit_code:
        lines = output.stream("stderr").strip().splitlines()
        reason = lines[-1][:300] if lines else f"reading it ended with {ended.exit_code}"
        raise HandlerError(f"{what} is a broken {name} file: {reason}")
    facts, _, made = bytes(output.data).partition(b"\n")
    if len(output.data) > MOST_BYTES:
        raise HandlerError(f"{what} becomes larger than {MOST_BYTES:,} bytes; {BY_HAND[form]}")
    return Converted(json.decode(facts), made)
