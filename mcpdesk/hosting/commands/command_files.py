"""Where the programs of a command may put files, and which of them they made.

A path a client chooses leads into the folder of that one call, or below a folder the setting `output_dirs`
names: never into the server folder, whose files are code. Places in there are the author's to name. What is
there already is made anew only if it was made here.
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
from mcpdesk.hosting.commands.command_argv import Placeholder, Template, names_in, texts_of
from mcpdesk.jobs.call_files import MadeFiles, NotMadeHere

OUTPUT_DIR = "output_dir"
"""The placeholder for the folder of a call."""
MOST = 1000
"""Files of one pattern."""
LONGEST_NAME, LONGEST_PATH = 255, 4095
"""Bytes, as Linux and macOS have it."""
_MARKS = ("*", "?")


class OutputPlace(Struct, frozen=True):
    """Where one call may put files."""

    folder: Path
    """The folder the program runs in; relative paths of the author's mean it."""
    output: Path
    """The call's own."""
    allowed: tuple[Path, ...] = ()
    """Further folders clients may name paths in."""
    server: Path | None = None
    """The server folder."""


class ExpectedFile(Struct, frozen=True):
    """A file that is to be made, or with a `pattern` any number of them."""

    path: Path
    pattern: str = ""
    argument: str = ""
    """Whose value the path begins with."""


def is_own(template: Template) -> bool:
    """Whether a template of `produces` begins with a path of the client's, or the folder of the call."""
    return bool(template) and isinstance(template[0], Placeholder)


def output_names(produces: Sequence[Template]) -> frozenset[str]:
    """The parameters that are paths of files to be made."""
    first = (template[0] for template in produces if template)
    return frozenset(part.name for part in first if isinstance(part, Placeholder)) - {OUTPUT_DIR}


def placed(name: str, value: Any, place: OutputPlace) -> Any:
    """A path a client chose, or a list of them, as where it leads.

    Raises: BadArgument, with what is allowed, for one that leads elsewhere.
    """
    if isinstance(value, list):
        return [placed(name, each, place) for each in value]
    if not isinstance(value, str):
        return value
    (text,) = texts_of(name, value)
    if not Path(text).name or text.endswith("/") or Path(text).name == "..":
        raise BadArgument(name, f"{text!r} is no name of a file")
    _check_length(name, place.output / text)
    if Path(text).is_absolute():
        return str(_allowed(name, Path(text), place))
    target = Path(os.path.normpath(place.output / text))
    if not (target.is_relative_to(place.output) and _is_below(target, place.output)):
        raise _elsewhere(name, text, place)
    return str(target)


def wanted(
    produces: Sequence[Template], values: Mapping[str, Any], fixed: Mapping[str, str], place: OutputPlace
) -> list[ExpectedFile]:
    """What one call is to make; its folders are made where they are ours. `values` are placed ones.

    Raises: BadArgument for a value that is no part of a file's name, or too long for one.
    """
    found: list[ExpectedFile] = []
    for template in produces:
        chosen = template[0] if is_own(template) else None
        given = [name for name in names_in(template) if name not in fixed]
        for name in given:
            if Placeholder(name) != chosen:
                _check_part(name, values.get(name))
        for text, pattern in _filled(template, values, fixed):
            if ".." in text.split("/"):
                raise BadArgument(names_in(template)[0], f"{text!r} leads out of its folder")
            each = place.folder / text
            if given:
                _check_length(given[0], each)
            if not _is_elsewhere(each, place):
                each.parent.mkdir(parents=True, exist_ok=True)
            folder = glob.escape(str(place.folder))
            argument = chosen.name if isinstance(chosen, Placeholder) else ""
            found.append(ExpectedFile(each, os.path.join(folder, pattern) if pattern else "", argument))
    return found


