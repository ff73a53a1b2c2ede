"""Items that one file of a server folder defines. Some may be broken, and the file may have warnings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from mcpdesk.errors import MissingPrecondition, RegistrationError
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.registry import Unavailable
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.tool import Tool

Item = Tool | Resource | ResourceTemplate | Prompt
KINDS: dict[type[Item], str] = {
    Tool: "tool",
    Resource: "resource",
    ResourceTemplate: "template",
    Prompt: "prompt",
}
"""Kind of each type of item."""


class FileItems(Struct):
    """Items of one file, broken items, and warnings."""

    items: list[Item] = field(default_factory=list)
    broken: list[tuple[str, Unavailable]] = field(default_factory=list)
    """Broken items, each with its kind."""
    remarks: list[str] = field(default_factory=list)
    """Warnings with their source lines. They do not affect the items."""
    may_be_helper: bool = False
    """True if a Python file does not clearly define an item. Other files may only import it as a helper."""
    required_variables: dict[str, int] = field(default_factory=dict)
    """Environment variables that the items require. Each is mapped to a hash of its value, or 0 if unset."""

    def is_outdated(self, environment: Mapping[str, str]) -> bool:
        """True if the value of a required variable has changed since the file was read."""
        return any(
            old_hash != variable_hash(environment.get(name, ""))
            for name, old_hash in self.required_variables.items()
        )

    def refuse(self, kind: str, name: str, error: RegistrationError) -> None:
        """Record that an item is broken, with the reason."""
        is_fit = isinstance(error, MissingPrecondition)
        self.broken.append((kind, Unavailable(name, error.message, error.source, is_fit=is_fit)))

    def with_previous_versions(self, previous: FileItems | None) -> FileItems:
        """Return a copy where each broken item is replaced by its previous version, if one exists.

        An item that only lacks a precondition, such as a variable, has no replacement. Its previous version
        would lack the same precondition.
        """
        previous_by_key = (
            {(kind_of(item), name_of(item)): item for item in previous.items} if previous else {}
        )
        previous_items: list[Item] = []
        broken: list[tuple[str, Unavailable]] = []
        for kind, entry in self.broken:
            item = None if entry.is_fit else previous_by_key.get((kind, entry.name))
            if item is not None:
                previous_items.append(item)
            broken.append((kind, replace(entry, is_serving=item is not None)))
        return FileItems(
            [*self.items, *previous_items],
            broken,
            self.remarks,
            self.may_be_helper and not previous_items,
            self.required_variables,
        )


def digest(data: bytes) -> str:
    """Return a hash of the data, 32 hexadecimal digits long."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def variable_hash(value: str) -> int:
    """Return a hash of a variable's value, so that the value is not stored. 0 if the value is empty."""
    if not value:
        return 0
    return hash(value) or 1


def unreadable_file(
    previous: FileItems, kind: str, name: str, reason: str, source: str, *, is_logged: bool = False
) -> FileItems:
    """Return the previous items of a file that cannot be read now. Each is marked with the reason.

    If the file had no items, the result has one broken item with the given kind and name.
    """
    affected = [(kind_of(item), name_of(item)) for item in previous.items] or [(kind, name)]
    broken = [
        (
            item_kind,
            Unavailable(item_name, reason, source, is_serving=bool(previous.items), is_logged=is_logged),
        )
        for item_kind, item_name in affected
    ]
    other_broken = [entry for entry in previous.broken if (entry[0], entry[1].name) not in affected]
    return FileItems(
        list(previous.items), broken + other_broken, [], required_variables=previous.required_variables
    )


def why_unreadable(path: Path, folder: Path) -> str:
    """Return the reason why a path cannot be read as a file of a server folder, or "" if the path can be
    read.
    """
    if not path.resolve().is_relative_to(folder):
        return "is a link that leaves the server folder"
    # Reading a pipe could block forever, and a device may have no end.
    return "" if path.is_file() else "is not a file, or does not exist"


def kind_of(item: Item) -> str:
    """Return the kind of an item: `tool`, `resource`, `template` or `prompt`."""
    return KINDS[type(item)]


def name_of(item: Item) -> str:
    """Return the identifier of an item within its kind: a name, a URI or a URI template."""
    if isinstance(item, Resource):
        return item.uri
    return item.uri_template if isinstance(item, ResourceTemplate) else item.name


def without_duplicates(files: Iterable[FileItems]) -> FileItems:
    """Join the items of all files. Of two items with the same name, the second becomes a broken item, and the
    reason names both source lines.
    """
    merged = FileItems()
    first_items: dict[tuple[str, str], Item] = {}
    for file in files:
        merged.broken += file.broken
        merged.remarks += file.remarks
        for item in file.items:
            key = kind_of(item), name_of(item)
            first = first_items.setdefault(key, item)
            if first is item:
                merged.items.append(item)
                continue
            reason = (
                f"the {key[0]} {key[1]!r} is defined twice: in {first.source} (serving) and in {item.source}"
            )
            merged.refuse(*key, RegistrationError(reason, item.source))
    return merged
