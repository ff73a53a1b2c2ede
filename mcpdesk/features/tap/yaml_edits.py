"""Insertion of taps into YAML configuration files (Goose, Continue), and removal of taps.

The text is edited at the positions that the parser reports. An edit is used only if the edited file parses
exactly to the expected content. Otherwise the entry is not changed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from mcpdesk.client.config_files import from_yaml
from mcpdesk.client.configs.formats import sections
from mcpdesk.client.configs.own_program import own_arguments
from mcpdesk.features.tap.json_edits import NO_PROGRAM, TAP, ConfigEdit, is_served, tap_of
from mcpdesk.protocol.catalogue.bounded_yaml import YamlFault

NOT_EDITED = "its form cannot be edited"
_COMMAND_KEYS = ("command", "cmd")
_EMPTY = " "
"""Blank before `]`. It marks that the entry already had a key `args` without elements, which `unwrapped` then
keeps.
"""
_Edits = list[tuple[int, int, str]]
"""Edits of a text: start, exclusive end, and replacement."""


class _Server(Struct, frozen=True):
    """Entry of a server, and its position in the file."""

    name: str
    keys: tuple[str | int, ...]
    """Keys and indexes from the root of the file to the entry."""
    entry: Mapping[str, Any]

    @property
    def command_key(self) -> str:
        """Key of the entry's command, or "" if the entry has none."""
        return next((key for key in _COMMAND_KEYS if self.entry.get(key) is not None), "")

    @property
    def tap(self) -> tuple[str, ...]:
        """Arguments that start the tap, or an empty tuple if the server has no tap."""
        return tap_of(self.entry.get(self.command_key), self.entry.get("args"))


def wrapped(text: str, command: Sequence[str], names: Collection[str] = ()) -> ConfigEdit:
    """Insert the tap before the servers in `names` that are programs, or before every program."""
    changed, unchanged = list[str](), dict[str, str]()
    for server in _servers(text):
        if names and server.name not in names:
            continue
        if reason := _unchanged_reason(server):
            unchanged[server.name] = reason
            continue
        program = server.entry[server.command_key]
        args = [*command[1:], *TAP, program, *(server.entry.get("args") or ())]
        expected = {**server.entry, server.command_key: command[0], "args": args}
        edited = _edited(text, server, partial(_with_tap, text, server.command_key, command), expected)
        if edited is None:
            unchanged[server.name] = f"{NOT_EDITED}; add the tap by hand"
        else:
            text = edited
            changed.append(server.name)
    return ConfigEdit(text, tuple(changed), unchanged)


def unwrapped(text: str) -> ConfigEdit:
    """Remove the tap from all servers."""
    changed: list[str] = []
    for server in _servers(text):
        if not (tap_args := server.tap):
            continue
        command, *args = server.entry["args"][len(tap_args) :]
        restored = {**server.entry, server.command_key: command, "args": args}
        # `wrapped` may have added the key `args`, or the entry may have had an empty list.
        without_args = {key: value for key, value in restored.items() if key != "args" or args}
        remove = partial(_without_tap, text, server.command_key, tap_args)
        edited = _edited(text, server, remove, restored) or _edited(text, server, remove, without_args)
        if edited is not None:
            text = edited
            changed.append(server.name)
    return ConfigEdit(text, tuple(changed), {})


def repaired(text: str, command: Sequence[str], is_dead: Callable[[Sequence[str]], bool]) -> ConfigEdit:
    """Replace the command of each entry that starts `mcpdesk stdio`, if `is_dead(command)` returns True."""
    changed, unchanged = list[str](), dict[str, str]()
    for server in _servers(text):
        program: Any = server.entry.get(server.command_key)
        args: Any = server.entry.get("args")
        own_args = own_arguments(program, args)
        if own_args is None or args[len(own_args) : len(own_args) + 1] != ["stdio"]:
            continue
        if not is_dead((program, *own_args)):
            continue
        replace_program = partial(_with_program, text, server.command_key, len(own_args), command)
        expected = {
            **server.entry,
            server.command_key: command[0],
            "args": [*command[1:], *args[len(own_args) :]],
        }
        if (edited := _edited(text, server, replace_program, expected)) is None:
            unchanged[server.name] = NOT_EDITED
        else:
            text = edited
            changed.append(server.name)
    return ConfigEdit(text, tuple(changed), unchanged)


