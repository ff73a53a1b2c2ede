"""Items of one file of a server folder: working items, broken items, and remarks."""

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


class FileItems(Struct):
    """Items of one file, those left out, and remarks."""

    items: list[Item] = field(default_factory=list)
    broken: list[tuple[str, Unavailable]] = field(default_factory=list)
    """Items that are left out, each with its kind."""
    remarks: list[str] = field(default_factory=list)
    """Warnings with their places; no item is left out because of them."""
    may_be_helper: bool = False
    """True if a Python file has no function that is clearly meant to be an item."""
    asked: dict[str, int] = field(default_factory=dict)
    """Environment variables its items need, each with a hash of its value; 0 if the variable is not set."""

    def is_outdated(self, environment: Mapping[str, str]) -> bool:
        """True if a variable it needs has changed since the file was read."""
        return any(mark != mark_of(environment.get(name, "")) for name, mark in self.asked.items())

    def refuse(self, kind: str, name: str, error: RegistrationError) -> None:
        """Leave one item out, for the given reason."""
        is_fit = isinstance(error, MissingPrecondition)
        self.broken.append((kind, Unavailable(name, error.message, error.source, is_fit=is_fit)))

    def or_previous(self, previous: FileItems | None) -> FileItems:
        """Return a copy that serves the previous version of each broken item.

        An item that only lacks a precondition is not served, because its previous version would lack it too.
        """
        earlier = {(kind_of(item), name_of(item)): item for item in previous.items} if previous else {}
        kept: list[Item] = []
        broken: list[tuple[str, Unavailable]] = []
        for kind, each in self.broken:
            item = None if each.is_fit else earlier.get((kind, each.name))
            if item is not None:
                kept.append(item)
            broken.append((kind, replace(each, serving=item is not None)))
        return FileItems(
            [*self.items, *kept], broken, self.remarks, self.may_be_helper and not kept, self.asked
        )


def digest(data: bytes) -> str:
    """Return a hash of the data, 32 hexadecimal digits long."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def mark_of(value: str) -> int:
    """Return a number that identifies a variable's value without storing it; 0 if it is not set."""
    return hash(value) or 1 if value else 0


def unreadable_file(
    previous: FileItems, kind: str, name: str, reason: str, source: str, *, is_logged: bool = False
) -> FileItems:
    """Return the previous items of a file that cannot be read now, each marked with the reason.

    A file without items counts as one broken item of this kind and name.
    """
    affected = [(kind_of(item), name_of(item)) for item in previous.items] or [(kind, name)]
    broken = [
        (each, Unavailable(its, reason, source, serving=bool(previous.items), is_logged=is_logged))
        for each, its in affected
    ]
    earlier = [entry for entry in previous.broken if (entry[0], entry[1].name) not in affected]
    return FileItems(list(previous.items), broken + earlier, [], asked=previous.asked)


def why_unreadable(path: Path, folder: Path) -> str:
    """Return why a path cannot be read as a file of a server folder; empty if it can."""
    if not path.resolve().is_relative_to(folder):
        return "is a link that leaves the server folder"
    # Reading a pipe would block, and a device may have no end.
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
    """Join the items of all files. Of two items with one name, the later is left out, with both places."""
    whole = FileItems()
    seen: dict[tuple[str, str], Item] = {}
    for found in files:
        whole.broken += found.broken
        whole.remarks += found.remarks
        for item in found.items:
            key = kind_of(item), name_of(item)
            first = seen.setdefault(key, item)
            if first is item:
                whole.items.append(item)
                continue
            reason = (
                f"the {key[0]} {key[1]!r} is defined twice: in {first.source} (serving) and in {item.source}"
            )
            whole.refuse(*key, RegistrationError(reason, item.source))
    return whole
