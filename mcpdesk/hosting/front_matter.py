"""Front matter of Markdown and text files: a YAML block between `---` lines at the very start."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from mcpdesk.errors import RegistrationError

MAX_BLOCK = 64 << 10
"""Characters; YAML can expand a small text enormously."""


class Document(Struct, frozen=True):
    """A text without its front matter, and the front matter."""

    body: str
    fields: dict[str, Any] = field(default_factory=dict)


def read_document(text: str, place: str) -> Document:
    """Split a text. One that does not start with a closed `---` block is all body.

    Raises: RegistrationError with `place:line` for a block that is not a plain YAML mapping.
    """
    if text.partition("\n")[0].rstrip() != "---":
        return Document(text)
    from frontmatter.default_handlers import YAMLHandler

    try:
        block, body = YAMLHandler().split(text)
    except ValueError:
        raise RegistrationError(
            "the front matter is not closed: a line --- is missing", f"{place}:1"
        ) from None
    return Document(body.lstrip("\n"), _fields(block, place))


def text_of(fields: dict[str, Any], key: str, place: str) -> str:
    """A field that has to be a text; empty when it is absent.

    Raises: RegistrationError when it is anything YAML does not read as text or number.
    """
    value = fields.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RegistrationError(
            f"{key} in the front matter has to be a text; put it into quotes", f"{place}:1"
        )
    return str(value).strip()


def mapping_of(fields: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    """A field that has to be a mapping; empty when it is absent.

    Raises: RegistrationError otherwise.
    """
    value = fields.get(key, {})
    if not isinstance(value, dict):
        raise RegistrationError(f"{key} in the front matter has to be a mapping", f"{place}:1")
    return value


def _fields(block: str, place: str) -> dict[str, Any]:
    import yaml

    if len(block) > MAX_BLOCK:
        raise RegistrationError(f"the front matter is longer than {MAX_BLOCK} characters", f"{place}:1")
    try:
        for token in yaml.scan(block):
            if isinstance(token, yaml.AliasToken | yaml.AnchorToken):
                line = token.start_mark.line + 1
                raise RegistrationError("the front matter uses a YAML alias (& or *)", f"{place}:{line}")
        fields = yaml.safe_load(block)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        why = getattr(error, "problem", None) or "not YAML"
        raise RegistrationError(f"the front matter cannot be read: {why}", f"{place}:{line}") from error
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise RegistrationError("the front matter has to be a mapping, like name: value", f"{place}:1")
    return fields
