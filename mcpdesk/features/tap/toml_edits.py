"""Insertion of taps into Codex's configuration file, which is TOML, and removal of taps.

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
"""Pattern for a string on one line."""
_TABLE = re.compile(r"(?m)^[ \t]*\[(?P<key>[^\[\]\r\n]+)\][ \t]*(?:#[^\r\n]*)?\r?$")
_COMMAND = re.compile(rf"(?m)^[ \t]*command[ \t]*=[ \t]*(?P<value>{_LITERAL})")
_ARGS = re.compile(r"(?m)^[ \t]*args[ \t]*=[ \t]*\[")
_NEW_ARGS = "\nargs = "
"""Text between a command and the arguments that `wrapped` adds to it."""
_INLINE_TABLE = re.compile(rf"(?P<key>[A-Za-z0-9_-]+|{_LITERAL})[ \t]*=[ \t]*\{{")
_INLINE_COMMAND = re.compile(r"(?:^|,)\s*command[ \t]*=[ \t]*(?P<value>\"_*\"|'_*')")
_INLINE_ARGS = re.compile(r"(?:^|,)\s*args[ \t]*=[ \t]*\[")
_NEW_INLINE_ARGS = ", args = "
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]')


class _Body(Struct, frozen=True):
    """Content of a server's table."""

    text: str
    new_args: str
    """Text to insert between a command and the arguments that `wrapped` adds to it."""
    command_span: tuple[int, int] | None
    """Start and end of the command's text, or None if there is no command."""
    args_start: int | None
    """Start of the first argument, after the bracket, or None if there are no arguments."""


def wrapped(text: str, command: Sequence[str], names: Collection[str] = ()) -> ConfigEdit:
    """Insert the tap before the servers in `names` that are programs, or before every program."""
    changed, unchanged = list[str](), dict[str, str]()
    insert = partial(_with_tap, command)
    for name, server in _servers(text):
        if names and name not in names:
            continue
        if reason := _unchanged_reason(server):
            unchanged[name] = reason
            continue
        args = [*command[1:], *TAP, server["command"], *server.get("args", ())]
        edited = _edited(text, name, insert, server | {"command": command[0], "args": args})
        if edited is None:
            unchanged[name] = f"{NOT_EDITED}; add the tap by hand"
        else:
            text = edited
            changed.append(name)
    return ConfigEdit(text, tuple(changed), unchanged)


def _with_tap(command: Sequence[str], body: _Body) -> str:
    """Return a server's table with the tap, started by `command`. Without a command, return it unchanged."""
    if body.command_span is None:
        return body.text
    start, stop = body.command_span
    own_command = body.text[start:stop]
    tap_text = ", ".join(map(_quoted, (*command[1:], *TAP)))
    edits = [(start, stop, _quoted(command[0]))]
    if body.args_start is None:
        edits.append((stop, stop, f"{body.new_args}[{tap_text}, {own_command}]"))
    else:
        edits.append((body.args_start, body.args_start, f"{tap_text}, {own_command}, "))
    return _with_edits(body.text, edits)


def unwrapped(text: str) -> ConfigEdit:
    """Remove the tap from all servers."""
    changed: list[str] = []
    for name, server in _servers(text):
        tap_words = _tap_words(server)
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
    text, args_start = body.text, body.args_start
    if body.command_span is None or args_start is None:
        return text
    tap_text = ", ".join(map(_quoted, tap_words))
    pattern = re.compile(rf"{re.escape(tap_text)}, (?P<own>{_LITERAL})(?P<more>, )?")
    inserted = pattern.match(text, args_start)
    if inserted is None:
        return text
    _, command_stop = body.command_span
    new_args = f"{body.new_args}["
    is_new = text.startswith(new_args, command_stop) and args_start == command_stop + len(new_args)
    start, stop = inserted.span()
    if is_new and not inserted["more"] and text.startswith("]", stop):
        start, stop = command_stop, stop + 1
    return _with_edits(text, [(*body.command_span, inserted["own"]), (start, stop, "")])


