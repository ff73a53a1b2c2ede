"""Definition of a setting: its kind, its limits, and the conversion of its values from and to text."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from mcpdesk.errors import DeskUserError

HIDDEN = "••••"
"""Text that is shown instead of a secret."""
MAX_NUMBER = 2**53
"""Default upper limit of a number."""


class SettingKind(StrEnum):
    """Type of a setting's value."""

    TEXT = "text"
    SECRET = "secret"
    INTEGER = "integer"
    BYTES = "bytes"
    DURATION = "duration"
    SWITCH = "switch"
    LIST = "list"
    PATH = "path"


class FolderUse(StrEnum):
    """Extent to which `mcp.json` and the env file of a server folder may set a setting."""

    NOT = "no"
    TIGHTEN = "stricter only"
    """Only values that do not loosen a policy are accepted. Other values are ignored."""
    SET = "yes"


class Setting(Struct, frozen=True):
    """Definition of a setting. `settings.SETTINGS` has one for each setting."""

    name: str
    kind: SettingKind
    default: Any
    environment: tuple[str, ...]
    """Names of the environment variables. If several are set, the first one is used."""
    help: str
    least: int = 0
    """Minimum of a number."""
    most: int = MAX_NUMBER
    """Maximum of a number."""
    pattern: str = ""
    """Regular expression that a text, or each item of a list, must match in full."""
    allowed: str = ""
    """Description of the pattern in words."""
    folder: FolderUse = FolderUse.NOT
    """Extent to which a server folder may set the setting. By default, a folder may not set it."""

    @property
    def flag(self) -> str:
        """Name of the command-line flag. Not every setting has such a flag."""
        return "--" + self.name.replace("_", "-")


class GivenValue(Struct, frozen=True):
    """Value from one origin, such as `environment PORT` or `flag --port`, not validated yet."""

    setting: Setting
    value: object
    origin: str


def value_text(setting: Setting, value: object) -> str:
    """Return a value as it is shown in the settings table and in errors. A secret is masked."""
    if setting.kind is SettingKind.SECRET and value:
        return HIDDEN
    if isinstance(value, bool):
        return "true" if value else "false"
    if setting.kind is SettingKind.DURATION and isinstance(value, int):
        return duration_text(value)
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None or value == "" else str(value)


def converted(setting_value: GivenValue) -> Any:
    """Return the value converted to the type of its setting. Raises: DeskUserError for an invalid value."""
    setting = setting_value.setting
    value = setting_value.value.strip() if isinstance(setting_value.value, str) else setting_value.value
    try:
        return CONVERTERS[setting.kind](setting, value)
    except (ValueError, TypeError, AttributeError):
        raise DeskUserError(
            f"{setting.name}: {quoted(setting, value)} ({setting_value.origin}) is not allowed.",
            f"Allowed: {allowed(setting)}.",
        ) from None


def allowed(setting: Setting) -> str:
    """Return a description of the values that a setting accepts."""
    match setting.kind:
        case SettingKind.INTEGER:
            if setting.most < MAX_NUMBER:
                return f"a whole number from {setting.least} to {setting.most}"
            return f"a whole number of {setting.least} or more"
        case SettingKind.BYTES:
            return f"a number of bytes, at least {setting.least}, such as 65536, 512K or 16M"
        case SettingKind.DURATION:
            return "a duration such as 90s, 30m, 12h, 7d or 4w; a number alone is seconds"
        case SettingKind.SWITCH:
            return "true or false"
        case SettingKind.LIST:
            return f"a list of {setting.allowed or 'texts'}, separated by commas"
        case SettingKind.PATH:
            return "a path"
        case SettingKind.TEXT | SettingKind.SECRET:
            return setting.allowed or "a text"


def quoted(setting: Setting, value: object) -> str:
    """Return a value as it is shown in the text of an error. A secret is masked."""
    return HIDDEN if setting.kind is SettingKind.SECRET else repr(value)


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
    match = re.fullmatch(r"(\d+)\s*(?:([kmg])(?:i?b)?)?", value, re.IGNORECASE)
    if match is None:
        raise ValueError
    return _integer(setting, int(match[1]) << UNIT_BITS[(match[2] or "").lower()])


def _duration(setting: Setting, value: Any) -> int:
    return _integer(setting, seconds_of(value) if isinstance(value, str) else value)


def seconds_of(text: str) -> int:
    """Parse a duration such as `7d` into seconds. Raises: ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a duration")
    return int(match["count"]) * UNIT_SECONDS[match["unit"] or "s"]


def duration_text(seconds: int) -> str:
    """Format a duration in the largest unit that needs no fraction."""
    larger_units = (unit for unit in "dhm" if seconds and not seconds % UNIT_SECONDS[unit])
    unit = next(larger_units, "s")
    return f"{seconds // UNIT_SECONDS[unit]}{unit}" if seconds else "0"


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
"""Words for true and false, alternating."""
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(rf"(?P<count>\d{{1,9}})(?P<unit>[{''.join(UNIT_SECONDS)}])?")
UNIT_BITS = {"": 0, "k": 10, "m": 20, "g": 30}
"""Number of bits by which a number of bytes is shifted, by unit."""
CONVERTERS: dict[SettingKind, Callable[[Setting, Any], Any]] = {
    SettingKind.TEXT: _text,
    SettingKind.SECRET: _text,
    SettingKind.INTEGER: _integer,
    SettingKind.BYTES: _bytes,
    SettingKind.DURATION: _duration,
    SettingKind.SWITCH: _switch,
    SettingKind.LIST: _list,
    SettingKind.PATH: _path,
}
