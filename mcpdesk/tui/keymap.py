"""Keys that a person chose for actions: `keys.toml` in the configuration folder.

Each line has the id of an action and a key, or a list of keys: `"traffic.filter" = "ctrl+f"`. `g x` is a
sequence of two keys. An action with an empty list has no key. The palette and the action menu still contain
it. `mcpdesk keys` lists all ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from textual.binding import Binding
from textual.keys import Keys, format_key

from mcpdesk.tui.action import Action
from mcpdesk.tui.actions import ACTIONS, BY_ID, NO_KEY, OUTER_SCOPES, key_name
from mcpdesk.tui.sequences import PREFIXES

FILE_NAME = "keys.toml"
MAX_BYTES = 64_000
"""Maximum size of the file in bytes."""
MAX_KEYS = 8
"""Maximum number of keys of one action."""
_MODIFIERS = ("ctrl", "shift", "alt")
_KEY_NAMES = frozenset(key.value for key in Keys)
_CHARACTER_NAMES = {",": "comma", " ": "space", "+": "plus"}
"""Separators in the notation of keys, which must be written by name -> their names."""


class Conflict(Struct, frozen=True):
    """Key that conflicts with another action that can be active at the same time.

    The other action has the same key, or a sequence that begins with the key and can therefore not be typed.
    The file sets the keys of at least one of the two actions.
    """

    key: str
    action: str
    """Id of the action with the key."""
    other: str
    """Id of the other action."""
    hidden: str = ""
    """Sequence of the other action that begins with the key, such as `g s`. Empty if both have the key."""

    def __str__(self) -> str:
        if self.hidden:
            return f"{self.key} of {self.action} hides {self.hidden} of {self.other}"
        return f"two actions have the key {self.key}: {self.action} and {self.other}"


class Keymap(Struct, frozen=True):
    """Contents of the file. Entries that are invalid are left out and reported."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys by id of the action, separated by commas. Empty if the action has no key."""
    problems: tuple[str, ...] = ()
    """Messages about invalid entries, each with file and line."""

    def keys_of(self, action: Action) -> str:
        """Return the keys of an action, separated by commas."""
        return self.keys.get(action.id, action.keys)

    @property
    def textual(self) -> dict[str, str]:
        """Keymap for `App.set_keymap`."""
        return {name: keys or NO_KEY for name, keys in self.keys.items()}

    @property
    def conflicts(self) -> list[Conflict]:
        """Conflicts that the file causes. Conflicts between two keys of the program itself are not listed."""
        conflicts = []
        for name in self.keys:
            action = BY_ID[name]
            for other in ACTIONS:
                if other.id == name or not _are_active_together(action.scope, other.scope):
                    continue
                if other.id in self.keys and other.id < name:
                    continue  # this pair is compared when the outer loop reaches the other action
                own_keys = _normalized_keys(self.keys[name])
                other_keys = _normalized_keys(self.keys_of(other))
                conflicts += [Conflict(key, name, other.id) for key in sorted(own_keys & other_keys)]
                conflicts += _hidden_sequences(name, own_keys, other.id, other_keys)
                conflicts += _hidden_sequences(other.id, other_keys, name, own_keys)
        return conflicts


def _hidden_sequences(name: str, keys: Set[str], other: str, sequences: Set[str]) -> Iterator[Conflict]:
    """Yield a conflict for each of the `sequences` of `other` that begins with one of the keys of `name`."""
    for sequence in sorted(sequences):
        prefix, _, second = sequence.partition(" ")
        if second and prefix in keys:
            yield Conflict(prefix, name, other, sequence)


