"""`questions_json` to pages, within limits; every refusal names the place."""

from __future__ import annotations

from typing import Any

from mcpdesk.errors import HandlerError, ProtocolError
from mcpdesk.inbox.question import Option, Page
from mcpdesk.protocol import codec

QUESTIONS = (1, 8)
OPTIONS = (2, 9)
WANTED = 'must be a list of questions, or {"questions": [...]}'
TEXT_LIMIT = 4_000
"""Characters of a question or a description."""
LABEL_LIMIT = 200
"""Characters of a label or a header."""


def pages_from(text: str) -> tuple[Page, ...]:
    """The pages a JSON text describes: a list of questions, or an object with the list as `questions`.

    Raises: HandlerError naming the path and what is allowed there.
    """
    try:
        value = codec.decode(text.encode())
    except ProtocolError as error:
        raise HandlerError(f"questions_json: {WANTED}, as JSON. {error.message}") from None
    if isinstance(value, dict):
        value = value.get("questions")
    if not isinstance(value, list):
        raise HandlerError(f"questions_json: {WANTED}")
    _count("questions_json", value, QUESTIONS, "questions")
    return tuple(_page(f"questions[{index}]", each) for index, each in enumerate(value))


def _page(path: str, value: Any) -> Page:
    if not isinstance(value, dict):
        raise HandlerError(f"{path}: must be an object with question and options")
    options = value.get("options")
    if not isinstance(options, list):
        raise HandlerError(f"{path}.options: must be a list of strings or {{label, description}} objects")
    _count(f"{path}.options", options, OPTIONS, "options")
    many = value.get("multiSelect", False)
    if not isinstance(many, bool):
        raise HandlerError(f"{path}.multiSelect: must be true or false")
    return Page(
        _string(f"{path}.question", value.get("question"), TEXT_LIMIT),
        _string(f"{path}.header", value.get("header", ""), LABEL_LIMIT, required=False),
        _options(f"{path}.options", options),
        many,
    )


def _options(path: str, values: list[Any]) -> tuple[Option, ...]:
    options = tuple(_option(f"{path}[{index}]", each) for index, each in enumerate(values))
    labels = [option.label for option in options]
    for index, label in enumerate(labels):
        if label in labels[:index]:
            raise HandlerError(f"{path}[{index}]: two options are called {label!r}")
    return options


def _option(path: str, value: Any) -> Option:
    if isinstance(value, str):
        return Option(_string(path, value, LABEL_LIMIT))
    if not isinstance(value, dict):
        raise HandlerError(f"{path}: must be a string or an object with label and description")
    return Option(
        _string(f"{path}.label", value.get("label"), LABEL_LIMIT),
        _string(f"{path}.description", value.get("description", ""), TEXT_LIMIT, required=False),
    )


def _string(path: str, value: Any, limit: int, *, required: bool = True) -> str:
    if not isinstance(value, str) or (required and not value.strip()):
        raise HandlerError(f"{path}: must be {'a text' if required else 'a text, if given'}")
    if len(value) > limit:
        raise HandlerError(f"{path}: has {len(value)} characters; at most {limit} are allowed")
    return value.strip()


def _count(path: str, values: list[Any], allowed: tuple[int, int], what: str) -> None:
    least, most = allowed
    if not least <= len(values) <= most:
        raise HandlerError(f"{path}: has {len(values)} {what}; {least} to {most} are allowed")