def _with_program(text: str, key: str, count: int, command: Sequence[str], entry: Any) -> _Edits:
    """Return edits that replace a command and the first `count` arguments, or [] for an unsupported form.

    `entry` is the parsed node of the server, and `key` the key of its command.
    """
    command_node, args_node = _value_node(entry, key), _value_node(entry, "args")
    if command_node is None or args_node is None:
        return []
    if args_node.id != "sequence" or not _is_one_line(command_node, text):
        return []
    elements, words = args_node.value, list(map(json.dumps, command[1:]))
    start, stop = _span(elements[0])[0], _span(elements[count])[0]
    new_text = "".join(f"{word}, " for word in words)
    if not args_node.flow_style:  # a block list: the edit begins at a dash
        start, stop = text.rfind("-", 0, start), text.rfind("-", 0, stop)
        line_start = _new_line(text, args_node.start_mark.column, start)
        new_text = "".join(f"- {word}{line_start}" for word in words)
    return [(*_span(command_node), json.dumps(command[0])), (start, stop, new_text)]


def server_names(text: str) -> list[str]:
    """Return the names of all servers."""
    return [server.name for server in _servers(text)]


def _servers(text: str) -> list[_Server]:
    servers: list[_Server] = []
    for section in sections(from_yaml(text)):
        for position, (name, entry) in enumerate(section.entries):
            key = position if section.format.is_list else name
            servers.append(_Server(name, (*section.keys, key), entry if isinstance(entry, dict) else {}))
    return servers


def _unchanged_reason(server: _Server) -> str:
    """Return the reason why no tap can be inserted before a server, or ""."""
    if server.tap:
        return "it is already behind the tap"
    if not server.command_key:
        return NO_PROGRAM
    command, args = server.entry[server.command_key], server.entry.get("args")
    if not isinstance(command, str) or not isinstance(args, list | None):
        return "its command and args are not a text and a list"
    if is_served(command, args or []):
        return "it is served by mcpdesk, whose desk shows it"
    return ""


def _with_tap(text: str, key: str, command: Sequence[str], entry: Any) -> _Edits:
    """Return edits that insert the tap into an entry, or [] for an unsupported form.

    `entry` is the parsed node of the server, and `key` the key of its command.
    """
    command_pair, args_node = _pair(entry, key), _value_node(entry, "args")
    if command_pair is None or not _is_one_line(command_pair[1], text):
        return []
    start, stop = _span(command_pair[1])
    words = [*map(json.dumps, (*command[1:], *TAP)), text[start:stop]]
    program_edit = (start, stop, json.dumps(command[0]))
    return [program_edit, *_insert_words(text, entry, command_pair, args_node, words)]


def _insert_words(text: str, entry: Any, command_pair: Any, args_node: Any, words: Sequence[str]) -> _Edits:
    """Return edits that insert `words` at the start of the arguments, or [] for an unsupported form.

    `command_pair` has the nodes of the command's key and value. `args_node` is None if there is no `args`.
    """
    if args_node is None:
        command_end = _span(command_pair[1])[1]
        return [(command_end, command_end, _new_args(text, entry.flow_style, command_pair, words))]
    start, stop = _span(args_node)
    if args_node.id == "scalar":  # null or an empty value
        blank = "" if text[start - 1 : start].isspace() else " "
        return [(start, stop, f"{blank}[{', '.join(words)}{_EMPTY}]")]
    if text[start] not in "[-":  # an anchor
        return []
    if args_node.flow_style:
        if not args_node.value:
            return [(start + 1, start + 1, ", ".join(words) + _EMPTY)]
        start = _span(args_node.value[0])[0]
        return [(start, start, "".join(f"{word}, " for word in words))]
    line_start = _new_line(text, args_node.start_mark.column, start)
    return [(start, start, "".join(f"- {word}{line_start}" for word in words))]


