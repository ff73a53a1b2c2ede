"""Front matter: the YAML mapping between two lines `---` at the head of a text, and the text below it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from mcpdesk.errors import RegistrationError

if TYPE_CHECKING:
    import yaml

MAX_BLOCK = 64 << 10
"""The longest front matter in characters; YAML can expand a small text enormously."""
BYTE_ORDER_MARK = "\ufeff"


class TextDocument(Struct, frozen=True):
    """A text without its front matter, and the front matter."""

    body: str
    fields: dict[str, Any] = field(default_factory=dict)


def read_document(text: str, place: str) -> TextDocument:
    """Split a text into front matter and body. A text that does not start with `---` is all body.

    Raises: RegistrationError with `place:line` for a block that is not a plain YAML mapping.
    """
    import yaml

    block, body = _split(text, place)
    if block is None:
        return TextDocument(text)
    return TextDocument(body.lstrip("\n"), _fields(block, place, yaml.SafeLoader))


def verbatim_fields(text: str, place: str) -> dict[str, Any]:
    """The front matter as every language reads it into JSON: by the core schema of YAML 1.2.

    `yes` and `2026-01-31` are texts there; only `true` and `false` are truth values.
    Raises: RegistrationError with `place:line`, like `read_document` and for a text without front matter.
    """
    block, _ = _split(text.removeprefix(BYTE_ORDER_MARK), place)
    if block is None:
        raise RegistrationError(
            "it does not begin with front matter, like ---, name: value, ---", f"{place}:1"
        )
    fields: dict[str, Any] = _with_text_keys(_fields(block, place, _core_loader()))
    return fields


def _split(text: str, place: str) -> tuple[str | None, str]:
    if text.partition("\n")[0].rstrip() != "---":
        return None, text
    from frontmatter.default_handlers import YAMLHandler

    try:
        block, body = YAMLHandler().split(text)
    except ValueError:
        raise RegistrationError(
            "the front matter is not closed: a line --- is missing", f"{place}:1"
        ) from None
    return block, body


def _fields(block: str, place: str, loader: type[yaml.SafeLoader]) -> dict[str, Any]:
    import yaml

    if len(block) > MAX_BLOCK:
        raise RegistrationError(f"the front matter is longer than {MAX_BLOCK} characters", f"{place}:1")
    try:
        for token in yaml.scan(block):
            if isinstance(token, yaml.AliasToken | yaml.AnchorToken):
                line = token.start_mark.line + 1
                raise RegistrationError("the front matter uses a YAML alias (& or *)", f"{place}:{line}")
        fields = yaml.load(block, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        why = getattr(error, "problem", None) or "not YAML"
        raise RegistrationError(f"the front matter cannot be read: {why}", f"{place}:{line}") from error
    if fields is None:
        return {}
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise RegistrationError("the front matter must be a mapping, like name: value", f"{place}:1")
    return fields


@cache
def _core_loader() -> type[yaml.SafeLoader]:
    """A loader that takes for numbers and truth values what the core schema of YAML 1.2 does."""
    import yaml

    class CoreLoader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
        yaml_implicit_resolvers: dict[str, Any] = {}
        """None of those of YAML 1.1."""

    kinds = {
        "null": (r"~|null|Null|NULL|", "~nN\0"),
        "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
        "int": (r"[-+]?[0-9]+", "-+0123456789"),
        "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    }
    for kind, (pattern, first) in kinds.items():
        starts = [each.strip("\0") for each in first]
        CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})\\Z"), starts)
    CoreLoader.add_constructor(
        "tag:yaml.org,2002:int", lambda loader, node: int(loader.construct_scalar(node))
    )
    CoreLoader.add_constructor(
        "tag:yaml.org,2002:float", lambda loader, node: float(loader.construct_scalar(node))
    )
    return CoreLoader


def _with_text_keys(value: Any) -> Any:
    """A value as JSON has it: keys are texts."""
    if isinstance(value, dict):
        return {str(key): _with_text_keys(each) for key, each in value.items()}
    return [_with_text_keys(each) for each in value] if isinstance(value, list) else value
