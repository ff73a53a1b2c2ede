"""Output files of commands: the folders in which a program may write, and the files that it has made.

A client may name a path only in the folder of its call, or below a folder of the setting `output_dirs`. A
client can never write into the server folder, because the files there are code; only the author of the
`mcp.json` may name paths there. An existing file is overwritten only if a program of the same server made it.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcpdesk.errors import BadArgument
from mcpdesk.features.program_tools.command_argv import Placeholder, Template, names_in, texts_of
from mcpdesk.jobs.call_files import CreatedFiles, NotOwnFile

OUTPUT_DIR = "output_dir"
"""Placeholder that stands for the folder of a call."""
MAX_MATCHES = 1000
"""Maximum number of files that one pattern may match."""
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 4095
"""Maximum length of a file name and of a path on Linux and macOS, in bytes."""
_WILDCARDS = ("*", "?")


class OutputFolders(Struct, frozen=True):
    """Folders into which one call may write files."""

    folder: Path
    """Working folder of the program. Relative paths of the author start here."""
    output: Path
    """Folder of this call."""
    allowed: tuple[Path, ...] = ()
    """Folders of `output_dirs`, below which clients may name paths."""
    server: Path | None = None
    """The server folder."""


class ExpectedFile(Struct, frozen=True):
    """File that the program should make, or any number of files that match a `pattern`."""

    path: Path
    pattern: str = ""
    """Glob pattern, or "" for a single file."""
    argument: str = ""
    """Name of the argument with the beginning of the path, or "" if the author wrote the beginning."""


def begins_with_placeholder(template: Template) -> bool:
    """Return True if a template of `produces` begins with a placeholder.

    The placeholder is a parameter with a path, or the folder of the call.
    """
    return bool(template) and isinstance(template[0], Placeholder)


def output_names(produces: Sequence[Template]) -> frozenset[str]:
    """Return the names of the parameters that contain paths of output files."""
    first_parts = (template[0] for template in produces if template)
    return frozenset(part.name for part in first_parts if isinstance(part, Placeholder)) - {OUTPUT_DIR}


def resolve_path(name: str, value: Any, folders: OutputFolders) -> Any:
    """Resolve a path, or a list of paths, that a client chose.

    Raises: BadArgument for a path outside the allowed folders; the message lists them.
    """
    if isinstance(value, list):
        return [resolve_path(name, each, folders) for each in value]
    if not isinstance(value, str):
        return value
    (text,) = texts_of(name, value)
    if not Path(text).name or text.endswith("/") or Path(text).name == "..":
        raise BadArgument(name, f"{text!r} is not a file name")
    _check_length(name, folders.output / text)
    if Path(text).is_absolute():
        return str(_checked_path(name, Path(text), folders))
    target = Path(os.path.normpath(folders.output / text))
    if not (target.is_relative_to(folders.output) and _is_below(target, folders.output)):
        raise _outside_error(name, text, folders)
    return str(target)


def expected_files(
    produces: Sequence[Template], values: Mapping[str, Any], fixed: Mapping[str, str], folders: OutputFolders
) -> list[ExpectedFile]:
    """Return the files that one call should make, and create their parent folders.

    Folders are created only in the folder of the call and in the working folder. `values` has resolved paths.
    Raises: BadArgument for a value that cannot be part of a file name or is too long.
    """
    files: list[ExpectedFile] = []
    for template in produces:
        path_placeholder = template[0] if begins_with_placeholder(template) else None
        names = [name for name in names_in(template) if name not in fixed]
        for name in names:
            if Placeholder(name) != path_placeholder:
                _check_part(name, values.get(name))
        for text, pattern in _texts_and_patterns(template, values, fixed):
            if ".." in text.split("/"):
                raise BadArgument(names_in(template)[0], f"{text!r} leaves its folder")
            path = folders.folder / text
            if names:
                _check_length(names[0], path)
            if not _is_outside(path, folders):
                path.parent.mkdir(parents=True, exist_ok=True)
            folder = glob.escape(str(folders.folder))
            argument = path_placeholder.name if isinstance(path_placeholder, Placeholder) else ""
            files.append(ExpectedFile(path, os.path.join(folder, pattern) if pattern else "", argument))
    return files


def claim_files(
    expected: Sequence[ExpectedFile], folders: OutputFolders, created: CreatedFiles
) -> tuple[Path, ...]:
    """Reserve the files below `output_dirs`, and create folders for them.

    Raises: BadArgument if a file exists that no program of the server made.
    """
    files: list[Path] = []
    for each in expected:
        if not _is_outside(each.path, folders):
            continue
        try:
            files += created.claim([each.path, *matching_files(each)], folders.allowed)
        except (NotOwnFile, OSError) as error:
            created.release(files)
            reason = f"{str(each.path)!r}: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise BadArgument(each.argument, f"{reason}; choose another name") from None
    return tuple(files)


def release_files(expected: Sequence[ExpectedFile], claimed: tuple[Path, ...], created: CreatedFiles) -> None:
    """End the reservation of files after the program has ended. `claimed` is the result of `claim_files`."""
    if claimed:
        created.release(claimed, [path for each in expected for path in matching_files(each)])


def matching_files(expected: ExpectedFile) -> list[Path]:
    """Return the existing files that match the pattern of an expected file. Empty without a pattern."""
    if not expected.pattern:
        return []
    return [Path(each) for each in sorted(glob.glob(expected.pattern))[:MAX_MATCHES]]


def made_files(expected: Sequence[ExpectedFile], folders: OutputFolders) -> tuple[list[Path], list[str]]:
    """Return the files that exist, and remarks on files that are missing or in a forbidden folder."""
    roots = [each.resolve() for each in (folders.folder, folders.output, *folders.allowed)]
    files: dict[Path, None] = {}
    remarks = []
    for each in expected:
        for path in matching_files(each) if each.pattern else [each.path]:
            resolved = path.resolve()
            if not resolved.is_file():
                remarks.append(f"{resolved} was not written")
            elif not any(resolved.is_relative_to(root) for root in roots):
                remarks.append(f"{each.path} leads to a folder from which files cannot be returned")
            else:
                files[resolved] = None
    return list(files), remarks


def _check_part(name: str, value: Any) -> None:
    for text in texts_of(name, value):
        if "/" in text:
            raise BadArgument(name, f"{text!r} is a part of a file name and must not contain '/'")


def _check_length(name: str, path: Path) -> None:
    encoded = str(path).encode(errors="surrogateescape")
    if len(encoded) > MAX_PATH_BYTES or max(map(len, encoded.split(b"/"))) > MAX_NAME_BYTES:
        message = f"a file's name has at most {MAX_NAME_BYTES} bytes, and a path {MAX_PATH_BYTES}"
        raise BadArgument(name, f"it makes a path that is too long: {message}")


def _is_outside(path: Path, folders: OutputFolders) -> bool:
    """Return True if a path is neither in the folder of the call nor in the working folder."""
    return not any(path.is_relative_to(root) for root in (folders.output, folders.folder))


def _checked_path(name: str, path: Path, folders: OutputFolders) -> Path:
    """Return an absolute path of a client, normalized. Raises: BadArgument if it is not allowed."""
    target = Path(os.path.normpath(path))
    if _is_below(target, folders.output):
        return target
    if folders.server is not None and _is_below(target, folders.server):
        raise _outside_error(name, str(path), folders)
    for root in folders.allowed:
        # An allowed folder may itself be a symbolic link. Paths below the folder must not lead out of it.
        is_inside = target != root and target.is_relative_to(root) and _is_below(target, root)
        if is_inside and not target.is_symlink():
            return target
    raise _outside_error(name, str(path), folders)


def _is_below(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _outside_error(name: str, text: str, folders: OutputFolders) -> BadArgument:
    below = f", or below {', '.join(map(str, folders.allowed))} (output_dirs)" if folders.allowed else ""
    message = "allowed: a relative path, which is in the folder of this call"
    return BadArgument(name, f"no file may be written at {text!r}; {message}{below}")


def _texts_and_patterns(
    template: Template, values: Mapping[str, Any], fixed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield each text that a template produces, with a glob pattern if the author's text has wildcards."""
    author_texts = [part for part in template if isinstance(part, str)]
    has_wildcards = any(wildcard in text for text in author_texts for wildcard in _WILDCARDS)
    columns: list[list[tuple[str, str]]] = []
    for part in template:
        if isinstance(part, str):
            columns.append([(part, part.replace("[", "[[]"))])
        else:
            texts = [fixed[part.name]] if part.name in fixed else texts_of(part.name, values.get(part.name))
            columns.append([(text, glob.escape(text)) for text in texts])
    for row in product(*columns):
        pattern = "".join(each for _, each in row) if has_wildcards else ""
        yield "".join(text for text, _ in row), pattern
