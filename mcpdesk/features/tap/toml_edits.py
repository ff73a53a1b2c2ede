"""Inserts and removes the tap in Codex's configuration file, which is TOML.

The command and the arguments in a table `[mcp_servers.NAME]` or in an inline table are edited. An edit is
used only if the edited file parses exactly to the expected content. An entry in any other form is not
changed.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from mcpdesk.client.configs.own_program import own_arguments
from mcpdesk.features.tap.json_edits import NO_PROGRAM, TAP, URLS, ConfigEdit, is_served, tap_of

SECTION = "mcp_servers"
NOT_EDITED = "its form cannot be edited"
_LITERAL = r""""(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'"""
_TABLE = re.compile(r"(?m)^[ \t]*\[(?P<key>[^\[\]\r\n]+)\][ \t]*(?:#[^\r\n]*)?\r?$")
_COMMAND = re.compile(rf"(?m)^[ \t]*command[ \t]*=[ \t]*(?P<value>{_LITERAL})")
_ARGS = re.compile(r"(?m)^[ \t]*args[ \t]*=[ \t]*\[")
_NEW_ARGS = "\nargs = "
_INLINE = re.compile(rf"(?P<key>[A-Za-z0-9_-]+|{_LITERAL})[ \t]*=[ \t]*\{{")
_INLINE_COMMAND = re.compile(r"(?:^|,)\s*command[ \t]*=[ \t]*(?P<value>\"_*\"|'_*')")
_INLINE_ARGS = re.compile(r"(?:^|,)\s*args[ \t]*=[ \t]*\[")
_NEW_INLINE_ARGS = ", args = "
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]')


class _Body(Struct, frozen=True):
    """Content of a server's table."""

    text: str
    new_args: str
    """Text to insert between a command and the arguments that `wrapped` adds to it."""
    command: tuple[int, int] | None
    """Start and end of the command's text."""
    args: int | None
    """Start of the first argument, after the bracket."""


def wrapped(text: str, command: Sequence[str], names: Collection[str] = ()) -> ConfigEdit:
    """Insert the tap before the servers in `names` that are programs, or before every program."""
    changed, unchanged = list[str](), dict[str, str]()
    words = ", ".join(map(_quoted, (*command[1:], *TAP)))
    for name, server in _servers(text):
        if names and name not in names:
            continue
        if reason := _reason(server):
            unchanged[name] = reason
            continue

        def insert(body: _Body) -> str:
            if body.command is None:
                return body.text
            original = body.text[slice(*body.command)]
            stop = body.command[1]
            edits = [(*body.command, _quoted(command[0]))]
            if body.args is None:
                edits.append((stop, stop, f"{body.new_args}[{words}, {original}]"))
            else:
                edits.append((body.args, body.args, f"{words}, {original}, "))
            return _applied(body.text, edits)

        args = [*command[1:], *TAP, server["command"], *server.get("args", ())]
        edited = _edited(text, name, insert, server | {"command": command[0], "args": args})
        if edited is None:
            unchanged[name] = f"{NOT_EDITED}; add the tap by hand"
        else:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), unchanged)


def unwrapped(text: str) -> ConfigEdit:
    """Remove the tap from all servers."""
    changed: list[str] = []
    for name, server in _servers(text):
        tap_words = _tap_of(server)
        if not tap_words:
            continue
        remove = partial(_without_tap, tap_words)
        args = server["args"][len(tap_words) + 1 :]
        restored = server | {"command": server["args"][len(tap_words)], "args": args}
        # `wrapped` may have added the member `args`, or the server may have had an empty list.
        without_args = {key: value for key, value in restored.items() if key != "args" or args}
        edited = _edited(text, name, remove, restored) or _edited(text, name, remove, without_args)
        if edited is not None:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), {})


def _without_tap(tap_words: Sequence[str], body: _Body) -> str:
    """Return a server's table without the tap. If `wrapped` did not write this form, return it unchanged."""
    text, command, args = body.text, body.command, body.args
    tap_text = ", ".join(map(_quoted, tap_words))
    pattern = re.compile(rf"{re.escape(tap_text)}, (?P<own>{_LITERAL})(?P<more>, )?")
    inserted = pattern.match(text, args) if args is not None else None
    if command is None or args is None or inserted is None:
        return text
    new_args = f"{body.new_args}["
    is_new = text.startswith(new_args, command[1]) and args == command[1] + len(new_args)
    start, stop = inserted.span()
    if is_new and not inserted["more"] and text.startswith("]", stop):
        start, stop = command[1], stop + 1
    return _applied(text, [(*command, inserted["own"]), (start, stop, "")])