def read_keymap(path: Path) -> Keymap:
    """Read the file. Return an empty keymap if it does not exist. `problems` reports invalid contents."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return Keymap()
    except OSError as error:
        return Keymap(problems=(f"{path.name} cannot be read: {error.strerror}",))
    if len(data) > MAX_BYTES:
        return Keymap(problems=(f"{path.name} is larger than {MAX_BYTES:,} bytes and was ignored",))
    import tomllib

    try:
        text = data.decode()
        entries = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Keymap(problems=(f"{path.name}, line {line}: not UTF-8, so no key was changed",))
    except tomllib.TOMLDecodeError as error:
        return Keymap(problems=(_syntax_problem(path.name, text, str(error)),))
    keys: dict[str, str] = {}
    problems = []
    for name, value in _flat_entries(entries):
        try:
            keys[_checked_id(name)] = ",".join(_checked_keys(value))
        except ValueError as error:
            problems.append(f"{path.name}, line {_line_of(text, name)}: {error}")
    return Keymap(keys, tuple(problems))


def _flat_entries(entries: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield ids and values. An id without quotes, as in `traffic.filter = "f"`, is a table of TOML."""
    for name, value in entries.items():
        if isinstance(value, dict):
            yield from _flat_entries(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _checked_id(name: str) -> str:
    """Return `name` if it is the id of an action. Raises: ValueError with a similar id."""
    if name in BY_ID:
        return name
    import difflib

    similar_ids = difflib.get_close_matches(name, BY_ID, 1)
    hint = f"did you mean {similar_ids[0]!r}?" if similar_ids else "`mcpdesk keys` lists all ids"
    raise ValueError(f"no action has the id {name!r}; {hint}")


def _checked_keys(value: Any) -> list[str]:
    """Return valid keys in Textual's notation. Raises: ValueError."""
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(key, str) for key in values):
        raise ValueError(f"the value must be a key or a list of keys, not {value!r}"[:200])
    if len(values) > MAX_KEYS:
        raise ValueError(f"{len(values)} keys; an action can have at most {MAX_KEYS}")
    return [_checked_key(key) for key in values]


def _checked_key(text: str) -> str:
    """Return a key, or a sequence such as `g x`. Raises: ValueError."""
    parts = text.split(" ")
    if len(parts) != 2 or not all(parts):
        return _checked_single_key(text)
    prefix, second = (_long_name(_checked_single_key(part)) for part in parts)
    if prefix not in PREFIXES:
        raise ValueError(f"{text!r}: a sequence must begin with {', '.join(map(key_name, PREFIXES))}")
    return f"{prefix} {second}"


def _long_name(key: str) -> str:
    """Return the name that Textual gives to a key: `right_square_bracket` for `]`."""
    return next(iter(Binding.make_bindings([Binding(key, "")]))).key


def _checked_single_key(text: str) -> str:
    *modifiers, last = text.split("+") if len(text) > 1 else [text]
    unknown_modifiers = [modifier for modifier in modifiers if modifier not in _MODIFIERS]
    name = _CHARACTER_NAMES.get(last, last)
    is_known = len(name) == 1 or name in _KEY_NAMES or len(format_key(name)) == 1
    if unknown_modifiers or not is_known:
        raise ValueError(
            f"{text!r} is not a key; write one such as x, ctrl+x, alt+x, f5, enter or question_mark"
        )
    return "+".join([*modifiers, name])


def _normalized_keys(keys: str) -> set[str]:
    return set(map(_normalized_key, keys.split(","))) if keys else set()


def _normalized_key(key: str) -> str:
    """Return a key in one notation: `?` and `question_mark` are the same key."""
    names = []
    for part in key.split():
        *modifiers, last = part.split("+")
        names.append("+".join([*modifiers, format_key(last)]))
    return " ".join(names)


def _are_active_together(scope: str, other: str) -> bool:
    return scope == other or scope in _outer_scopes(other) or other in _outer_scopes(scope)


def _outer_scopes(scope: str) -> set[str]:
    """Return the scopes whose actions are active while a widget of `scope` has the focus."""
    scopes: set[str] = set()
    for outer in OUTER_SCOPES.get(scope, ()):
        scopes |= {outer} | _outer_scopes(outer)
    return scopes


def _line_of(text: str, name: str) -> int:
    """Return the line number of an entry. Return 1 if it is not found, because of an unusual notation."""
    last_part = name.rpartition(".")[2]
    for needle in (name, last_part):
        pattern = re.compile(rf"^\s*[\"']?[\w.\"']*{re.escape(needle)}[\"']?\s*=")
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.match(line):
                return number
    return 1


def _syntax_problem(file: str, text: str, message: str) -> str:
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", message)
    line = int(match[1]) if match and match[1] else len(text.splitlines())
    reason = message[: match.start()] if match else message
    return f"{file}, line {line}: {reason}, so no key was changed"
