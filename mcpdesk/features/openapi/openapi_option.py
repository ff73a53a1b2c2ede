"""Options of `mcpdesk new` that make a folder from an OpenAPI document."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from mcpdesk.cli.authoring.folder_source import PARTS, as_argument, folder_errors, has_command, write_folder
from mcpdesk.cli.printing import OK, TOOL_ERROR, print_message, print_text
from mcpdesk.errors import DeskUserError
from mcpdesk.feature import FolderSource

MAX_OPERATIONS = 80
"""Maximum number of operations, because Cursor warns about a higher number of tools."""


def make_folder(folder: Path, name: str, parts: str, options: Mapping[str, Any]) -> int | None:
    """Make a folder whose tools call a service, and print the next steps. Return the exit code.

    Return None if the options name no document. Raises: DeskUserError.
    """
    file: Path | None = options["document"]
    if file is None:
        if options["tags"] or options["operations"]:
            raise DeskUserError(
                "--tags and --operations need an OpenAPI document.", "Add --from-openapi FILE."
            )
        return None
    if parts != ",".join(PARTS):
        raise DeskUserError(
            "--with selects example files; it cannot be used with --from-openapi.", "Omit it."
        )
    return _make_from_document(
        folder, name, file, _comma_separated(options["tags"]), _comma_separated(options["operations"])
    )


def _make_from_document(
    new_folder: Path, name: str, file: Path, tags: list[str], operations: list[str]
) -> int:
    """Make the folder, and print the next steps. Return the exit code. Raises: DeskUserError."""
    from mcpdesk.features.openapi.api_document import read_document, tag_counts
    from mcpdesk.features.openapi.api_folder import make_api_folder

    document = read_document(file, tags, operations)
    if (count := len(document.operations)) > MAX_OPERATIONS:
        raise DeskUserError(
            f"{count:,} operations are more than the {MAX_OPERATIONS} tools that a model can choose from.",
            f"Choose with --tags or --operations. Tags: {tag_counts(document)}.",
        )
    folder = make_api_folder(document, new_folder.name)
    write_folder(new_folder, {path: text.encode() for path, text in folder.files.items()})
    folder_argument = shlex.quote(as_argument(name))
    lines = [folder_argument, *(f"  {path}" for path in folder.files), ""]
    count = len(folder.tools)
    lines += [f"{count} {'tool calls' if count == 1 else 'tools call'} {document.title}."]
    if folder.left_out:
        lines += ["Left out:", *(f"  {each}" for each in folder.left_out)]
    lines += ["", "Next:", *(f"  export {each}=..." for each in folder.variables)]
    lines += [f"  mcpdesk test {folder_argument}"] if has_command("test") else []
    lines += [f"  mcpdesk {folder_argument}"]
    print_text("\n".join(lines))
    errors = folder_errors(new_folder)
    for each in errors:
        print_message(f"mcpdesk: {each}")
    if errors:
        finder = f"`mcpdesk check {folder_argument}`" if has_command("check") else "the desk"
        print_message(f"mcpdesk: {folder_argument} was made, and {finder} finds {len(errors)} errors in it.")
    return TOOL_ERROR if errors else OK


def _comma_separated(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(",")) if each]


OPENAPI_DOCUMENT = FolderSource(
    options=(
        click.option(
            "--from-openapi",
            "document",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Make tools from this OpenAPI document (3.0 or 3.1, JSON or YAML), one for each operation.",
        ),
        click.option(
            "--tags",
            default="",
            metavar="TAGS",
            help="With --from-openapi: use only operations with these tags, separated by commas.",
        ),
        click.option(
            "--operations",
            default="",
            metavar="IDS",
            help="With --from-openapi: use only operations with these IDs, separated by commas.",
        ),
    ),
    example="mcpdesk new shop --from-openapi shop.yaml --tags orders,customers",
    make=make_folder,
)