def _new_args(text: str, is_flow: bool, command_pair: Any, words: Sequence[str]) -> str:
    """Return the text of arguments to add after the command of an entry without arguments."""
    if is_flow:
        return f", args: [{', '.join(words)}]"
    key_node, command_node = command_pair
    line_start = _new_line(text, key_node.start_mark.column, _span(command_node)[1])
    return f"{line_start}args:" + "".join(f"{line_start}- {word}" for word in words)


def _without_tap(text: str, key: str, tap_args: Sequence[str], entry: Any) -> _Edits:
    """Return edits that remove the tap, or [] if the tap does not have the form that `wrapped` writes.

    `entry` is the parsed node of the server, and `key` the key of its command.
    """
    command_pair, args_node = _pair(entry, key), _value_node(entry, "args")
    if command_pair is None or args_node is None or args_node.id != "sequence":
        return []
    elements = args_node.value
    own_command = elements[len(tap_args)]
    own_text = text[slice(*_span(own_command))]
    command_start, command_end = _span(command_pair[1])
    edits = [(command_start, command_end, own_text)]
    inserted_args = _new_args(text, entry.flow_style, command_pair, [*map(json.dumps, tap_args), own_text])
    if text.startswith(inserted_args, command_end) and len(elements) == len(tap_args) + 1:
        return [*edits, (command_end, command_end + len(inserted_args), "")]
    start, stop = _span(elements[0])[0], _span(own_command)[1]
    if len(elements) > len(tap_args) + 1:
        stop = _span(elements[len(tap_args) + 1])[0]
        if not args_node.flow_style:  # a block list: the edit begins at a dash
            start, stop = text.rfind("-", 0, start), text.rfind("-", 0, stop)
    elif args_node.flow_style:
        had_empty_list = text.startswith(f"{_EMPTY}]", stop)
        stop += len(_EMPTY) if had_empty_list else 0
    else:
        return []
    return [*edits, (start, stop, "")]


def _edited(
    text: str, server: _Server, edit: Callable[[Any], _Edits], expected_entry: Mapping[str, Any]
) -> str | None:
    """Return the text after editing a server's entry, or None if the result does not parse as expected."""
    entry = _node_at(text, server.keys)
    if entry is None or entry.id != "mapping":
        return None
    edited = text
    for start, stop, replacement in sorted(edit(entry), reverse=True):
        edited = edited[:start] + replacement + edited[stop:]
    expected = copy.deepcopy(from_yaml(text))
    parent = expected
    for key in server.keys[:-1]:
        parent = parent[key]
    parent[server.keys[-1]] = expected_entry
    try:
        return edited if edited != text and from_yaml(edited) == expected else None
    except YamlFault:
        return None


def _node_at(text: str, keys: Sequence[str | int]) -> Any:
    """Return the node of an entry, or None if the entry comes from a merge key (`<<`)."""
    import yaml

    # libyaml's loader is not used: if the text begins with a byte order mark, its positions are too small by
    # one.
    node: Any = yaml.compose(text, yaml.SafeLoader)
    for key in keys:
        if isinstance(key, int):
            node = node.value[key]
        elif (node := _value_node(node, key)) is None:
            return None
    return node


def _pair(node: Any, key: str) -> Any:
    """Return the nodes of a key and its value, or None. If a key is repeated, the last one counts."""
    pairs = (pair for pair in reversed(node.value) if pair[0].id == "scalar" and pair[0].value == key)
    return next(pairs, None)


def _value_node(node: Any, key: str) -> Any:
    """Return the node of the value of a key, or None if the mapping does not have the key."""
    pair = _pair(node, key)
    return None if pair is None else pair[1]


def _is_one_line(node: Any, text: str) -> bool:
    """Return True if a value is a scalar on a single line."""
    return node.id == "scalar" and node.style not in ("|", ">") and "\n" not in text[slice(*_span(node))]


def _span(node: Any) -> tuple[int, int]:
    """Return the start and the exclusive end of a node in the text."""
    return node.start_mark.index, node.end_mark.index


def _new_line(text: str, column: int, position: int) -> str:
    """Return a line break as at the end of the line at `position`, and blanks up to `column`."""
    end = text.find("\n", position)
    line_break = "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"
    return line_break + " " * column
