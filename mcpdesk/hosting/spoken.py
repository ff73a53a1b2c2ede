"""What the library that converts values complains about, in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mcpdesk.hosting.places import Step

_WORDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "float": "a number",
          "array": "a list", "object": "an object", "null": "null"}  # fmt: skip


def spoken(message: str, choices: str = "") -> str:
    """A complaint; `choices` are what is allowed where only some texts are."""
    told = re.sub(r"`(\w+)( \| null)?`", lambda found: _WORDS.get(found[1], found[1]), message)
    told = told.replace("Expected", "has to be", 1).replace("Object missing required field", "lacks the key")
    if message.startswith("Invalid enum value"):
        return f"{message.removeprefix('Invalid enum value ')} is not allowed; allowed: {choices}"
    return told


def parted(error: Exception) -> tuple[str, str]:
    """What the library complains about, and the way to it as it writes it: `.run[1]`."""
    message, _, where = str(error).partition(" - at `$")
    return message, where.strip("`")


def joined(way: Iterable[Step]) -> str:
    """The way to a value, as people read it: `run[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in way).removeprefix(".")


def steps(trail: str) -> tuple[Step, ...]:
    """The way to a value, as the library writes it: `.run[1]` is `run`, 1. It leads as far as it is told."""
    found: list[Step] = []
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", trail):
        if index == "...":
            break
        found.append(int(index) if index else key)
    return tuple(found)
