"""Docstrings as descriptions: what the whole is for, and what each parameter means."""

from __future__ import annotations

import inspect
import re

from msgspec import Struct, field

SECTION = (
    r"(?m)^\s*(?:(?:Args|Arguments|Parameters|Params|Attributes|Returns|Raises|Yields|Examples?|Notes?)"
    r"\s*:?\s*$"
    r"|:param\b|:returns?:|:raises\b|@param\b)"
)
SHAPED = r"(?m)^(?:\s|[-*+>|#`~]|\d+[.)]\s)"
"""How a line begins whose place in the text means something."""


class Doc(Struct, frozen=True):
    """One docstring, read."""

    text: str = ""
    """Everything before its sections, paragraphs kept."""
    parameters: dict[str, str] = field(default_factory=dict)
    """One line each."""


def read_docstring(docstring: str | None) -> Doc:
    """Read a docstring in the styles of Google, NumPy, Sphinx and Epydoc; plain ones need no parser."""
    clean = inspect.cleandoc(docstring or "")
    if "\n" not in clean and clean[:1] not in (":", "@"):
        return Doc(clean)
    section = re.search(SECTION, clean)
    if section is None:
        return Doc(_flowing(clean))
    from docstring_parser import parse

    try:
        parsed = parse(clean)
    except Exception:  # the parser stumbles over some shapes; the text is there all the same
        return Doc(_flowing(clean))
    parameters = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    return Doc(_flowing(clean[: section.start()].rstrip()), parameters)


def _flowing(text: str) -> str:
    """Lines broken for the width of an editor as paragraphs; lists, tables and code stay as they are."""
    paragraphs = re.split(r"\n[ \t]*\n", text)
    return "\n\n".join(each if re.search(SHAPED, each) else each.replace("\n", " ") for each in paragraphs)
