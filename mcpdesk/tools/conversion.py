"""Conversion of PDF, SVG and HEIC files to text or PNG images, with the libraries of the extra `tools`."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct, json

from mcpdesk.byte_size import size_text
from mcpdesk.errors import HandlerError
from mcpdesk.jobs.output import Output, Stream
from mcpdesk.tools import INSTALL
from mcpdesk.tools.file_reader import OUT_OF_MEMORY

if TYPE_CHECKING:
    from mcpdesk.jobs.process import ProgramEnd

Form = Literal["pdf-text", "pdf", "svg", "heic"]
MAX_AT_ONCE = 2
"""Maximum number of conversions that run at once on a loop. Further conversions wait."""
MAX_BYTES = 40 << 20
"""Maximum bytes of the converted text or image."""
LIBRARIES: dict[Form, str] = {
    "pdf-text": "pypdfium2",
    "pdf": "pypdfium2",
    "svg": "resvg_py",
    "heic": "pillow_heif",
}
MANUAL_STEPS: dict[Form, str] = {
    "pdf-text": "download it and convert it, for example with `pdftotext -layout FILE.pdf -` (poppler-utils)",
    "pdf": "convert it with `pdftoppm -png FILE PAGE`",
    "svg": "convert it with `rsvg-convert FILE -o PICTURE.png`",
    "heic": "convert it with `magick FILE PICTURE.png`",
}
"""Advice that is shown if the library for a form is missing, by form."""
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs")
"""Brands in the header of a HEIC file."""
DETECTION_BYTES = 4_096
"""Maximum number of bytes at the start of a file that are searched for its form."""
_OUT_OF_MEMORY_TEXT = re.compile(
    r"memory allocation|out of memory|bad_alloc|cannot allocate|MemoryError", re.IGNORECASE
)


class FileLimits(Struct, frozen=True):
    """Limits of one conversion."""

    memory_bytes: int = 4 << 30
    """Maximum bytes of address space. It is large, because libraries reserve more memory than they use. macOS
    has no such limit.
    """
    seconds: int = 30
    """Maximum processor time and maximum duration of the conversion."""


LIMITS = FileLimits()
_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""Semaphore that limits the conversions of an event loop, by loop."""


class ConvertedFile(Struct, frozen=True):
    """Text or image converted from a file."""

    facts: dict[str, Any]
    """For a text: `title`, `pages` and `is_cut`. For an image: `width`, `height` and `frames` of the original
    file.
    """
    data: bytes


class StdoutBytes(Output):
    """Output that keeps stdout as bytes, up to a limit. stderr is kept as in any output."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.data = bytearray()
        self._max_bytes = max_bytes

    def add(self, stream: Stream, data: bytes) -> None:
        """Add data that was read from a stream."""
        if stream == "stdout":
            self.data += data[: self._max_bytes - len(self.data)]
        else:
            super().add(stream, data)


def form_of(data: bytes) -> Form | None:
    """Return the form of a file according to its first bytes, or None if it is not a PDF, SVG or HEIC
    file.
    """
    head = data[:DETECTION_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"<svg") or (head.startswith((b"<?xml", b"<!--", b"<!DOCTYPE")) and b"<svg" in head):
        return "svg"
    brands = data[8 : int.from_bytes(data[:4], "big")] if data[4:8] == b"ftyp" else b""
    if any(brand in brands[:DETECTION_BYTES] for brand in HEIC_BRANDS):
        return "heic"
    return None


async def converted(
    form: Form, data: bytes, environment: dict[str, str], label: str, limits: FileLimits = LIMITS
) -> ConvertedFile:
    """Convert a file to text or an image, in a separate process. `label` names the file in errors.

    At most `MAX_AT_ONCE` conversions run at once.

    Raises: HandlerError. If a library is missing, the message of the error says what to install.
    """
    name = form.partition("-")[0].upper()
    if find_spec(LIBRARIES[form]) is None:
        requirement = f"needs {LIBRARIES[form]}: {INSTALL}; or {MANUAL_STEPS[form]}"
        raise HandlerError(f"{label} is {'an' if form == 'svg' else 'a'} {name} file, which {requirement}")
    output = StdoutBytes(MAX_BYTES + 1)
    async with _semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_AT_ONCE)):
        program_end = await _run(form, data, environment, label, output, limits)
    if program_end.timed_out or program_end.exit_code == _signal_exit_code("SIGXCPU"):
        raise HandlerError(f"{label} took longer than {limits.seconds} s to read; {MANUAL_STEPS[form]}")
    if program_end.exit_code:
        reason_text = output.stream("stderr").strip()
        if _is_out_of_memory(program_end.exit_code, reason_text):
            limit_text = size_text(limits.memory_bytes)
            raise HandlerError(
                f"{label} needs more memory to read than the {limit_text} allowed; {MANUAL_STEPS[form]}"
            )
        reason = (
            reason_text.splitlines()[-1][:300]
            if reason_text
            else f"reading it ended with {program_end.exit_code}"
        )
        raise HandlerError(f"{label} is a broken {name} file: {reason}")
    facts, _, converted_data = bytes(output.data).partition(b"\n")
    if len(output.data) > MAX_BYTES:
        raise HandlerError(f"{label} becomes larger than {MAX_BYTES:,} bytes; {MANUAL_STEPS[form]}")
    return ConvertedFile(json.decode(facts), converted_data)


async def _run(
    form: Form, data: bytes, environment: dict[str, str], label: str, output: StdoutBytes, limits: FileLimits
) -> ProgramEnd:
    """Run the program that reads a file. Raises: HandlerError if it does not start."""
    from mcpdesk.jobs.process import run

    with tempfile.TemporaryDirectory(prefix="mcpdesk-file-", ignore_cleanup_errors=True) as folder:
        suffix = form.partition("-")[0]
        file = Path(folder) / f"file.{suffix}"
        await asyncio.to_thread(file.write_bytes, data)
        argv = [sys.executable, "-P", "-m", "mcpdesk.tools.file_reader", form, str(file)]
        argv += [str(limits.memory_bytes), str(limits.seconds)]
        try:
            return await run(
                argv, folder=Path(folder), environment=environment, output=output, timeout_s=limits.seconds
            )
        except OSError as error:
            raise HandlerError(f"{label} cannot be read: no process for it: {error.strerror}") from error


def _is_out_of_memory(exit_code: int, stderr_text: str) -> bool:
    """Return True if a process reported missing memory or was killed, as systems do when memory runs out."""
    return (
        exit_code in (OUT_OF_MEMORY, _signal_exit_code("SIGKILL"))
        or _OUT_OF_MEMORY_TEXT.search(stderr_text) is not None
    )


def _signal_exit_code(name: str) -> int:
    """Return the exit code of a process that died of a signal. Return -1 if the system does not have this
    signal.
    """
    number = getattr(signal, name, None)
    return -1 if number is None else 128 + int(number)
