"""Front matter: a YAML mapping between two lines `---` at the start of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mcpdesk.errors import RegistrationError
from mcpdesk.protocol.catalogue.bounded_yaml import YamlFault, load_yaml
from mcpdesk.protocol.catalogue.yaml_core import core_loader

if TYPE_CHECKING:
    import yaml

MAX_BLOCK_LENGTH = 64 << 10
"""Maximum number of characters of front matter, because YAML can expand a small text enormously."""
BYTE_ORDER_MARK = "\ufeff"


class TextDocument(Struct, frozen=True):
    """Text without its front matter, and the fields of the front matter."""

    body: str
    fields: dict[str, Any] = field(default_factory=dict)


def read_document(text: str, location: str) -> TextDocument:
    """Split a text into front matter and body. A text that does not start with `---` has only a body.

    Raises: RegistrationError with `location:line` for a block that is not a plain YAML mapping.
    """
    import yaml

    block, body = _split(text, location)
    if block is None:
        return TextDocument(text)
    return TextDocument(body.lstrip("\n"), _fields(block, location, yaml.SafeLoader))


def verbatim_fields(text: str, location: str) -> dict[str, Any]:
    """Return the front matter as JSON values, by the core schema of YAML 1.2.

    In this schema, `yes` and `2026-01-31` are texts. Raises: RegistrationError with `location:line`, like
    `read_document`, and also for a text without front matter.
    """
    block, _ = _split(text.removeprefix(BYTE_ORDER_MARK), location)
    if block is None:
        raise RegistrationError(
            "it does not begin with front matter, like ---, name: value, ---", f"{location}:1"
        )
    return _fields(block, location, core_loader())


def _split(text: str, location: str) -> tuple[str | None, str]:
    """Return the YAML between the lines `---`, or None without front matter, and the text after it."""
    if text.partition("\n")[0].rstrip() != "---":
        return None, text
    from frontmatter.default_handlers import YAMLHandler

    try:
        block, body = YAMLHandler().split(text)
    except ValueError:
        raise RegistrationError(
            "the front matter is not closed: a line --- is missing", f"{location}:1"
        ) from None
    return block, body


def _fields(block: str, location: str, loader: type[yaml.SafeLoader]) -> dict[str, Any]:
    """Parse a block of front matter. Raises: RegistrationError with `location:line`."""
    try:
        fields = load_yaml(block, loader, MAX_BLOCK_LENGTH, aliases=False)
    except YamlFault as fault:
        text = f"the front matter cannot be read: {fault}"
        raise RegistrationError(text, f"{location}:{fault.line or 1}") from fault
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise RegistrationError("the front matter must be a mapping, like name: value", f"{location}:1")
    return fields