def claimed(asked: Sequence[ExpectedFile], place: OutputPlace, made: MadeFiles) -> tuple[Path, ...]:
    """Those of the files that lie neither in the folder of the call nor in that of the server.

    Folders for them are made. Raises: BadArgument where something of somebody else is in the way.
    """
    found: list[Path] = []
    for each in asked:
        if not _is_elsewhere(each.path, place):
            continue
        try:
            found += made.claim([each.path, *matching(each)], place.allowed)
        except (NotMadeHere, OSError) as error:
            made.release(found)
            why = f"{str(each.path)!r}: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise BadArgument(each.argument, f"{why}; choose another name") from None
    return tuple(found)


def settled(asked: Sequence[ExpectedFile], own: tuple[Path, ...], made: MadeFiles) -> None:
    """What was claimed is there now, as far as it was made."""
    if own:
        made.release(own, [path for each in asked for path in matching(each)])


def matching(asked: ExpectedFile) -> list[Path]:
    """What is there now that fits a pattern."""
    return [Path(each) for each in sorted(glob.glob(asked.pattern))[:MOST]] if asked.pattern else []


def produced(asked: Sequence[ExpectedFile], place: OutputPlace) -> tuple[list[Path], list[str]]:
    """The files that are there, and remarks about those that are not, or may not be given out."""
    roots = [each.resolve() for each in (place.folder, place.output, *place.allowed)]
    files: dict[Path, None] = {}
    remarks = []
    for each in asked:
        for real in (one.resolve() for one in (matching(each) if each.pattern else [each.path])):
            if not real.is_file():
                remarks.append(f"{real} was not written")
            elif not any(real.is_relative_to(root) for root in roots):
                remarks.append(f"{each.path} leads to where files may not be given out from")
            else:
                files[real] = None
    return list(files), remarks


def _check_part(name: str, value: Any) -> None:
    for text in texts_of(name, value):
        if "/" in text:
            raise BadArgument(name, f"{text!r} is a part of a file's name and may not have a '/'")


def _check_length(name: str, path: Path) -> None:
    whole = str(path).encode(errors="surrogateescape")
    if len(whole) > LONGEST_PATH or max(map(len, whole.split(b"/"))) > LONGEST_NAME:
        told = f"a file's name has at most {LONGEST_NAME} bytes, and a path {LONGEST_PATH}"
        raise BadArgument(name, f"it makes a path that is too long: {told}")


def _is_elsewhere(path: Path, place: OutputPlace) -> bool:
    return not any(path.is_relative_to(root) for root in (place.output, place.folder))


def _allowed(name: str, path: Path, place: OutputPlace) -> Path:
    target = Path(os.path.normpath(path))
    if _is_below(target, place.output):
        return target
    if place.server is not None and _is_below(target, place.server):
        raise _elsewhere(name, str(path), place)
    for root in place.allowed:
        # The folder itself may be a link; what lies in it may not lead out of it.
        is_inside = target != root and target.is_relative_to(root) and _is_below(target, root)
        if is_inside and not target.is_symlink():
            return target
    raise _elsewhere(name, str(path), place)


def _is_below(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root.resolve())


def _elsewhere(name: str, text: str, place: OutputPlace) -> BadArgument:
    below = f", or below {', '.join(map(str, place.allowed))} (output_dirs)" if place.allowed else ""
    told = "allowed is a relative path, which leads into the folder of this call"
    return BadArgument(name, f"no file may be written at {text!r}; {told}{below}")


def _filled(
    template: Template, values: Mapping[str, Any], fixed: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Each text of a template; and where the author's own has marks, a pattern in which those alone count."""
    has_marks = any(mark in part for part in template if isinstance(part, str) for mark in _MARKS)
    columns: list[list[tuple[str, str]]] = []
    for part in template:
        if isinstance(part, str):
            columns.append([(part, part.replace("[", "[[]"))])
        else:
            texts = [fixed[part.name]] if part.name in fixed else texts_of(part.name, values.get(part.name))
            columns.append([(text, glob.escape(text)) for text in texts])
    for row in product(*columns):
        pattern = "".join(each for _, each in row) if has_marks else ""
        yield "".join(text for text, _ in row), pattern
