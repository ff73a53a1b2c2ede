"""Insertion of taps before the servers in a client's JSON configuration file, and removal of taps.

The text is edited in place, so that comments, order and spacing are kept. The inserted text can be recognized
even if other parts of the file changed afterwards. Positions are found in `plain`, a copy of the text with
spaces in place of comments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from mcpdesk.client.config_files import without_comments
from mcpdesk.client.configs.formats import sections
from mcpdesk.client.configs.own_program import own_arguments

TAP = ("stdio", "--")
"""Arguments between this program's command and the server's command."""
URLS = frozenset({"url", "httpUrl", "serverUrl", "uri"})
"""Keys with the URL of a server that the client does not start."""
NO_PROGRAM = "this file starts no program for it"
_ARGS_MEMBER = ', "args": '
"""Text between the command of an entry and the arguments that `wrapped` adds to it."""
_EMPTY = " "
"""Blank before `]`. It marks that the entry already had an empty list of arguments before the insertion."""
_decode = json.JSONDecoder().raw_decode
_WHITESPACE = " \t\r\n"


class ConfigEdit(Struct, frozen=True):
    """Edited text, with the servers that were changed and those that were not."""

    text: str
    changed: tuple[str, ...]
    """Names of the changed servers."""
    unchanged: Mapping[str, str]
    """Reasons why servers were not changed, by name of the server."""


class _Value(Struct, frozen=True):
    """A JSON value and its position in the text. `stop` is exclusive."""

    value: Any
    start: int
    stop: int


class _Edit(Struct, frozen=True):
    """Replacement of a part of the text by `text`. `stop` is exclusive."""

    start: int
    stop: int
    text: str


def wrapped(text: str, command: Sequence[str], names: Collection[str] = ()) -> ConfigEdit:
    """Insert the tap, started by `command`, before the servers in `names` that are programs.

    If `names` is empty, insert the tap before every program. `text` must be a valid configuration.
    """
    plain = without_comments(text)
    edits: list[_Edit] = []
    changed, unchanged = list[str](), dict[str, str]()
    for name, server in _servers(plain):
        if names and name not in names:
            continue
        if reason := _unchanged_reason(server):
            unchanged[name] = reason
        elif isinstance(server["command"].value, list):
            list_start = _elements(plain, server["command"].start)[0].start
            tap_text = "".join(f"{json.dumps(word)}, " for word in (*command, *TAP))
            edits.append(_Edit(list_start, list_start, tap_text))
            changed.append(name)
        else:
            edits.append(_insertion(text, plain, server, command))
            edits.append(_Edit(server["command"].start, server["command"].stop, json.dumps(command[0])))
            changed.append(name)
    return ConfigEdit(_apply_edits(text, edits), tuple(changed), unchanged)


def unwrapped(text: str) -> ConfigEdit:
    """Remove the tap from all servers."""
    plain = without_comments(text)
    edits: list[_Edit] = []
    changed: list[str] = []
    for name, server in _servers(plain):
        if not (position := _command_position(server)):
            continue
        command = server["command"]
        if isinstance(command.value, list):
            elements = _elements(plain, command.start)
            edits.append(_Edit(elements[0].start, elements[position].start, ""))
            changed.append(name)
        else:
            elements = _elements(plain, server["args"].start)
            original = elements[position]
            edits.append(_removal(text, server, elements, position))
            edits.append(_Edit(command.start, command.stop, text[original.start : original.stop]))
            changed.append(name)
    return ConfigEdit(_apply_edits(text, edits), tuple(changed), {})


def repaired(text: str, command: Sequence[str], is_dead: Callable[[Sequence[str]], bool]) -> ConfigEdit:
    """Replace the command of each entry that starts `mcpdesk stdio`, if `is_dead(command)` returns True.

    The other parts of an entry are unchanged, so that `unwrapped` still finds the text that `wrapped`
    inserted.
    """
    plain = without_comments(text)
    edits: list[_Edit] = []
    changed: list[str] = []
    for name, server in _servers(plain):
        if "command" not in server:
            continue
        program = server["command"].value
        is_list = isinstance(program, list)  # OpenCode
        args = server["args"].value if "args" in server else None
        words = program if is_list else [program, *(args if isinstance(args, list) else [])]
        own_words = own_arguments(words[0], words[1:]) if words else None
        if own_words is None or words[len(own_words) + 1 : len(own_words) + 2] != ["stdio"]:
            continue
        if not is_dead((words[0], *own_words)):
            continue
        elements = _elements(plain, server["command" if is_list else "args"].start)
        new_words = command if is_list else command[1:]
        own_count = len(own_words) + 1 if is_list else len(own_words)
        stop = elements[own_count].start
        edits.append(_Edit(elements[0].start, stop, "".join(f"{json.dumps(word)}, " for word in new_words)))
        if not is_list:
            edits.append(_Edit(server["command"].start, server["command"].stop, json.dumps(command[0])))
        changed.append(name)
    return ConfigEdit(_apply_edits(text, edits), tuple(changed), {})


def server_names(text: str) -> list[str]:
    """Return the names of all servers."""
    return [name for name, _ in _servers(without_comments(text))]


def _unchanged_reason(server: Mapping[str, _Value]) -> str:
    """Return the reason why no tap can be inserted before a server, or ""."""
    if _command_position(server):
        return "it is already behind the tap"
    if "command" not in server:
        is_remote = not URLS.isdisjoint(server)
        return "it is reached by a URL, so no program is started" if is_remote else NO_PROGRAM
    command = server["command"].value
    args = server["args"].value if "args" in server else None
    if isinstance(command, list):  # OpenCode
        if not command or not all(isinstance(word, str) for word in command):
            return "its command is not a list of texts"
        command, args = command[0], command[1:]
    if not isinstance(command, str) or not isinstance(args, list | None):
        return "its command and args are not a text and a list"
    if is_served(command, args or []):
        return "it is served by mcpdesk, whose desk shows it"
    return ""


def _command_position(server: Mapping[str, _Value]) -> int:
    """Return the index of the server's own command in the arguments, or 0 if the entry has no tap.

    If the entry's command is a list, return the index in that list.
    """
    if "command" not in server:
        return 0
    command = server["command"].value
    if isinstance(command, list):  # OpenCode
        tap_words = tap_of(command[0], command[1:]) if command else ()
        return len(tap_words) + 1 if tap_words else 0
    return len(tap_of(command, server["args"].value)) if "args" in server else 0


def tap_of(command: object, args: object) -> tuple[str, ...]:
    """Return the first arguments of an entry if they start the tap, or else an empty tuple."""
    own_words = own_arguments(command, args)
    if own_words is None or not isinstance(args, list):
        return ()
    tap_words = (*own_words, *TAP)
    return tap_words if tuple(args[: len(tap_words)]) == tap_words and len(args) > len(tap_words) else ()


def is_served(command: str, args: Sequence[Any]) -> bool:
    """Return True if an entry starts `mcpdesk stdio`, which serves folders or is a tap."""
    return own_arguments(command, list(args)) is not None and "stdio" in args


def _insertion(text: str, plain: str, server: Mapping[str, _Value], command: Sequence[str]) -> _Edit:
    """Return the edit that inserts the tap and the server's own command at the start of the arguments.

    The server's own command keeps its JSON text.
    """
    original = server["command"]
    words = [*map(json.dumps, (*command[1:], *TAP)), text[original.start : original.stop]]
    words_text = ", ".join(words)
    if "args" not in server:
        return _Edit(original.stop, original.stop, f"{_ARGS_MEMBER}[{words_text}]")
    args = server["args"]
    if args.value is None:
        return _Edit(args.start, args.stop, f"[{words_text}{_EMPTY}]")
    elements = _elements(plain, args.start)
    if not elements:
        return _Edit(args.start + 1, args.start + 1, f"{words_text}{_EMPTY}")
    return _Edit(elements[0].start, elements[0].start, f"{words_text}, ")


def _removal(text: str, server: Mapping[str, _Value], elements: Sequence[_Value], position: int) -> _Edit:
    """Return the edit that removes the tap and the server's own command from the arguments.

    `elements` are the arguments, and `position` is the index of the server's own command. If `wrapped`
    inserted the whole list, the edit removes the list.
    """
    command, args = server["command"], server["args"]
    first, last = elements[0], elements[position]
    if position + 1 < len(elements):
        return _Edit(first.start, elements[position + 1].start, "")
    has_only_inserted = text[args.start : args.stop] == f"[{text[first.start : last.stop]}]"
    if has_only_inserted and text[command.stop : args.start] == _ARGS_MEMBER:
        return _Edit(command.stop, args.stop, "")
    had_empty_list = text.startswith(f"{_EMPTY}]", last.stop)
    return _Edit(first.start, last.stop + (len(_EMPTY) if had_empty_list else 0), "")


def _apply_edits(text: str, edits: Sequence[_Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.stop), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.stop :]
    return text


def _servers(plain: str) -> Iterator[tuple[str, dict[str, _Value]]]:
    """Yield every server with its members, from all sections. In Claude Code, each project has a section."""
    for section in sections(json.loads(plain)):
        start = _skip_blanks(plain, 0)
        for key in section.keys:
            start = _members(plain, start)[key].start
        if plain[start] != "{":
            continue
        for name, server in _members(plain, start).items():
            if isinstance(server.value, dict):
                yield name, _server_members(plain, server)
            else:
                yield name, {}


def _server_members(plain: str, server: _Value) -> dict[str, _Value]:
    """Return the members of a server. In older versions of Zed, its command is an object with `path`."""
    members = _members(plain, server.start)
    if "command" not in members or not isinstance(members["command"].value, dict):
        return members
    nested = _members(plain, members["command"].start)
    new_names = {"path": "command", "args": "args"}
    return {new_name: nested[name] for name, new_name in new_names.items() if name in nested}


def _members(plain: str, start: int) -> dict[str, _Value]:
    """Return the members of the object that begins at `start`."""
    members: dict[str, _Value] = {}
    position = _skip_blanks(plain, start + 1)
    while plain[position] != "}":
        key, position = _decode(plain, position)
        members[key] = value = _value(plain, _skip_blanks(plain, position) + 1)
        position = _next_position(plain, value)
    return members


def _elements(plain: str, start: int) -> list[_Value]:
    """Return the elements of the array that begins at `start`."""
    elements: list[_Value] = []
    position = _skip_blanks(plain, start + 1)
    while plain[position] != "]":
        elements.append(_value(plain, position))
        position = _next_position(plain, elements[-1])
    return elements


def _value(plain: str, position: int) -> _Value:
    """Return the value that begins at or after `position`."""
    start = _skip_blanks(plain, position)
    value, stop = _decode(plain, start)
    return _Value(value, start, stop)


def _next_position(plain: str, value: _Value) -> int:
    """Return the position of the next member or element after a value, or of the closing bracket."""
    position = _skip_blanks(plain, value.stop)
    return _skip_blanks(plain, position + 1) if plain[position] == "," else position


def _skip_blanks(plain: str, position: int) -> int:
    """Return the position of the next character that is not blank."""
    while plain[position] in _WHITESPACE:
        position += 1
    return position