def repaired(text: str, command: Sequence[str], is_dead: Callable[[Sequence[str]], bool]) -> ConfigEdit:
    """Replace the command of each entry that starts mcpdesk, if `is_dead` returns True for the command."""
    changed, unchanged = list[str](), dict[str, str]()
    for name, server in _servers(text):
        program: Any = server.get("command")
        args: Any = server.get("args")
        own_words = own_arguments(program, args)
        if (
            own_words is None
            or args[len(own_words) : len(own_words) + 1] != ["stdio"]
            or not is_dead((program, *own_words))
        ):
            continue
        replace_program = partial(_with_program, len(own_words), command)
        expected = server | {"command": command[0], "args": [*command[1:], *args[len(own_words) :]]}
        if (edited := _edited(text, name, replace_program, expected)) is None:
            unchanged[name] = NOT_EDITED
        else:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), unchanged)


def _with_program(count: int, command: Sequence[str], body: _Body) -> str:
    """Return a server's table with `command` in place of its command and its first `count` arguments."""
    if body.command is None or body.args is None:
        return body.text
    old = re.compile(rf"\s*(?P<ours>(?:(?:{_LITERAL})\s*,\s*){{{count}}})").match(body.text, body.args)
    if old is None:
        return body.text
    new = "".join(f"{_quoted(word)}, " for word in command[1:])
    return _applied(body.text, [(*body.command, _quoted(command[0])), (*old.span("ours"), new)])


def server_names(text: str) -> list[str]:
    """Return the names of all servers."""
    return [name for name, _ in _servers(text)]


def _servers(text: str) -> list[tuple[str, dict[str, Any]]]:
    section = tomllib.loads(text.removeprefix("\ufeff")).get(SECTION)
    servers = section.items() if isinstance(section, dict) else ()
    return [(name, server) for name, server in servers if isinstance(server, dict)]


def _reason(server: dict[str, Any]) -> str:
    """Return the reason why no tap can be inserted before a server, or ""."""
    if _tap_of(server):
        return "it is already behind the tap"
    if "command" not in server:
        is_remote = not URLS.isdisjoint(server)
        return "it is reached by a URL, so no program is started" if is_remote else NO_PROGRAM
    command, args = server["command"], server.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        return "its command and args are not a text and a list"
    if is_served(command, args):
        return "it is served by mcpdesk, whose desk shows it"
    return ""


def _tap_of(server: dict[str, Any]) -> tuple[str, ...]:
    """Return the arguments that start the tap, or an empty tuple if the server has no tap."""
    return tap_of(server.get("command"), server.get("args"))


def _edited(
    text: str, name: str, edit: Callable[[_Body], str], expected_server: dict[str, Any]
) -> str | None:
    """Return the text after editing a server's table, or None if the result does not parse as expected."""
    expected = copy.deepcopy(tomllib.loads(text.removeprefix("\ufeff")))
    expected[SECTION][name] = expected_server
    for start, body in _bodies(text, name):
        edited = text[:start] + edit(body) + text[start + len(body.text) :]
        try:
            if edited != text and tomllib.loads(edited.removeprefix("\ufeff")) == expected:
                return edited
        except tomllib.TOMLDecodeError:
            continue
    return None


def _bodies(text: str, name: str) -> Iterator[tuple[int, _Body]]:
    """Yield start and content of every possible table of a server."""
    tables = list(_TABLE.finditer(text))
    for number, table in enumerate(tables):
        if _keys(f"[{table['key']}]") == {SECTION: {name: {}}}:
            stop = tables[number + 1].start() if number + 1 < len(tables) else len(text)
            yield table.end(), _body(text[table.end() : stop])
    for table in _INLINE.finditer(text):
        if _keys(f"[{table['key']}]") == {name: {}} and (body := _inline_body(text, table.end())) is not None:
            yield table.end(), body


def _keys(table: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(table)
    except tomllib.TOMLDecodeError:
        return None


def _body(text: str) -> _Body:
    command, args = _COMMAND.search(text), _ARGS.search(text)
    return _Body(text, _NEW_ARGS, command and command.span("value"), args and args.end())


def _inline_body(text: str, start: int) -> _Body | None:
    """Return the inline table whose content begins at `start`, or None if the table is not terminated."""
    masked: list[str] = []
    """Pieces of the content. The inside of strings, lists and tables is replaced by other characters."""
    depth, last = 0, start
    for token in _TOKEN.finditer(text, start):
        between, word = text[last : token.start()], token[0]
        masked.append(between if not depth else "." * len(between))
        last = token.end()
        if word == "}" and not depth:
            body, plain = text[start : token.start()], "".join(masked)
            command, args = _INLINE_COMMAND.search(plain), _INLINE_ARGS.search(plain)
            return _Body(body, _NEW_INLINE_ARGS, command and command.span("value"), args and args.end())
        depth -= word in "]}"
        if depth:
            masked.append("." * len(word))
        else:
            masked.append(word[0] + "_" * (len(word) - 2) + word[-1] if len(word) > 1 else word)
        depth += word in "[{"
    return None


def _applied(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, stop, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[stop:]
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
