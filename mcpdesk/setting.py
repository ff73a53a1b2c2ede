"""One setting: how it is written, what it may be, and how it is shown. Knows nothing of the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcpdesk.errors import DeskUserError

UNSHOWN = "••••"
"""Stands for a secret wherever a value is shown."""


class Kind(StrEnum):
    """How a setting is written."""

    TEXT = "text"
    SECRET = "secret"
    INTEGER = "integer"
    BYTES = "bytes"
    SWITCH = "switch"
    LIST = "list"
    PATH = "path"


class Setting(Struct, frozen=True):
    """One row of the table."""

    name: str
    kind: Kind
    default: Any
    environment: tuple[str, ...]
    """Names of the environment variables; the first that is set wins."""
    help: str
    least: int = 0
    most: int = 2**53
    pattern: str = ""
    """What a text, or each text of a list, has to match in full."""
    allowed: str = ""
    """The pattern in words."""
    from_folder: bool = True
    """False: a server folder may not set it, only the person who starts the program."""

    @property
    def flag(self) -> str:
        """The name of the flag, where a command has one."""
        return "--" + self.name.replace("_", "-")


class Given(Struct, frozen=True):
    """One value somebody gave, before it is checked. `origin` reads `environment PORT`, `flag --port` ..."""

    setting: Setting
    value: object
    origin: str


def shown(setting: Setting, value: object) -> str:
    """A value as the settings table and the errors show it; a secret stays one."""
    if setting.kind is Kind.SECRET and value:
        return UNSHOWN
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def converted(given: Given) -> Any:
    """The value in its setting's type.

    Raises: DeskUserError when it is not allowed.
    """
    setting = given.setting
    value = given.value.strip() if isinstance(given.value, str) else given.value
    try:
        return CONVERTERS[setting.kind](setting, value)
    except (ValueError, TypeError, AttributeError):
        raise DeskUserError(
            f"{setting.name}: {quoted(setting, value)} ({given.origin}) is not allowed.",
            f"Allowed: {allowed(setting)}.",
        ) from None


def allowed(setting: Setting) -> str:
    """What a setting may be, in words."""
    match setting.kind:
        case Kind.INTEGER:
            return f"a whole number from {setting.least} to {setting.most}"
        case Kind.BYTES:
            return f"a number of bytes, at least {setting.least}, such as 65536, 512K or 16M"
        case Kind.SWITCH:
            return "true or false"
        case Kind.LIST:
            return f"a list of {setting.allowed or 'texts'}, separated by commas"
        case Kind.PATH:
            return "a path"
        case Kind.TEXT | Kind.SECRET:
            return setting.allowed or "a text"


def quoted(setting: Setting, value: object) -> str:
    """A value for an error's text; a secret stays one."""
    return UNSHOWN if setting.kind is Kind.SECRET else repr(value)


def _text(setting: Setting, value: Any) -> str:
    if not isinstance(value, str) or (setting.pattern and not re.fullmatch(setting.pattern, value)):
        raise ValueError
    return value


def _integer(setting: Setting, value: Any) -> int:
    if isinstance(value, bool | float):
        raise ValueError
    number = int(value)
    if not setting.least <= number <= setting.most:
        raise ValueError
    return number


def _bytes(setting: Setting, value: Any) -> int:
    if not isinstance(value, str):
        return _integer(setting, value)
    found = re.fullmatch(r"(\d+)\s*(?:([kmg])(?:i?b)?)?", value, re.IGNORECASE)
    if found is None:
        raise ValueError
    return _integer(setting, int(found[1]) << UNIT_BITS[(found[2] or "").lower()])


def _switch(setting: Setting, value: Any) -> bool:
    return value if isinstance(value, bool) else SWITCH_WORDS.index(value.lower()) % 2 == 0


def _list(setting: Setting, value: Any) -> tuple[str, ...]:
    items = re.split(r"[,\s]+", value) if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError
    if setting.pattern and not all(re.fullmatch(setting.pattern, item) for item in items if item):
        raise ValueError
    return tuple(item for item in items if item)


def _path(setting: Setting, value: Any) -> Path:
    return Path(value).expanduser()


SWITCH_WORDS = ("true", "false", "1", "0", "yes", "no", "on", "off")
UNIT_BITS = {"": 0, "k": 10, "m": 20, "g": 30}
CONVERTERS: dict[Kind, Callable[[Setting, Any], Any]] = {
    Kind.TEXT: _text,
    Kind.SECRET: _text,
    Kind.INTEGER: _integer,
    Kind.BYTES: _bytes,
    Kind.SWITCH: _switch,
    Kind.LIST: _list,
    Kind.PATH: _path,
}
