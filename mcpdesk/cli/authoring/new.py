"""The command `new`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Any

import click

from mcpdesk import paths
from mcpdesk.cli.authoring.folder_source import (
    PARTS,
    as_argument,
    folder_sources,
    has_command,
    source_options,
    write_folder,
)
from mcpdesk.cli.printing import OK, print_text
from mcpdesk.errors import DeskUserError

NEW_EXAMPLES = (
    "mcpdesk new profiles",
    "mcpdesk new ~/servers/profiles",
    "mcpdesk new profiles --with tools,tests",
)
NEW_EPILOG = """\b
Examples:
{}

The folder has a sample tool, resource, prompt and skill, and test cases. You can edit them while the desk
runs.
"""


def _epilog() -> str:
    examples = [*NEW_EXAMPLES, *(source.example for source in folder_sources())]
    return NEW_EPILOG.format("\n".join(f"  {each}" for each in examples))


@click.command(name="new", epilog=_epilog(), short_help="Make a server folder.")
@click.argument("name")
@click.option(
    "--with",
    "parts",
    metavar="PARTS",
    default=",".join(PARTS),
    help=f"Parts to make, separated by commas: {','.join(PARTS)}. Default: all.",
)
@source_options
def new_command(name: str, parts: str, **source_values: Any) -> int:
    """Make a server folder, and print the next steps. NAME is the name or the path of the folder."""
    folder = new_folder_path(name)
    for source in folder_sources():
        code = source.make(folder, name, parts, source_values)
        if code is not None:
            return code
    part_names = checked_parts(parts)
    files = make_from_sample(folder, part_names)
    argument = shlex.quote(as_argument(name))
    lines = [argument, *(f"  {path}" for path in files), "", "Next:"]
    lines += [f"  mcpdesk {argument}"]
    lines += [f"  mcpdesk call {argument} greet name=Ada"] if "tools" in part_names else []
    lines += [f"  mcpdesk test {argument}"] if "tests" in part_names and has_command("test") else []
    print_text("\n".join(lines))
    return OK


def new_folder_path(name: str) -> Path:
    """Return the path of a new folder. Raises: DeskUserError for an invalid name or an existing path."""
    from mcpdesk.hosting.folder.manifest import NAME, NAME_RULE

    path = Path(name).expanduser()
    if "://" in name or not re.fullmatch(NAME, path.name):
        raise DeskUserError(f"Invalid server name {path.name!r}.", f"Allowed: {NAME_RULE}.")
    if path.exists() or path.is_symlink():
        kind = "folder" if path.is_dir() else "file"
        hint = "Choose another name, or remove it first."
        raise DeskUserError(f"A {kind} {name!r} already exists.", hint)
    if not path.parent.is_dir():
        message = f"Folder {str(path.parent)!r} does not exist."
        raise DeskUserError(message, "Create it first.")
    return path


def checked_parts(text: str) -> frozenset[str]:
    """Return the parts in a list. Raises: DeskUserError for an unknown part, or if only `tests` is listed."""
    part_names = frozenset(each.strip() for each in text.split(","))
    if unknown := sorted(part_names - PARTS.keys()):
        raise DeskUserError(
            f"--with: {unknown[0]!r} is not a part of a server.", f"Allowed: {', '.join(PARTS)}."
        )
    if part_names == {"tests"}:
        raise DeskUserError("--with: tests need an item to test.", "Example: tools,tests.")
    return part_names


def make_from_sample(folder: Path, parts: Collection[str] = tuple(PARTS)) -> list[str]:
    """Create a folder from the sample `starter`. The new server has the name of the folder. The folder
    is removed on failure.

    Return the relative paths of the files. Raises: DeskUserError if the folder cannot be written.
    """
    starter = paths.sample_servers() / "starter"
    starter_files = [path for path in sorted(starter.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    files = [path for each in starter_files if _belongs_to(path := each.relative_to(starter), parts)]
    content = {str(path): (starter / path).read_bytes() for path in files}
    manifest = json.loads(content["mcp.json"])
    title = folder.name.replace("-", " ").replace("_", " ").capitalize()
    manifest |= {"name": folder.name, "title": title}
    manifest["instructions"] = " ".join(PARTS[each] for each in PARTS if each in parts and PARTS[each])
    if "skills" not in parts:
        del manifest["builtins"]
    text = json.dumps(manifest, indent=2, ensure_ascii=False)
    write_folder(folder, content | {"mcp.json": f"{text}\n".encode()})
    return list(map(str, files))


def _belongs_to(path: Path, parts: Collection[str]) -> bool:
    """Return True if a file of the sample belongs to the parts. The file of test cases for a part has the
    same name as the part.
    """
    if path.parts[0] == "cases":
        return "tests" in parts and path.stem in parts
    return len(path.parts) == 1 or path.parts[0] in parts