def repaired(text: str, command: Sequence[str], is_dead: Callable[[Sequence[str]], bool]) -> ConfigEdit:
    """Replace the command of each entry that starts `mcpdesk stdio`, if `is_dead(command)` returns True."""
    changed, unchanged = list[str](), dict[str, str]()
    for name, server in _servers(text):
        program: Any = server.get("command")
        args: Any = server.get("args")
        own_words = own_arguments(program, args)
        if own_words is None or args[len(own_words) : len(own_words) + 1] != ["stdio"]:
            continue
        if not is_dead((program, *own_words)):
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
    """Return a server's table with `command` in place of its command and its first `count` arguments.

    If the table has another form, return it unchanged.
    """
    if body.command_span is None or body.args_start is None:
        return body.text
    pattern = re.compile(rf"\s*(?P<ours>(?:(?:{_LITERAL})\s*,\s*){{{count}}})")
    old_args = pattern.match(body.text, body.args_start)
    if old_args is None:
        return body.text
    new_args = "".join(f"{_quoted(word)}, " for word in command[1:])
    program_edit = (*body.command_span, _quoted(command[0]))
    return _with_edits(body.text, [program_edit, (*old_args.span("ours"), new_args)])


def server_names(text: str) -> list[str]:
    """Return the names of all servers."""
    return [name for name, _ in _servers(text)]


def _servers(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the name and the entry of every server."""
    section = tomllib.loads(text.removeprefix("\ufeff")).get(SECTION)
    servers = section.items() if isinstance(section, dict) else ()
    return [(name, server) for name, server in servers if isinstance(server, dict)]


def _unchanged_reason(server: dict[str, Any]) -> str:
    """Return the reason why no tap can be inserted before a server, or ""."""
    if _tap_words(server):
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


def _tap_words(server: dict[str, Any]) -> tuple[str, ...]:
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
    """Yield the start and the content of every text that may be the table of a server."""
    headers = list(_TABLE.finditer(text))
    for position, header in enumerate(headers):
        if _parsed_key(header["key"]) == {SECTION: {name: {}}}:
            stop = headers[position + 1].start() if position + 1 < len(headers) else len(text)
            yield header.end(), _body(text[header.end() : stop])
    for opening in _INLINE_TABLE.finditer(text):
        body = _inline_body(text, opening.end()) if _parsed_key(opening["key"]) == {name: {}} else None
        if body is not None:
            yield opening.end(), body


def _parsed_key(key: str) -> dict[str, Any] | None:
    """Return the nested tables that a dotted key names, or None if the key is invalid."""
    try:
        return tomllib.loads(f"[{key}]")
    except tomllib.TOMLDecodeError:
        return None


def _body(text: str) -> _Body:
    """Return the content of a table with a header. `text` is the text after the header."""
    command, args = _COMMAND.search(text), _ARGS.search(text)
    return _Body(text, _NEW_ARGS, command and command.span("value"), args and args.end())


def _inline_body(text: str, start: int) -> _Body | None:
    """Return the inline table whose content begins at `start`, or None if the table is not terminated."""
    masked: list[str] = []
    """Pieces of the content. The inside of strings, lists and tables is replaced by other characters."""
    depth, previous_end = 0, start
    for match in _TOKEN.finditer(text, start):
        between, token = text[previous_end : match.start()], match[0]
        masked.append(between if not depth else "." * len(between))
        previous_end = match.end()
        if token == "}" and not depth:
            body, masked_body = text[start : match.start()], "".join(masked)
            command, args = _INLINE_COMMAND.search(masked_body), _INLINE_ARGS.search(masked_body)
            return _Body(body, _NEW_INLINE_ARGS, command and command.span("value"), args and args.end())
        depth -= token in "]}"
        if depth:
            masked.append("." * len(token))
        else:
            masked.append(token[0] + "_" * (len(token) - 2) + token[-1] if len(token) > 1 else token)
        depth += token in "[{"
    return None


def _with_edits(text: str, edits: list[tuple[int, int, str]]) -> str:
    """Return the text with edits applied. An edit is a start, an exclusive end, and the replacement."""
    for start, stop, replacement in sorted(edits, reverse=True):
        text = text[:start] + replacement + text[stop:]
    return text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
