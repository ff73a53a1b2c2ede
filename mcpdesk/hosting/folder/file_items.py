"""What one file of a server folder yields: items that work, items that do not, and remarks."""

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
    """The yield of one file."""

    items: list[Item] = field(default_factory=list)
    broken: list[tuple[str, Unavailable]] = field(default_factory=list)
    """Kind and what is left out."""
    remarks: list[str] = field(default_factory=list)
    """Trouble that leaves nothing out, with its place."""
    may_be_helper: bool = False
    """Whether a Python file holds nothing that was clearly meant to be offered."""
    asked: dict[str, int] = field(default_factory=dict)
    """The environment variables its items need, each with a mark of its value; 0: it was not set."""

    def is_outdated(self, environment: Mapping[str, str]) -> bool:
        """Whether a variable it needs has another value than when it was read."""
        return any(mark != mark_of(environment.get(name, "")) for name, mark in self.asked.items())

    def refuse(self, kind: str, name: str, error: RegistrationError) -> None:
        """Leave one item out."""
        is_fit = isinstance(error, MissingPrecondition)
        self.broken.append((kind, Unavailable(name, error.message, error.source, is_fit=is_fit)))

    def or_previous(self, previous: FileItems | None) -> FileItems:
        """This, with the previous version of whatever is broken now still serving.

        What is fit and lacks something is not served: its previous version would lack the same.
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
    """Tells a variable's values apart without keeping them; 0: it is not set."""
    return hash(value) or 1 if value else 0


def nothing_new(previous: FileItems, kind: str, name: str, reason: str, source: str) -> FileItems:
    """For a file that cannot be read now: what it yielded before, each item marked with the reason.

    A file that yielded no item is one broken item of this kind and name.
    """
    affected = [(kind_of(item), name_of(item)) for item in previous.items] or [(kind, name)]
    broken = [
        (each, Unavailable(its, reason, source, serving=bool(previous.items))) for each, its in affected
    ]
    earlier = [entry for entry in previous.broken if (entry[0], entry[1].name) not in affected]
    return FileItems(list(previous.items), broken + earlier, [], asked=previous.asked)


def unfit(path: Path, folder: Path) -> str:
    """Why a path is no file of a server folder; empty when it is one."""
    if not path.resolve().is_relative_to(folder):
        return "is a link that leaves the server folder"
    # A pipe would be waited for, a device may have no end.
    return "" if path.is_file() else "is no file, or not there"


def kind_of(item: Item) -> str:
    """`tool`, `resource`, `template` or `prompt`."""
    return KINDS[type(item)]


def name_of(item: Item) -> str:
    """What an item is called within its kind: a name, a URI or a URI template."""
    if isinstance(item, Resource):
        return item.uri
    return item.uri_template if isinstance(item, ResourceTemplate) else item.name


def without_duplicates(files: Iterable[FileItems]) -> FileItems:
    """All files as one; of two items of the same name the later is left out and both places are told."""
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
