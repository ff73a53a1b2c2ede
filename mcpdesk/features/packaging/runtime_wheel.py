"""Wheel of this program for a bundle. It has the parts that serve a folder over stdio, but not the screen.

A bundle contains its own runtime, so that it starts where no package index offers mcpdesk. The build is
reproducible. Source: PyPA "Binary distribution format" 1.0, core metadata 2.4.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.errors import DeskUserError
from mcpdesk.paths import PACKAGE
from mcpdesk.tools import EXTRA as TOOLS_EXTRA
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

NAME = "mcpdesk"
VERSION = f"{__version__}+runtime"
WHEEL_FILE = f"{NAME}-{VERSION}-py3-none-any.whl"
"""File name of the wheel."""
OMITTED_FOLDERS = ("tui", "_bundled")
"""Folders of the package that are not needed to serve a folder."""
OMITTED_REQUIREMENTS = frozenset({"textual", "rich", "prometheus-client"})
"""Requirements that only the screen and HTTP need."""
EXTRAS = (TOOLS_EXTRA,)
"""Extras that a bundle can ask for."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of all files in an archive, so that builds are reproducible."""
_WHEEL = f"Wheel-Version: 1.0\nGenerator: {NAME} {__version__}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_ENTRY_POINTS = f"[console_scripts]\n{NAME} = {NAME}.__main__:main\n"


def runtime_wheel() -> bytes:
    """Return the wheel's content. Raises: DeskUserError if this program was not installed as a package."""
    info = f"{NAME}-{VERSION}.dist-info"
    files: dict[str, bytes] = dict(_package_files(PACKAGE))
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    files[f"{info}/entry_points.txt"] = _ENTRY_POINTS.encode()
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # Unix, because the file modes are Unix modes
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return buffer.getvalue()


def _package_files(package: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each file of the package that a bundle needs."""
    for path in sorted(package.rglob("*")):
        relative = path.relative_to(package)
        if (
            path.is_file()
            and "__pycache__" not in relative.parts
            and relative.parts[0] not in OMITTED_FOLDERS
        ):
            yield f"{NAME}/{relative.as_posix()}", path.read_bytes()


def _metadata() -> str:
    """Return the metadata file of the wheel. Raises: DeskUserError."""
    try:
        requires = metadata.requires(NAME) or []
        python = metadata.metadata(NAME)["Requires-Python"]
    except metadata.PackageNotFoundError:
        hint = "Install it with pip or uv and run that program."
        raise DeskUserError(
            "This mcpdesk is not installed, so its requirements are not known.", hint
        ) from None
    lines = ["Metadata-Version: 2.4", f"Name: {NAME}", f"Version: {VERSION}"]
    lines += ["Summary: Serves a folder over stdio", f"Requires-Python: {python}"]
    lines += [f"Provides-Extra: {each}" for each in EXTRAS]
    return "\n".join([*lines, *(f"Requires-Dist: {each}" for each in _needed_requirements(requires))]) + "\n"


def _needed_requirements(requires: list[str]) -> Iterator[str]:
    """Yield the requirements of the program and of `EXTRAS`, except `OMITTED_REQUIREMENTS`."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for text in requires:
        requirement = Requirement(text)
        if canonicalize_name(requirement.name) not in OMITTED_REQUIREMENTS and _is_used(requirement):
            yield text


def _is_used(requirement: Requirement) -> bool:
    """Return True for a requirement of the program itself, or of an extra that a bundle can ask for."""
    if "extra" not in str(requirement.marker or ""):
        return True
    return any(f'extra == "{each}"' in str(requirement.marker) for each in EXTRAS)


def _record(files: Mapping[str, bytes], record_path: str) -> str:
    """Return the list of the wheel's files with their digests. `record_path` is the path of this list."""
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join([*lines, f"{record_path},,\n"])
