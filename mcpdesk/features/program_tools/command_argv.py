"""Argument list (argv) of one call of a command.

Each element of `run` is a template with placeholders. Values replace the placeholders; no shell reads the
result. A list becomes one element per item, and the flag before the list is repeated for each item. A boolean
that follows a flag includes or omits that flag. Numbers and objects are written as JSON. A missing value,
null or an empty list removes its element and the flag before the element.

A value can never become an option. A value that begins with `-` is rejected, except in three cases: it is a
number after a flag, it follows text of the author in the same element, or it comes after `--` in `run`. The
author is the person who wrote the `mcp.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct

from mcpdesk.errors import BadArgument

_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}|[{}]")
"""Double braces, a placeholder with its name, or a single brace."""
_FIXED_FLAG = re.compile(r"--[^=]+=|-[^-].*", re.DOTALL)
"""Text of an option that may precede a placeholder, because the name of the option is already complete."""
END_OF_OPTIONS = "--"
MIN_EXPONENT_INTEGER = 10**16
"""Smallest whole number that JSON writes with an exponent if it is a float."""


class Placeholder(Struct, frozen=True):
    """Placeholder in a template, with the name of its parameter."""

    name: str


Template = tuple[str | Placeholder, ...]
"""Texts and placeholders of one element of `run`. No text is empty."""


def parse_template(text: str) -> Template:
    """Parse a text with `{placeholders}`. Double braces, `{{` and `}}`, stand for literal braces.

    Raises: ValueError for an unmatched brace.
    """
    parts: list[str | Placeholder] = []
    plain = ""
    end = 0
    for match in _BRACES.finditer(text):
        plain += text[end : match.start()]
        end = match.end()
        if match[1]:
            parts += [plain, Placeholder(match[1])] if plain else [Placeholder(match[1])]
            plain = ""
        elif match[0] in ("{{", "}}"):
            plain += match[0][0]
        else:
            raise ValueError(f"{text!r} has a {match[0]!r} that is not a placeholder; write it twice")
    plain += text[end:]
    return (*parts, plain) if plain else tuple(parts)


def names_in(template: Template) -> list[str]:
    """Return the names of the placeholders in a template."""
    return [part.name for part in template if isinstance(part, Placeholder)]


def check_template(template: Template) -> None:
    """Check one element of `run`. Raises: ValueError if a value could change the name of an option."""
    prefix = template[0] if template and isinstance(template[0], str) else ""
    if len(template) > 1 and prefix.startswith("-") and not _FIXED_FLAG.match(prefix):
        raise ValueError(
            f"a value must not become the name of an option: {prefix!r} is followed by a placeholder; "
            'write "--name={value}"'
        )


def is_flag_text(text: str) -> bool:
    """Return True if an element is a flag, which is an option whose value may be the next element."""
    return text.startswith("-") and text != "-" and "=" not in text


def build(run: Sequence[Template], values: Mapping[str, Any], fixed: Mapping[str, str]) -> list[str]:
    """Build the argument list of one call.

    `values` has the arguments of the call. `fixed` has the values of mcpdesk's own placeholders, which are
    trusted like text of the author. Raises: BadArgument that names the unusable argument.
    """
    argv: list[str] = []
    flag: str | None = None
    is_after_end = False
    for template in run:
        names = names_in(template)
        argument_names = [name for name in names if name not in fixed]
        if not argument_names:
            argv += [flag] if flag is not None else []
            text = "".join(_fixed_text(part, fixed) for part in template)
            is_after_end = is_after_end or text == END_OF_OPTIONS
            is_flag = is_flag_text(text) and not is_after_end and not names
            flag = text if is_flag else None
            argv += [] if is_flag else [text]
            continue
        argv += _elements(template, values, fixed, flag, is_after_end)
        flag = None
    return [*argv, flag] if flag is not None else argv


def texts_of(name: str, value: Any) -> list[str]:
    """Convert one value to texts. The list is empty for a missing value.

    Raises: BadArgument for a value that cannot be passed to a program.
    """
    if value is None:
        return []
    return [_text(name, each) for each in (value if isinstance(value, list) else [value])]


def _elements(
    template: Template,
    values: Mapping[str, Any],
    fixed: Mapping[str, str],
    flag: str | None,
    is_after_end: bool,
) -> list[str]:
    """Return the elements for one template with arguments, each after `flag` if it is not None.

    `is_after_end` is True after `--` in `run`.
    """
    parameter = template[0].name if len(template) == 1 and isinstance(template[0], Placeholder) else None
    if parameter is not None and flag is not None and isinstance(values.get(parameter), bool):
        return [flag] if values[parameter] else []
    columns = [[part] if isinstance(part, str) else _texts_for(part.name, values, fixed) for part in template]
    is_number = parameter is not None and flag is not None and _is_number(values.get(parameter))
    elements: list[str] = []
    for row in product(*columns):
        text = "".join(row)
        if text.startswith("-") and not (_begins_with_text(template, fixed) or is_after_end or is_number):
            name = next(name for name in names_in(template) if name not in fixed)
            raise BadArgument(name, f"{_quoted_start(text)} begins with '-' and would be taken for an option")
        elements += [text] if flag is None else [flag, text]
    return elements


def _begins_with_text(template: Template, fixed: Mapping[str, str]) -> bool:
    """Return True if a template begins with text of the author or with a value in `fixed`."""
    first_part = template[0]
    return isinstance(first_part, str) or bool(fixed.get(first_part.name))


def _fixed_text(part: str | Placeholder, fixed: Mapping[str, str]) -> str:
    return part if isinstance(part, str) else fixed[part.name]


def _texts_for(name: str, values: Mapping[str, Any], fixed: Mapping[str, str]) -> list[str]:
    return [fixed[name]] if name in fixed else texts_of(name, values.get(name))


def _is_number(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)


def _text(name: str, value: Any) -> str:
    """Convert a value that is not a list to text. Raises: BadArgument."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MIN_EXPONENT_INTEGER:
        value = int(value)  # JSON does not distinguish 3.0 from 3, but a program may accept only 3
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\0" in text:
        raise BadArgument(name, "must not contain a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadArgument(
            name, f"{_quoted_start(text)} contains an unpaired surrogate, which is not a character"
        ) from None
    return text


def _quoted_start(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")
