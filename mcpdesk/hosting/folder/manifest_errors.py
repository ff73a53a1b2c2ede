"""Error messages about `mcp.json`: line and column of a value, and complaints in plain words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from json import JSONDecoder

Step = str | int
"""A key of an object, or a position in a list."""
_SPACE = re.compile(r"[ \t\r\n]*")


class TextPosition(NamedTuple):
    """A line and a column, counted from 1; None when not found."""

    line: int | None = None
    column: int | None = None


class _Member(NamedTuple):
    step: Step
    start: int
    """The offset of its key; in a list, of the value."""
    value: int


def position_of(text: str, *trail: Step) -> TextPosition:
    """The position of a key or list item in a valid JSON text; of its nearest parent if it does not exist."""
    import json

    decoder = json.JSONDecoder()
    found, value = None, _skip(text, 0)
    for step in trail:
        # Of a key given twice the last one counts, as for the parser.
        members = [each for each in _members(text, value, decoder) if each.step == step]
        if not members:
            break
        found, value = members[-1].start, members[-1].value
    if found is None:
        return TextPosition()
    return TextPosition(text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found))


def _members(text: str, start: int, decoder: JSONDecoder) -> Iterator[_Member]:
    """The members of the object or list that begins at `start`; none of anything else."""
    kind = text[start : start + 1]
    if kind not in ("{", "["):
        return
    at = _skip(text, start + 1)
    index = 0
    while text[at : at + 1] not in ("}", "]", ""):
        begun: int = at
        step: Step = index
        if kind == "{":
            step, at = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)  # behind the colon
        yield _Member(step, begun, at)
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        index += 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


_WORDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "float": "a number",
          "array": "a list", "object": "an object", "null": "null"}  # fmt: skip


def in_plain_words(message: str, choices: str = "") -> str:
    """A complaint of msgspec in plain words. `choices` lists the allowed texts, where only some are."""
    told = re.sub(r"`(\w+)( \| null)?`", lambda found: _WORDS.get(found[1], found[1]), message)
    told = told.replace("Expected", "must be", 1).replace("Object missing required field", "lacks the key")
    if message.startswith("Invalid enum value"):
        return f"{message.removeprefix('Invalid enum value ')} is not allowed; allowed: {choices}"
    return told


def complaint_and_path(error: Exception) -> tuple[str, str]:
    """Split an error of msgspec into its complaint and the path to the value, like `.run[1]`."""
    message, _, where = str(error).partition(" - at `$")
    return message, where.strip("`")


def path_text(way: Iterable[Step]) -> str:
    """A path as people read it: `run[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way).removeprefix(".")


def path_steps(trail: str) -> tuple[Step, ...]:
    """The steps of a path as msgspec writes it: `.run[1]` is `run`, 1. Stops at `[...]`."""
    found: list[Step] = []
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", trail):
        if index == "...":
            break
        found.append(int(index) if index else key)
    return tuple(found)
