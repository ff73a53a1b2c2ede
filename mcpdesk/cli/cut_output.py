"""`--limit` of the commands that print a result: long texts are cut, and say how to get the rest."""

from __future__ import annotations

from typing import Any

import click

LIMIT = click.option(
    "--limit",
    "limit",
    type=click.IntRange(1),
    metavar="CHARACTERS",
    help="Cut each text of the result after this number of characters. Default: texts are not cut.",
)


def cut_text(text: str, limit: int | None) -> str:
    """Return the beginning of a text, with the number of missing characters. Without a limit, or if the text
    is shorter, return it unchanged.
    """
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit:,} more characters; omit --limit to get them]"


def cut_texts(value: Any, limit: int | None) -> Any:
    """Return a JSON value in which each string is cut. Keys are not cut."""
    if limit is None:
        return value
    if isinstance(value, str):
        return cut_text(value, limit)
    if isinstance(value, list):
        return [cut_texts(each, limit) for each in value]
    if isinstance(value, dict):
        return {key: cut_texts(each, limit) for key, each in value.items()}
    return value
