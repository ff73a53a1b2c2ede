"""What one file of a server folder offers: items that work, items that do not, and remarks."""

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
    """What one file offers: its items, those left out, and remarks."""

    items: list[Item] = field(default_factory=list)
    broken: list[tuple[str, Unavailable]] = field(default_factory=list)
    """Each item that is left out, with its kind."""
    remarks: list[str] = field(default_factory=list)
    """Warnings with their places; nothing is left out because of them."""
    may_be_helper: bool = False
    """Whether a Python file holds nothing that is clearly meant to be offered."""
    asked: dict[str, int] = field(default_factory=dict)
    """The environment variables its items need, each with a mark of its value; 0 when it was not set."""

    def is_outdated(self, environment: Mapping[str, str]) -> bool:
        """Whether a variable it needs has another value than when it was read."""
        return any(mark != mark_of(environment.get(name, "")) for name, mark in self.asked.items())

    def refuse(self, kind: str, name: str, error: RegistrationError) -> None:
        """Leave one item out, for the given reason."""
        is_fit = isinstance(error, MissingPrecondition)
        self.broken.append((kind, Unavailable(name, error.message, error.source, is_fit=is_fit)))

    def or_previous(self, previous: FileItems | None) -> FileItems:
        """A copy in which the previous version of each broken item goes on serving.

        An item that only lacks a precondition is not served: its previous version would lack the same.
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
    """32 hexadecimal digits that differ where the data does."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def mark_of(value: str) -> int:
    """A number that tells a variable's values apart without keeping them; 0 when it is not set."""
    return hash(value) or 1 if value else 0


def unreadable_file(
    previous: FileItems, kind: str, name: str, reason: str, source: str, *, is_logged: bool = False
) -> FileItems:
    """The items of a file that cannot be read now: its previous ones, each marked with the reason.

    A file that had no item counts as one broken item of this kind and name. `is_logged`: its traceback is in
    the log.
    """
    affected = [(kind_of(item), name_of(item)) for item in previous.items] or [(kind, name)]
    broken = [
        (each, Unavailable(its, reason, source, serving=bool(previous.items), is_logged=is_logged))
        for each, its in affected
    ]
    earlier = [entry for entry in previous.broken if (entry[0], entry[1].name) not in affected]
    return FileItems(list(previous.items), broken + earlier, [], asked=previous.asked)


def why_unreadable(path: Path, folder: Path) -> str:
    """Why a path cannot be read as a file of a server folder; empty when it can."""
    if not path.resolve().is_relative_to(folder):
        return "is a link that leaves the server folder"
    # A pipe would be waited for, a device may have no end.
    return "" if path.is_file() else "is no file, or not there"


def kind_of(item: Item) -> str:
    """`tool`, `resource`, `template` or `prompt`."""
    return KINDS[type(item)]


def name_of(item: Item) -> str:
    """The identifier of an item within its kind: a name, a URI or a URI template."""
    if isinstance(item, Resource):
        return item.uri
    return item.uri_template if isinstance(item, ResourceTemplate) else item.name


def without_duplicates(files: Iterable[FileItems]) -> FileItems:
    """Join the items of all files. Of two with the same name the later one is left out, with both places."""
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
